"""Long lists go on on further pages, by whatever name and scheme the console is reached."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest

from master.model import FaultEventRow, Job
from notifier.clock import utcnow
from notifier.ids import new_id
from notifier.model import Alert, Channel, Delivery, Oncall, Silence
from notifier.storage import Store
from tests.console.conftest import row

SignIn = Callable[..., Any]  # a browser of conftest.py
JUST_MORE = 51
NOW = utcnow()
LIST = {"turn": "daily", "handover": "09:00", "weekday": None, "timezone": None, "start": "2026-11-30"}
FAULT = {
    "job_id": "job_1", "time": NOW, "confidence": 0.5, "fault_class": "hang", "cause": "hang",
    "culprit": {}, "evidence": [],
    "reason": {"en": "r"}, "advice": {"en": "a"}, "decision": {"action": "none", "why": {"en": "w"}},
}  # fmt: skip
JOB = {"status": "Running", "spec": {}, "fault_tolerance": {}, "warnings": []}
LISTS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "/": (Job, JOB),
    "/events": (FaultEventRow, FAULT),
    "/alerts?show=all": (Alert, {"status": "firing", "severity": "error", "labels": {}, "context": {}}),
    "/deliveries?channel=x": (Delivery, {"channel": "x", "state": "pending"}),
    "/channels": (Channel, {"kind": "wecom", "config": {}, "health": "ok"}),
    "/silences": (Silence, {"ends_at": NOW + timedelta(hours=1)}),
    "/oncall": (Oncall, {"spec": {**LIST, "people": [{"name": "li", "channels": ["x"]}], "overrides": []}}),
}


def made(table: type[Any], n: int, given: dict[str, Any]) -> Any:
    more = {name: value for name, value in (("name", f"n{n}"), ("run", n)) if hasattr(table, name)}
    return row(table, id=new_id("row", NOW), pool="p", **more, **given)


def to(text: str, words: str) -> str | None:
    found = re.search(rf'<a href="([^"]*)">{words}</a>', text)
    return unescape(found[1]) if found else None


@pytest.mark.parametrize("path", LISTS)
def test_a_long_list_goes_on_wherever_the_console_is(browser: SignIn, store: Store, path: str) -> None:
    """A proxy speaks TLS and has a name and port of its own: what pages lead to are paths."""
    table, given = LISTS[path]
    with store.write() as session:
        if table is FaultEventRow:
            session.add(row(Job, id="job_1", pool="p", name="j", **JOB))
        session.add_all(made(table, n, given) for n in range(JUST_MORE))
    visitor = browser()
    first = visitor.get(path)
    older = to(first.text, "older →")
    assert older is not None
    assert older.startswith(f"{path}{'&' if '?' in path else '?'}cursor=")
    assert "http://console" not in first.text
    second = visitor.get(older)
    assert (second.status_code, to(second.text, "older →"), to(second.text, "← newest")) == (200, None, path)


@pytest.mark.parametrize("path", ["/alerts/", "/deliveries/x/"])
def test_nothing_leads_to_another_scheme(browser: SignIn, path: str) -> None:
    answer = browser().get(path)
    assert "://" not in answer.headers.get("location", "")
