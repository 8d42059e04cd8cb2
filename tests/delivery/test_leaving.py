"""What an adapter or anything else raises to end its process (SystemExit) ends no thread of a worker."""

import pkgutil
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from channels import registry
from channels.answers import Call, Reading
from channels.base import Part
from channels.webhook import Webhook
from notifier.clock import utcnow
from notifier.model import Followup

if TYPE_CHECKING:
    from notifier.engine import Engine
    from tests.delivery.conftest import House

pytestmark = [pytest.mark.timeout(60), pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)]
THREADS = {"lane", "claimer", "keeper", "reaper", "asking", "follower", "finisher", "foreman"}


class LeavesMaking(Webhook):
    kind: ClassVar[str] = "leaves_making"

    def parts(self, *_: object) -> list[Part]:
        raise SystemExit(3)


class LeavesCalling(Webhook):
    kind: ClassVar[str] = "leaves_calling"

    def call(self, *_: object) -> Call:
        raise KeyboardInterrupt


class LeavesReading(Webhook):
    kind: ClassVar[str] = "leaves_reading"

    def read(self, *_: object) -> Reading:
        raise SystemExit(3)


KINDS = {one.kind: f"{__name__}:{one.__name__}" for one in (LeavesMaking, LeavesCalling, LeavesReading)}


def threads() -> set[str]:
    return {one.name for one in threading.enumerate()} & THREADS


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_that_leaves_takes_nobody_along(
    house: "House", kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_CLASSES", {**registry._CLASSES, **KINDS})
    odd = house.channel("odd", kind, url=house.providers.robot("webhook").url)
    well = house.channel("well")
    with house.working(2) as engine:
        ill = [house.alert(odd)[0] for _ in range(3)]
        engine.wake(house.shards)
        house.told(*ill, state="retrying")
        house.told(*house.alert(well))
        assert threads() == THREADS
        assert engine._slots.busy == 0


PLACES: dict[str, tuple[str, str]] = {
    "claimer": ("notifier.engine", "due_shards"),
    "keeper": ("notifier.keeping", "renew"),
    "reaper": ("notifier.engine", "reap"),
    "asking": ("notifier.asking.receipts", "any_due"),
    "follower": ("notifier.following", "follow"),
    "finisher": ("notifier.finishing", "finish"),
    "lane": ("notifier.lane", "count_first"),
}


@pytest.mark.parametrize(("module", "name"), PLACES.values(), ids=PLACES)
def test_nothing_that_is_raised_ends_a_thread(
    house: "House", module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifier.engine.REAP_EVERY_S", 0.05)
    monkeypatch.setattr("notifier.keeping.RENEW_EVERY_S", 0.05)
    left = threading.Event()
    monkeypatch.setattr(f"{module}.{name}", leaving_once(f"{module}.{name}", left))
    channel = house.channel()
    with house.working() as engine:
        follow_something(house, channel)
        hold_something(engine)
        house.until(left.is_set)
        house.told(*house.alert(channel))
        house.until(lambda: threads() == THREADS)


def leaving_once(path: str, left: threading.Event) -> Callable[..., Any]:
    found: Callable[..., Any] = pkgutil.resolve_name(path)

    def once(*given: Any, **more: Any) -> Any:
        if not left.is_set():
            left.set()
            raise SystemExit(3)
        return found(*given, **more)

    return once


def follow_something(house: "House", channel: str) -> None:
    (one,) = house.alert(channel)
    with house.store.write() as session:
        alert = house.row(one).alert_id
        session.add(Followup(alert_id=alert, kind="unsilence", n=0, spec={}, due_at=utcnow()))


def hold_something(engine: "Engine") -> None:
    """So that there is a lease to be renewed."""
    engine._tools.leases.hold(["dlv_of_nobody"], "token", time.monotonic())
