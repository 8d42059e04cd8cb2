"""What a webhook says, in its three formats: our own, CloudEvents 1.0, Alertmanager's version 4."""

import hashlib
import math
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from channels import escaping
from channels.base import Message

FIRING = "firing"
NEVER = "0001-01-01T00:00:00Z"  # how Alertmanager writes that an alert has not ended
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
        "subject": _job_name(alert),
        "datacontenttype": "application/json",
        "data": dict(alert),
    }
    return {name: value for name, value in event.items() if value is not None}


def alertmanager(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Alertmanager's webhook body, version 4; a digest is a group of several alerts."""
    members = [{**alert, **member} for member in alert.get("alerts") or [] if isinstance(member, Mapping)]
    alerts = [_prometheus_alert(one) for one in members or [dict(alert)]]
    common = dict(set.intersection(*(set(one["labels"].items()) for one in alerts)))
    notes = dict(set.intersection(*(set(one["annotations"].items()) for one in alerts)))
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{alert["item"]}"}}',
        "truncatedAlerts": 0,
        "status": alert["status"],
        "receiver": "faultcast",
        "groupLabels": {"alertname": str(alert["item"])},
        "commonLabels": common,
        "commonAnnotations": notes,
        "externalURL": _link(alert),
        "alerts": alerts,
    }


def _prometheus_alert(alert: Mapping[str, Any]) -> dict[str, Any]:
    job = _job_name(alert)
    labels = {str(name): str(value) for name, value in (alert.get("labels") or {}).items()}
    labels |= {"alertname": str(alert["item"]), "severity": str(alert["severity"])}
    if job:
        labels["job"] = job
    started = str(alert.get("created_at") or alert.get("time") or NEVER)
    is_firing = alert["status"] == FIRING
    identity = "\n".join(f"{name}={labels[name]}" for name in sorted(labels))
    return {
        "status": alert["status"],
        "labels": labels,
        "annotations": {"summary": str(alert["title"]), "description": str(alert["text"])},
        "startsAt": started,
        "endsAt": NEVER if is_firing else str(alert.get("resolved_at") or alert.get("time") or NEVER),
        "generatorURL": _link(alert),
        "fingerprint": _fingerprint(f"{alert.get('id')}\n{identity}"),
    }


def _job_name(alert: Mapping[str, Any]) -> str | None:
    job = alert.get("job")
    return str(job.get("name") or job.get("id")) if isinstance(job, Mapping) else None


def _link(alert: Mapping[str, Any]) -> str:
    return str(next(iter((alert.get("links") or {}).values()), ""))


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
    Format.ALERTMANAGER: alertmanager,
}


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
