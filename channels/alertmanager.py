"""Alertmanager's webhook body, version 4, as Alertmanager itself writes it.

The body: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config; the fingerprint:
prometheus/common, model/fnv.go and model/signature.go.
"""

import json
from collections.abc import Mapping
from typing import Any

FIRING = "firing"
VERSION = "4"
NEVER = "0001-01-01T00:00:00Z"  # how Alertmanager writes that an alert has not ended
RECEIVER = "faultcast"
GROUPED_BY = ("alert_id", "alertname")
_OFFSET, _PRIME, _SEPARATOR = 14695981039346656037, 1099511628211, b"\xff"  # FNV-1a, 64 bits
_MASK = (1 << 64) - 1


def fingerprint(labels: Mapping[str, str]) -> str:
    """By what Alertmanager knows an alert again: the hash of its labels in their order."""
    sum_ = _OFFSET
    for name in sorted(labels):
        text = name.encode("utf-8", "replace") + _SEPARATOR + labels[name].encode("utf-8", "replace")
        for byte in text + _SEPARATOR:
            sum_ = ((sum_ ^ byte) * _PRIME) & _MASK
    return f"{sum_:016x}"


def body(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Of one alert, or of a digest: a group of several, each as it is now."""
    members = [{**alert, **member} for member in alert.get("alerts") or [] if isinstance(member, Mapping)]
    alerts = list({one["fingerprint"]: one for one in map(_alert, members or [dict(alert)])}.values())
    common = _common(one["labels"] for one in alerts)
    named = () if members else GROUPED_BY
    group = {str(name): common[name] for name in named if name in common}
    route = f'{{}}/{{delivery_id="{alert["delivery_id"]}"}}' if members else "{}"
    return {
        "receiver": RECEIVER,
        "status": alert["status"],
        "alerts": alerts,
        "groupLabels": group,
        "commonLabels": common,
        "commonAnnotations": _common(one["annotations"] for one in alerts),
        "externalURL": _link(alert),
        "version": VERSION,
        "groupKey": f"{route}:{_written(group)}",
        "truncatedAlerts": 0,
    }


def _alert(alert: Mapping[str, Any]) -> dict[str, Any]:
    labels = _labels(alert)
    is_firing = alert["status"] == FIRING
    return {
        "status": alert["status"],
        "labels": labels,
        "annotations": {"summary": str(alert["title"]), "description": str(alert["text"])},
        "startsAt": str(alert.get("created_at") or alert.get("time") or NEVER),
        "endsAt": NEVER if is_firing else str(alert.get("resolved_at") or alert.get("time") or NEVER),
        "generatorURL": _link(alert),
        "fingerprint": fingerprint(labels),
    }


def _labels(alert: Mapping[str, Any]) -> dict[str, str]:
    """Those of the incident, so that its end has them too: what has recovered is the job that failed."""
    given = {str(name): str(value) for name, value in (alert.get("labels") or {}).items()}
    first = alert.get("incident")
    first = first if isinstance(first, Mapping) else {}
    labels = {
        **given,
        "alertname": given.get("alertname") or str(first.get("item") or alert["item"]),
        "severity": str(first.get("severity") or alert["severity"]),
        "alert_id": str(alert.get("id") or ""),
        "job": job_name(alert) or given.get("job", ""),
    }
    return {name: labels[name] for name in sorted(labels) if labels[name]}  # an empty label is none


def job_name(alert: Mapping[str, Any]) -> str | None:
    job = alert.get("job")
    return str(job.get("name") or job.get("id")) if isinstance(job, Mapping) else None


def _common(all_pairs: Any) -> dict[str, str]:
    sets = [set(pairs.items()) for pairs in all_pairs]
    return dict(sorted(set.intersection(*sets)))


def _written(labels: Mapping[str, str]) -> str:
    """A label set in Prometheus' notation."""
    return "{" + ", ".join(f"{name}={json.dumps(labels[name], ensure_ascii=False)}" for name in labels) + "}"


def _link(alert: Mapping[str, Any]) -> str:
    return str(next(iter((alert.get("links") or {}).values()), ""))
