"""Kill -9 of the server around its answer: what was not promised may be sent again, and is told once."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import func, select

from master.runtimes.local import LocalRuntime
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.model import Alert

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = [pytest.mark.timeout(150), pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)]
ALERT = {"source": "t", "severity": "error", "title": "it broke", "channels": ["ops"], "dedup_key": "k"}


@contextmanager
def server(house: "House", url: str, **environment: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """`faultcast server`, without a bell; its address and its process."""
    command: Sequence[str | Path] = [Path(sys.executable).with_name("faultcast"), "server"]
    ready, say_ready = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptors = ["--listen-fd", str(listener.fileno()), "--ready-fd", str(say_ready)]
        known = {
            "PATH": os.environ["PATH"],
            "FAULTCAST_DATA_DIR": str(house.settings.data_dir),
            "FAULTCAST_DATABASE_URL": url,
            "FAULTCAST_SECRET_KEY": "a key for tests, long enough",
        }
        process = subprocess.Popen(
            [*command, *descriptors], env={**known, **environment}, pass_fds=(listener.fileno(), say_ready)
        )
        os.close(say_ready)
        try:
            assert os.read(ready, 1), "the server did not start"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", process
        finally:
            process.kill()
            process.wait()
            os.close(ready)
            LocalRuntime(house.settings.data_dir, 3).shutdown()  # the nodes' agents outlive a server


def alerts(house: "House") -> int:
    with house.store.read() as session:
        return session.scalar(select(func.count()).select_from(Alert)) or 0


def test_an_alert_is_told_once_however_often_the_server_died_of_it(house: "House", database_url: str) -> None:
    house.channel("ops")
    with house.store.write() as session:
        _, token = create_token(session, NewToken("t", Role.ADMIN), utcnow())
    headers = {"Authorization": f"Bearer {token}"}
    for point, kept in (("accepted", 0), ("committed", 1)):
        with server(house, database_url, FAULTCAST_FAULTPOINT=f"{point}:1:kill") as (url, process):
            with pytest.raises(httpx.TransportError):
                httpx.post(f"{url}/api/v1/alerts", json=ALERT, headers=headers, timeout=30)
            assert process.wait(30) == -signal.SIGKILL
        assert alerts(house) == kept
    with server(house, database_url) as (url, _):
        answer = httpx.post(f"{url}/api/v1/alerts", json=ALERT, headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["deliveries"]) == (202, [])
    (one,) = [row.id for row in house.rows()]
    with house.working():
        house.told(one)
    assert house.arrived() == ["it broke"]
