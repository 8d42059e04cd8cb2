"""What of Kubernetes' objects goes to the master: conditions and warnings as they are, bounded. Pure.

What they mean is judged there (master/nodeconditions.py). Shapes: kubernetes.io, API reference, `v1.Node` and
`v1.Event`; an event of `events.k8s.io` is served in the form of `v1` as well.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from agent.clock import rfc3339
from agent.wire import MAX_CONDITIONS, MAX_MESSAGE

_MAX_WORD = 256  # characters
_STATES = frozenset({"True", "False", "Unknown"})
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def conditions_of(node: Mapping[str, Any]) -> list[dict[str, str]]:
    """Those of a node, in its order (agent/wire.py: Kubernetes). What is no condition is left out.

    One that does not say since when it is so has been so since the node is there.
    """
    told = _map(node.get("status")).get("conditions")
    born = _map(node.get("metadata")).get("creationTimestamp")
    found = [_condition(one, born) for one in told] if isinstance(told, list) else []
    return [one for one in found if one is not None][:MAX_CONDITIONS]


def warnings_of(events: Iterable[Mapping[str, Any]]) -> list[tuple[str, dict[str, str]]]:
    """Each with its object's name, the oldest first. What lacks a name, a reason or a time is left out."""
    found = [told for one in events if (told := _event(one)) is not None]
    return sorted(found, key=lambda one: one[1]["at"])


def _condition(one: object, born: object) -> dict[str, str] | None:
    condition = _map(one)
    kind, status = _text(condition.get("type")), _text(condition.get("status"))
    since = _moment(condition.get("lastTransitionTime")) or _moment(born)
    if not kind or status not in _STATES or since is None:
        return None
    return {"type": kind, "status": status, **_why(condition), "since": since}


def _event(event: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    name = _text(_map(event.get("metadata")).get("name"))
    series = _map(event.get("series")).get("lastObservedTime")  # of events.k8s.io, where one goes on
    times = (event.get("lastTimestamp"), series, event.get("eventTime"))
    at = max((moment for time in times if (moment := _moment(time))), default="")
    by = _text(_map(event.get("source")).get("component")) or _text(event.get("reportingComponent"))
    if not (name and event.get("reason") and at) or event.get("type") != "Warning":
        return None
    return name, {"component": by, **_why(event), "at": at}


def _why(told: Mapping[str, Any]) -> dict[str, str]:
    return {"reason": _text(told.get("reason")), "message": _text(told.get("message"), MAX_MESSAGE)}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object, longest: int = _MAX_WORD) -> str:
    """Bounded, and without halves of characters: no JSON takes those."""
    return value[:longest].encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def _moment(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return rfc3339(moment) if moment.tzinfo is not None and moment >= _FIRST else None
    except (ValueError, OverflowError):
        return None
