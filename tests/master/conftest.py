"""The control loop over a real database and a runtime whose pods do what the test says."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import structlog

from channels.transport import Network
from notifier.api.deps import Services
from notifier.doorbell import Bell
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Store
from tests.master.virtual import VirtualRuntime
from tests.master.world import World


def _no_errors(_logger: Any, level: str, event: dict[str, Any]) -> str:
    """What the control loop's border catches is a bug: here it fails the test."""
    assert level not in {"error", "exception", "critical"}, event
    return str(event)


@pytest.fixture
def engine_name() -> str:
    """SQLite; what depends on the database's dialect is tested on `both` (tests/master/world.py)."""
    return "sqlite"


@pytest.fixture(autouse=True)
def loud_border() -> Iterator[None]:
    structlog.configure(processors=[structlog.processors.format_exc_info, _no_errors])
    yield
    structlog.reset_defaults()


@pytest.fixture
def services(store: Store, tmp_path: Path, database_url: str) -> Iterator[Services]:
    settings = Settings(
        _env_file=None, data_dir=tmp_path, database_url=database_url, secret_key="a-secret-key-of-tests"
    )
    bell = Bell(None)
    yield Services(
        store, settings, open_box(settings, store), bell, Network(allow=(ip_network("127.0.0.0/8"),))
    )
    bell.close()


@pytest.fixture
def runtime() -> VirtualRuntime:
    return VirtualRuntime()


@pytest.fixture
def world(services: Services, runtime: VirtualRuntime) -> World:
    return World(services, runtime)
