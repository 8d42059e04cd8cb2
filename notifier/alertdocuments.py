"""Alerts as the API takes and answers them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from channels.base import Severity
from notifier.documents import Body, ChannelName, Document, Moment, Scope, Whole, one_of, scope_of
from notifier.lasting import FIRING, RESOLVED, has_expired
from notifier.model import Alert
from notifier.problems import invalid
from notifier.rules import NOBODY_ELSE, is_no_fallback
from notifier.wording import clip

EXPIRES_S = 86_400
MAX_EXPIRES_S = 30 * EXPIRES_S
MAX_LABELS = 64
MAX_COMMENT = 1000
MAX_TEXT = 60_000  # more than any channel shows


def _shortened(limit: int) -> BeforeValidator:
    """What is too long is told in part, visibly: an alert is not refused for its length."""
    return BeforeValidator(lambda value: clip(value, limit) if isinstance(value, str) else value)


def _first_labels(value: Any) -> Any:
    if not isinstance(value, dict) or len(value) <= MAX_LABELS:
        return value
    kept = dict(list(value.items())[: MAX_LABELS - 1])
    return {**kept, "…": f"+{len(value) - len(kept)}"}


Key = Annotated[str, Field(min_length=1, max_length=128)]
Value = Annotated[str, _shortened(1024), Field(max_length=1024)]
Labels = Annotated[dict[Key, Value], BeforeValidator(_first_labels), Field(max_length=MAX_LABELS)]
Names = Annotated[list[ChannelName], Field(max_length=50)]


class AlertBody(Body):
    """An alert from outside. Named channels are told; or the rules of `job`; or else the pool's."""

    source: Annotated[str, Field(min_length=1, max_length=200)] = "api"
    item: Annotated[str, *one_of(("custom",))] = "custom"
    severity: Severity = Severity.ERROR
    status: Literal["firing", "resolved"] = "firing"
    title: Annotated[str, _shortened(500), Field(max_length=500)] = ""
    text: Annotated[str, _shortened(MAX_TEXT), Field(max_length=MAX_TEXT)] = ""
    labels: Labels = Field(default_factory=dict)
    dedup_key: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    expires_s: Annotated[Whole, Field(ge=1, le=MAX_EXPIRES_S)] = EXPIRES_S
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=50)] | None = None
    fallback: Names = Field(default_factory=list)
    job: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    scope: Scope | None = None


class AckBody(Body):
    """Whoever acknowledges may say something about it."""

    comment: Annotated[str, _shortened(MAX_COMMENT), Field(max_length=MAX_COMMENT)] | None = None


def check_body(body: AlertBody) -> None:
    """Raises a problem where fields do not go together."""
    if body.status == RESOLVED and body.dedup_key is None:
        raise invalid("dedup_key", "is missing: it says which open alert is resolved")
    if body.status == FIRING and not body.title.strip():
        raise invalid("title", "is missing: say in one line what happened")
    if body.fallback and body.channels is None:
        raise invalid("fallback", "goes with channels only: rules have their own")
    if body.channels is not None and is_no_fallback(body.channels, body.fallback):
        raise invalid("fallback", NOBODY_ELSE)
    if body.job is not None and body.channels is not None:
        raise invalid("job", "its rules say who is told: leave out channels, or the job")
    if body.job is not None and body.scope is not None:
        raise invalid("scope", "a job has its own: leave out scope")


class PublishedDocument(Document):
    id: str
    deliveries: list[str] = Field(description="empty for the repeat of an open alert")
    why: str = Field(description="why nobody, or not everybody, is told")


class AlertDocument(Document):
    """`status` is `resolved` as well once an alert was not repeated in time."""

    id: str
    scope: str
    source: str
    item: str
    items: list[str]
    severity: str
    status: str
    title: str
    text: str
    labels: dict[str, Any]
    dedup_key: str | None
    job_id: str | None
    job_name: str | None
    event_id: str | None
    why: str
    repeats: int
    created_at: Moment
    last_at: Moment
    expires_at: Moment | None
    resolved_at: Moment | None
    acked_at: Moment | None
    acked_by: str | None
    ack_comment: str | None


class FullAlertDocument(AlertDocument):
    deliveries: list[str] = Field(description="ids, in the order in which they were made")


def document(row: Alert, now: datetime) -> AlertDocument:
    is_over = has_expired(row, now)
    return AlertDocument(
        id=row.id,
        scope=scope_of(row.pool, row.queue),
        source=row.source,
        item=row.item,
        items=row.items,
        severity=row.severity,
        status=RESOLVED if is_over else row.status,
        title=row.title,
        text=row.body,
        labels=row.labels,
        dedup_key=row.dedup_key,
        job_id=row.job_id,
        job_name=row.job_name,
        event_id=row.event_id,
        why=row.why,
        repeats=row.repeats,
        created_at=row.created_at,
        last_at=row.last_at,
        expires_at=row.expires_at,
        resolved_at=row.expires_at if is_over else row.resolved_at,
        acked_at=row.acked_at,
        acked_by=row.acked_by,
        ack_comment=row.ack_comment,
    )
