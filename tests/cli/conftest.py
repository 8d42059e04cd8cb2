"""The command line on a real API: `faultcast(…)` answers exit code, stdout and stderr."""

from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest
from fastapi import FastAPI

from channels.transport import Network
from master.cli import main
from notifier.api.deps import Services
from notifier.api.router import mount
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.doorbell import Bell
from notifier.secretbox import SecretBox
from notifier.settings import Settings
from notifier.storage import Store, make_engine
from tests.cli.playedserver import only_asking
from tests.serving import served

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def server(sqlite_url: str, tmp_path: Path) -> Iterator[str]:
    """The notifier's API behind a real port; answers its address and leaves an admin's token in place."""
    engine = make_engine(sqlite_url)
    store = Store(engine)
    settings = Settings(_env_file=None, data_dir=tmp_path, database_url=sqlite_url)
    # The proxy is nobody: nothing leaves this machine.
    network = Network(allow=(ip_network("127.0.0.0/8"),), proxy="http://127.0.0.1:9")
    app = FastAPI(title="Faultcast", version="1")
    mount(app, Services(store, settings, SecretBox("a-secret-key-of-tests"), Bell(None), network))
    with store.write() as session:
        _, token = create_token(session, NewToken("ops", Role.ADMIN), utcnow())
    (tmp_path / "admin.token").write_text(token)
    with served(app) as url:
        yield url
    engine.dispose()


@pytest.fixture
def faultcast(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: str
) -> Run:
    only_asking(server, monkeypatch, tmp_path, data_dir=tmp_path)
    monkeypatch.setenv("DING_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("MAIL_PASSWORD", "first")

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        return int(str(ended.value.code)), out, err

    return run
