"""Fixtures of the cases; what they can say is in `town.py`."""

import warnings
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from notifier.api.deps import Services
from notifier.api.router import mount
from notifier.auth import NewToken, Role, create_token
from notifier.clock import utcnow
from notifier.doorbell import Bell
from notifier.network import network_of
from tests.cases.town import Town
from tests.delivery.conftest import House, house, nursery, processes, providers

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have httpx2; httpx is what we ship
    from fastapi.testclient import TestClient

__all__ = ["house", "nursery", "processes", "providers"]


@pytest.fixture
def engine_name() -> str:
    """One database for most of the cases; those about several workers ask for both."""
    return "sqlite"


@pytest.fixture
def town(house: House) -> Iterator[Town]:
    bell = Bell(None)
    services = Services(house.store, house.settings, house.box, bell, network_of(house.settings))
    app = FastAPI(title="Faultcast", version="1")
    mount(app, services)
    with house.store.write() as session:
        _, plaintext = create_token(session, NewToken("admin", Role.ADMIN, None, None), utcnow())
    client = TestClient(app, base_url="http://test/api/v1", raise_server_exceptions=False)
    client.headers["Authorization"] = f"Bearer {plaintext}"
    with client:
        yield Town(house, client)
    bell.close()
