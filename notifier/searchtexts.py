"""What of a delivery can be looked for: its text, and the terms by which the index has it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier import words
from notifier.model import Alert, Attempt, Delivery

COLUMNS = (
    Delivery.id, Delivery.alert_id, Delivery.job_id, Delivery.job_name, Delivery.pool, Delivery.queue,
    Delivery.channel, Delivery.kind, Delivery.item, Delivery.state, Delivery.attempt_count, Delivery.why,
    Delivery.error_code, Delivery.error_message, Delivery.recipients, Delivery.provider_message_id,
    Delivery.message, Delivery.merged_into, Delivery.created_at,
)  # fmt: skip


EXPUNGED: Mapping[str, Any] = {}  # the message of a delivery whose content was removed


class Told(Protocol):
    """A delivery, or a row of `COLUMNS`."""

    id: Any
    alert_id: Any
    job_id: Any
    job_name: Any
    pool: Any
    queue: Any
    channel: Any
    kind: Any
    item: Any
    state: Any
    why: Any
    error_code: Any
    error_message: Any
    recipients: Any
    provider_message_id: Any
    message: Any


def texts(session: Session, rows: Sequence[Told]) -> dict[str, str]:
    """By delivery: title, text, job, channel, error, reason, providers' answers and recipients, normal."""
    alerts = _alerts(session, {row.alert_id for row in rows if row.alert_id is not None})
    said = _said(session, [row.id for row in rows])
    return {row.id: words.document(_parts(row, alerts.get(row.alert_id, ()), said[row.id])) for row in rows}


def own_text(row: Told) -> str:
    """As much of it as the delivery itself says."""
    return words.document(_parts(row, (), ()))


def filter_term(name: str, value: str) -> bytes:
    """The term under which the index has the value of a filter; no word begins so."""
    return b"\0" + f"{name}={value}".encode("utf-8", "replace")


def word_term(word: str) -> bytes:
    return word.encode("utf-8", "replace")


def terms(row: Told, text: str) -> set[bytes]:
    """All under which the index has a delivery."""
    found = {word_term(word) for word in words.words(text)}
    named = {
        "channel": row.channel, "kind": row.kind, "item": row.item, "state": row.state, "job": row.job_id,
        "pool": row.pool, "scope": f"{row.pool}/{row.queue}",
    }  # fmt: skip
    return found | {filter_term(name, value) for name, value in named.items() if value is not None}


def _parts(row: Told, alert: Sequence[str], said: Sequence[str]) -> list[str | None]:
    shown: Mapping[str, Any] = row.message or {}
    why = row.why
    if row.message == EXPUNGED:  # that it was removed is no word of it: the index would not learn it
        alert, why = (), None
    people = [f"{one.get('to') or ''} {one.get('code') or ''}" for one in row.recipients]
    own = [shown.get("title"), row.job_name, row.channel, row.error_code, row.error_message, why]
    return [*own, row.provider_message_id, *alert[:1], *people, *said, *alert[1:], shown.get("text")]


def _alerts(session: Session, ids: set[Any]) -> dict[str, tuple[str, str]]:
    if not ids:
        return {}
    rows = session.execute(select(Alert.id, Alert.title, Alert.body).where(Alert.id.in_(ids)))
    return {row.id: (row.title, row.body) for row in rows}


def _said(session: Session, ids: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    rows = select(Attempt.delivery_id, Attempt.provider_code, Attempt.provider_message)
    for row in session.execute(rows.where(Attempt.delivery_id.in_(ids)).order_by(Attempt.id)):
        found[row.delivery_id] += [one for one in (row.provider_code, row.provider_message) if one]
    return found
