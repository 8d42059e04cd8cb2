"""The notifier's API over a real database, as clients of several roles see it."""

import warnings
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest
from fastapi import FastAPI

from channels.transport import Network
from notifier.api.deps import Services
from notifier.api.router import mount
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.doorbell import Bell
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Store

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have httpx2; httpx is what we ship
    from fastapi.testclient import TestClient

LOOPBACK = (ip_network("127.0.0.0/8"),)
# Whatever is not on this machine goes to a proxy that is not there.
NOWHERE = Network(allow=LOOPBACK, proxy="http://127.0.0.1:9", no_proxy="127.0.0.1")
As = Callable[..., TestClient]


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(
        _env_file=None,
        data_dir=tmp_path,
        database_url=database_url,
        secret_key="a-secret-key-of-tests",
        allow_targets=LOOPBACK,
    )


@pytest.fixture
def services(settings: Settings, store: Store) -> Iterator[Services]:
    bell = Bell(None)
    yield Services(store, settings, open_box(settings, store), bell, NOWHERE)
    bell.close()


@pytest.fixture
def app(services: Services) -> FastAPI:
    app = FastAPI(title="Faultcast", version="1")
    mount(app, services)
    return app


@pytest.fixture
def as_(app: FastAPI, store: Store) -> Iterator[As]:
    """`as_("viewer", "pool/queue")` is a client with a token of that role and scope."""
    clients: list[TestClient] = []

    def client(role: str = "admin", scope: str | None = None) -> TestClient:
        pool, _, queue = (scope or "").partition("/")
        with store.write() as session:
            new = NewToken(f"{role}-token", Role(role), pool or None, queue or None)
            _, plaintext = create_token(session, new, utcnow())
        made = TestClient(app, base_url="http://test/api/v1", raise_server_exceptions=False)
        made.headers["Authorization"] = f"Bearer {plaintext}"
        clients.append(made)
        return made

    yield client
    for each in clients:
        each.close()


@pytest.fixture
def admin(as_: As) -> TestClient:
    return as_()
