"""Alertmanager's webhook body, version 4, as alerts of ours. Pure.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from channels.alertmanager import NEVER
from notifier.alertdocuments import EXPIRES_S, MAX_LABELS, MAX_TEXT
from notifier.alerts import NewAlert
from notifier.directory import KnownJob
from notifier.documents import written
from notifier.lasting import FIRING
from notifier.severities import severity_named
from notifier.wording import clip, one_line

SOURCE = "alertmanager"
CUT_OFF = "AlertmanagerTruncated"
MAX_ALERTS = 5000
MAX_TITLE, MAX_KEY, MAX_VALUE, MAX_URL = 500, 128, 1024, 2000
_TITLES = ("summary", "title", "message")
_TEXTS = ("description", "message", "details")
_LINKS = ("runbook_url", "runbook", "dashboard_url", "dashboard")
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


def _known_moment(value: object) -> object:
    """Go's zero time means that there is none."""
    return None if isinstance(value, str) and value.startswith(NEVER[:10]) else written(value)


def _in_range(moment: datetime | None) -> datetime | None:
    if moment is not None and not _FIRST <= moment <= _LAST:
        raise ValueError("give a time between 1970 and 9000")
    return moment


_Moment = Annotated[AwareDatetime | None, BeforeValidator(_known_moment), AfterValidator(_in_range)]
_Pairs = dict[str, str]


class _Foreign(BaseModel):
    """What newer versions add is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class PrometheusAlert(_Foreign):
    status: Literal["firing", "resolved"]
    labels: _Pairs
    annotations: _Pairs = Field(default_factory=dict)
    starts_at: _Moment = Field(default=None, alias="startsAt")
    ends_at: _Moment = Field(default=None, alias="endsAt")
    generator_url: str = Field(default="", alias="generatorURL")
    fingerprint: Annotated[str, Field(max_length=64)] = ""

    @cached_property
    def key(self) -> str:
        """By what it is known again; Alertmanager itself always says."""
        labels = json.dumps(self.labels, sort_keys=True).encode()
        return self.fingerprint or hashlib.sha256(labels).hexdigest()[:16]

    @property
    def is_firing(self) -> bool:
        return self.status == FIRING

    @property
    def name(self) -> str:
        return self.labels.get("alertname", "").strip()

    @property
    def title(self) -> str:
        return one_line(_first(self.annotations, _TITLES) or self.name or "alert without a name", MAX_TITLE)

    @property
    def text(self) -> str:
        """The description, and where to read on, as text: no address of others becomes a link of ours."""
        said = _first(self.annotations, _TEXTS)
        said = "" if said == _first(self.annotations, _TITLES) else said
        lines = [f"{name}: {url}" for name, url in self.links.items() if name != "source"]
        return clip("\n".join(part for part in (said, *lines) if part), MAX_TEXT)

    @property
    def links(self) -> dict[str, str]:
        given = {name: self.annotations.get(name, "") for name in _LINKS} | {"source": self.generator_url}
        return {name: url for name, url in given.items() if _is_address(url)}

    @property
    def kept_labels(self) -> dict[str, str]:
        """All of them, or as many and as much as an alert keeps; that some are missing is shown."""
        pairs = [(clip(name, MAX_KEY), clip(value, MAX_VALUE)) for name, value in self.labels.items()]
        kept = dict(pairs[:MAX_LABELS] if len(pairs) <= MAX_LABELS else pairs[: MAX_LABELS - 1])
        return kept if len(pairs) == len(kept) else {**kept, "…": f"+{len(pairs) - len(kept)}"}


class AlertmanagerBody(_Foreign):
    """What Alertmanager posts to a `webhook_config`."""

    version: Literal["4"]
    alerts: Annotated[list[PrometheusAlert], Field(max_length=MAX_ALERTS)]
    receiver: str = ""
    group: str = Field(default="", alias="groupKey")
    truncated: Annotated[int, Field(alias="truncatedAlerts", ge=0)] = 0

    def latest(self) -> list[PrometheusAlert]:
        """Each alert once, as it is now, in the order in which they began.

        Whoever writes several of them does so in one order: two that wait for each other would be a deadlock.
        """
        by_key = {alert.key: alert for alert in (*self.alerts, *self._cut_off())}
        return sorted(by_key.values(), key=lambda one: (one.starts_at or _FIRST, one.key))

    def _cut_off(self) -> list[PrometheusAlert]:
        """That there are more than Alertmanager sends (its `max_alerts`) is an alert itself."""
        if not self.truncated:
            return []
        n, receiver = self.truncated, self.receiver[:MAX_KEY]
        labels = {"alertname": CUT_OFF, "severity": "warning", "receiver": receiver, "group": self.group}
        notes = {
            "summary": f"Alertmanager 还有 {n} 条告警未发来 · {n} more alerts were cut off by Alertmanager",
            "description": f"receiver {receiver}: raise its max_alerts, or group by more labels",
        }
        return [PrometheusAlert(status="firing", labels=labels, annotations=notes)]


@dataclass(frozen=True)
class Target:
    """Who is told of what comes in: the named channels, or a job's rules, or else the pool's."""

    pool: str
    queue: str
    token_id: str
    channels: tuple[str, ...] | None = None
    job: KnownJob | None = None

    def key(self, alert: PrometheusAlert) -> str:
        """Receivers that tell different people have alerts of their own."""
        whom = self.channels or (() if self.job is None else (self.job.id,))
        key = "/".join((alert.key, *sorted(whom)))
        return key if len(key) <= MAX_KEY else hashlib.sha256(key.encode()).hexdigest()


def new_alert(alert: PrometheusAlert, target: Target, job: KnownJob | None) -> NewAlert:
    """`job`: whose alert it is, by the target or by the alert's own label; its rules count unless channels
    are named."""
    scope = (job.pool, job.queue) if job and target.channels is None else (target.pool, target.queue)
    return NewAlert(
        pool=scope[0],
        queue=scope[1],
        source=SOURCE,
        token_id=target.token_id,
        dedup_key=target.key(alert),
        item="custom",
        severity=severity_named(alert.labels.get("severity")).value,
        title=alert.title,
        text=alert.text,
        labels={**(job.labels if job else {}), **alert.kept_labels},
        context={"links": alert.links} | ({"job": job.facts} if job else {}),
        job_id=job.id if job else None,
        job_name=job.name if job else None,
        channels=target.channels,
        expires=timedelta(seconds=EXPIRES_S),
    )


def _first(annotations: Mapping[str, str], names: Sequence[str]) -> str:
    return next((text for name in names if (text := annotations.get(name, "").strip())), "")


def _is_address(url: Any) -> bool:
    return isinstance(url, str) and url.startswith(("http://", "https://")) and len(url) <= MAX_URL
