"""Rows of the delivery log as the documents that the API answers."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from pydantic import Field
from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from notifier.clock import rfc3339
from notifier.documents import Document, Moment, scope_of
from notifier.model import Alert, Attempt, Delivery

ROW: Any = Delivery.__table__.c  # not as objects: a page takes half the time
# What a `DeliveryDocument` is made from.
COLUMNS = (
    ROW.id, ROW.alert_id, ROW.event_id, ROW.job_id, ROW.job_name, ROW.pool, ROW.queue, ROW.channel, ROW.kind,
    ROW.item, ROW["items"], ROW.severity, ROW.status, ROW.trigger, ROW.state, ROW.attempt_count, ROW.message,
    ROW.created_at, ROW.first_attempt_at, ROW.delivered_at, ROW.next_attempt_at, ROW.expires_at,
    ROW.error_code, ROW.error_message, ROW.error_permanent, ROW.recipients, ROW.provider_message_id,
    ROW.merged_into, ROW.is_digest, ROW.why,
)  # fmt: skip
_values = attrgetter(*(column.name for column in COLUMNS))
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MOMENTS = ("created_at", "first_attempt_at", "delivered_at", "next_attempt_at", "expires_at")


class ErrorDocument(Document):
    """The last error; `permanent`: it is not tried again."""

    code: str | None
    message: str
    permanent: bool


class RecipientDocument(Document):
    to: str
    outcome: str
    code: str | None


class SentRecipientDocument(RecipientDocument):
    """Of whom the provider gave its message an id of its own."""

    message_id: str


Recipients = list[SentRecipientDocument | RecipientDocument]


class DeliveryDocument(Document):
    """One alert for one channel. `alert_id` is null for a digest, which has `digest_of` instead."""

    id: str
    alert_id: str | None
    event_id: str | None
    job_id: str | None
    job_name: str | None
    scope: str
    channel: str
    kind: str
    item: str
    items: list[str]
    severity: str
    status: str
    trigger: str
    state: str
    attempt_count: int
    title: str = Field(description="of the message, or until it is rendered the alert's; empty once expunged")
    created_at: Moment
    first_attempt_at: Moment | None
    delivered_at: Moment | None
    latency_s: float | None = Field(description="from the alert to the provider's word")
    next_attempt_at: Moment | None
    expires_at: Moment
    error: ErrorDocument | None
    recipients: Recipients
    provider_message_id: str | None
    merged_into: str | None
    digest_of: list[str] | None
    why: str


class MessageDocument(Document):
    """As rendered for the last try."""

    title: str
    text: str
    format: str


class TemplatedMessageDocument(MessageDocument):
    """`params`: what was put into the provider's template."""

    params: dict[str, str]


class StepsDocument(Document):
    """How long each step of the last try took; what has not happened is null.

    `accepted_at` is the alert's; `waited_s` from there to the claim (or to the send, of before claims were
    noted), `rendered_s` from the claim to the send, `provider_s` from the send to the answer.
    """

    accepted_at: Moment
    claimed_at: Moment | None
    sent_at: Moment | None
    answered_at: Moment | None
    waited_s: float | None
    rendered_s: float | None
    provider_s: float | None


class AttemptDocument(Document):
    """One try to send one part; an `outcome` of null: on its way, or its worker died."""

    n: int
    part: int
    parts: int
    trigger: str
    claimed_at: Moment | None
    started_at: Moment
    finished_at: Moment | None
    latency_s: float | None
    outcome: str | None
    http_status: int | None
    provider_code: str | None
    provider_message: str | None
    possible_duplicate: bool
    recipients: Recipients
    request: str | None
    response: str | None


class FullDeliveryDocument(DeliveryDocument):
    message: TemplatedMessageDocument | MessageDocument | None = Field(
        description="null: not rendered yet, or expunged"
    )
    steps: StepsDocument
    repeats: int = Field(description="how often the alert was published again while it was open")
    attempts: list[AttemptDocument]


def documents(session: Session, rows: Sequence[Any]) -> list[DeliveryDocument]:
    """Of deliveries, or rows of `COLUMNS`."""
    return [DeliveryDocument(**one) for one in _plain(session, rows)]


def as_json(session: Session, rows: Sequence[Any]) -> list[str]:
    """The same documents as texts, without the detour: a page takes a third of the time."""
    return [_JSON.encode(_written(one)) for one in _plain(session, rows)]


def page_as_json(session: Session, rows: Sequence[Any], next_cursor: str | None) -> str:
    """A page of them; written at once, which takes half as long."""
    items = [_written(one) for one in _plain(session, rows)]
    return _JSON.encode({"items": items, "next_cursor": next_cursor})


def _written(one: dict[str, Any]) -> dict[str, Any]:
    """Its moments as texts: the encoder's way out to Python for each of them takes twice as long."""
    for name in _MOMENTS:
        if one[name] is not None:
            one[name] = rfc3339(one[name])
    return one


def _plain(session: Session, rows: Sequence[Any]) -> list[dict[str, Any]]:
    members = _members(session, [row.id for row in rows if row.is_digest])
    untried = {row.alert_id for row in rows if row.message is None and row.attempt_count == 0}
    alerts = session.execute(select(Alert.id, Alert.title).where(Alert.id.in_(untried))) if untried else ()
    titles = {alert.id: alert.title for alert in alerts}
    return [_document(row, members.get(row.id), titles.get(row.alert_id or "", "")) for row in rows]


def full(session: Session, row: Delivery) -> FullDeliveryDocument:
    """With the message as rendered for the last try, and every attempt."""
    (short,) = _plain(session, [row])
    attempts = session.scalars(
        select(Attempt).where(Attempt.delivery_id == row.id).order_by(Attempt.n, Attempt.part, Attempt.id)
    ).all()
    repeats = session.scalar(select(Alert.repeats).where(Alert.id == row.alert_id)) or 0
    return FullDeliveryDocument(
        **short,
        message=_message(row),
        steps=_steps(row, attempts),
        repeats=repeats,
        attempts=[_attempt(attempt) for attempt in attempts],
    )


def _steps(row: Delivery, attempts: Sequence[Attempt]) -> StepsDocument:
    last = [attempt for attempt in attempts if attempt.n == attempts[-1].n]
    claimed = last[0].claimed_at if last else None
    sent, answered = (last[0].started_at, last[-1].finished_at) if last else (None, None)
    taken = claimed or sent
    return StepsDocument(
        accepted_at=row.created_at,
        claimed_at=claimed,
        sent_at=sent,
        answered_at=answered,
        waited_s=_seconds(row.created_at, taken),
        rendered_s=None if claimed is None else _seconds(claimed, sent),
        provider_s=None if sent is None else _seconds(sent, answered),
    )


def _members(session: Session, digests: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    if digests:
        rows = select(Delivery.merged_into, Delivery.id).where(Delivery.merged_into.in_(digests))
        for digest, member in session.execute(rows.order_by(Delivery.id)):
            found[str(digest)].append(member)
    return found


def _document(row: Any, members: list[str] | None, alert_title: str) -> dict[str, Any]:
    """Fields of a `DeliveryDocument`, in their order."""
    (
        id_, alert_id, event_id, job_id, job_name, pool, queue, channel, kind, item, items, severity, status,
        trigger, state, attempt_count, message, created_at, first_attempt_at, delivered_at, next_attempt_at,
        expires_at, error_code, error_message, error_permanent, recipients, provider_message_id, merged_into,
        is_digest, why,
    ) = row if isinstance(row, Row) else _values(row)  # fmt: skip
    return {
        "id": id_,
        "alert_id": alert_id,
        "event_id": event_id,
        "job_id": job_id,
        "job_name": job_name,
        "scope": scope_of(pool, queue),
        "channel": channel,
        "kind": kind,
        "item": item,
        "items": items,
        "severity": severity,
        "status": status,
        "trigger": trigger,
        "state": state,
        "attempt_count": attempt_count,
        "title": alert_title if message is None else message.get("title", ""),
        "created_at": created_at,
        "first_attempt_at": first_attempt_at,
        "delivered_at": delivered_at,
        "latency_s": _seconds(created_at, delivered_at),
        "next_attempt_at": next_attempt_at,
        "expires_at": expires_at,
        "error": _error(error_code, error_message, error_permanent),
        "recipients": [_recipient(one) for one in recipients],
        "provider_message_id": provider_message_id,
        "merged_into": merged_into,
        "digest_of": (members or []) if is_digest else None,
        "why": why,
    }


def _error(code: str | None, message: str | None, permanent: bool | None) -> dict[str, Any] | None:
    if code is None and message is None:
        return None
    return {"code": code, "message": message or "", "permanent": bool(permanent)}


def _message(row: Delivery) -> MessageDocument | None:
    if row.message is None or "title" not in row.message:
        return None
    shown = {"title": row.message["title"], "text": row.message["text"]}
    shown["format"] = row.message.get("format", "text")
    params = row.message.get("params")
    return TemplatedMessageDocument(**shown, params=params) if params else MessageDocument(**shown)


def _recipient(one: Mapping[str, Any]) -> Any:
    names = ("to", "outcome", "code", "message_id") if one.get("message_id") else ("to", "outcome", "code")
    return {name: one[name] for name in names}


def _attempt(row: Attempt) -> AttemptDocument:
    return AttemptDocument(
        n=row.n,
        part=row.part,
        parts=row.parts,
        trigger=row.trigger,
        claimed_at=row.claimed_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        latency_s=_seconds(row.started_at, row.finished_at),
        outcome=row.outcome,
        http_status=row.http_status,
        provider_code=row.provider_code,
        provider_message=row.provider_message,
        possible_duplicate=row.possible_duplicate,
        recipients=[_recipient(one) for one in row.recipients],
        request=row.request,
        response=row.response,
    )


def _seconds(start: datetime, end: datetime | None) -> float | None:
    return None if end is None else round((end - start).total_seconds(), 3)
