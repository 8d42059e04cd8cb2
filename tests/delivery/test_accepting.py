"""Kill -9 of the server around its answer: what was not promised may be sent again, and is told once."""

import signal
from typing import TYPE_CHECKING

import httpx
import pytest
from sqlalchemy import func, select

from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.model import Alert
from tests.conftest import _free_port

if TYPE_CHECKING:
    from tests.delivery.conftest import House, Processes

pytestmark = [pytest.mark.timeout(150), pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)]
ALERT = {"source": "t", "severity": "error", "title": "it broke", "channels": ["ops"], "dedup_key": "k"}


def alerts(house: "House") -> int:
    with house.store.read() as session:
        return session.scalar(select(func.count()).select_from(Alert)) or 0


def post(port: int, token: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"http://127.0.0.1:{port}/api/v1/alerts", json=ALERT, headers=headers, timeout=30)


def test_an_alert_is_told_once_however_often_the_server_died_of_it(
    house: "House", processes: "Processes"
) -> None:
    house.channel("ops")
    with house.store.write() as session:
        _, token = create_token(session, NewToken("t", Role.ADMIN), utcnow())
    for point, kept in (("accepted", 0), ("committed", 1)):
        pid = processes.server(port := _free_port(), FAULTCAST_FAULTPOINT=f"{point}:1:kill")
        with pytest.raises(httpx.TransportError):
            post(port, token)
        assert processes.exit_code(pid) == -signal.SIGKILL
        assert alerts(house) == kept
    processes.server(port := _free_port())
    answer = post(port, token)
    assert (answer.status_code, answer.json()["deliveries"]) == (202, [])
    (one,) = [row.id for row in house.rows()]
    with house.working():
        house.told(one)
    assert house.arrived() == ["it broke"]
