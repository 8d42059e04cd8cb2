"""What a webhook says, in its three formats: our own, CloudEvents 1.0, Alertmanager's version 4."""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from channels import alertmanager, escaping
from channels.base import Message

MAX_TITLE = 500


class Format(StrEnum):
    FAULTCAST = "faultcast"
    CLOUDEVENTS = "cloudevents"
    ALERTMANAGER = "alertmanager"


def body(message: Message, form: Format) -> dict[str, Any]:
    return _BODIES[form](document(message))


def document(message: Message) -> dict[str, Any]:
    """The `faultcast` format: the alert as it was rendered, in values that JSON has."""
    given = _plain(message.document)
    return {
        "version": "1",
        "id": None,
        "time": None,
        "item": "custom",
        "job": None,
        "event": None,
        "labels": {},
        "links": {"alert": message.link} if message.link else {},
        **given,
        "delivery_id": message.id,
        "severity": message.severity.value,
        "status": message.status,
        "title": escaping.one_line(message.title, MAX_TITLE),
        "text": escaping.clean(message.plain),
    }


def cloudevent(alert: Mapping[str, Any]) -> dict[str, Any]:
    """CloudEvents 1.0, structured mode."""
    event = {
        "specversion": "1.0",
        "id": alert["delivery_id"],
        "source": "/faultcast",
        "type": f"io.faultcast.{alert['item']}",
        "time": alert["time"],
        "subject": alertmanager.job_name(alert),
        "datacontenttype": "application/json",
        "data": dict(alert),
    }
    return {name: value for name, value in event.items() if value is not None}


def _plain(value: Any) -> Any:
    """JSON has no NaN, and a moment is text in it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)


_BODIES: dict[Format, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    Format.FAULTCAST: dict,
    Format.CLOUDEVENTS: cloudevent,
    Format.ALERTMANAGER: alertmanager.body,
}
