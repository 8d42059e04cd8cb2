"""`Idempotency-Key`: a creation that is asked for twice with one key is done once and answered twice."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from notifier.model import Idempotency
from notifier.problems import Problem, invalid
from notifier.secretbox import SecretBox
from notifier.storage import insert_new

KEPT = timedelta(hours=24)
HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_CLAIMED = 0  # the status of a row whose work is still being done; never committed


@dataclass(frozen=True)
class Call:
    """A creation as asked: whose token, with which key (None: without one), where to, which body, when."""

    token_id: str
    key: str | None
    path: str
    body: Any
    at: datetime


@dataclass(frozen=True)
class Answer:
    """What was answered. `is_replay`: the work was done for an earlier call."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)
    is_replay: bool = False


def once(session: Session, box: SecretBox, call: Call, work: Callable[[], Answer]) -> Answer:
    """`work()`, or what an earlier call with the same key was answered, all in the caller's transaction.

    The key is claimed before the work: of two at once the second waits for the first one's commit.

    Raises:
        Problem: the key is malformed, or was used for something else.
    """
    if call.key is None:
        return work()
    if not _KEY.fullmatch(call.key):
        raise invalid(HEADER, "give 1 to 255 visible ASCII characters, such as a UUID")
    key = (call.token_id, call.key)
    session.execute(delete(Idempotency).where(_is(key), Idempotency.created_at < call.at - KEPT))
    fingerprint = box.fingerprint(call.path, json.dumps(call.body, sort_keys=True))
    claim = {"fingerprint": fingerprint, "status": _CLAIMED, "body": {}, "created_at": call.at}
    if not insert_new(session, Idempotency, {"token_id": key[0], "key": key[1], **claim}):
        return _replayed(session.get_one(Idempotency, key), fingerprint, box)
    answer = work()
    row = session.get_one(Idempotency, key)
    row.status = answer.status
    row.body = {"sealed": box.seal({"body": answer.body, "headers": answer.headers}, owner=_owner(row))}
    return answer


def purge(session: Session, before: datetime) -> None:
    """Forget what was answered before that moment."""
    session.execute(delete(Idempotency).where(Idempotency.created_at < before))


def _is(key: tuple[str, str]) -> Any:
    return (Idempotency.token_id == key[0]) & (Idempotency.key == key[1])


def _owner(row: Idempotency) -> str:
    return f"idempotency/{row.token_id}/{row.key}"


def _replayed(row: Idempotency, fingerprint: str, box: SecretBox) -> Answer:
    if row.fingerprint != fingerprint:
        detail = "this Idempotency-Key was used for another request; take a new key for a new request"
        raise Problem(422, errors=[(HEADER, detail)])
    kept = box.open(row.body["sealed"], owner=_owner(row))
    answer = Answer(row.status, kept["body"], kept["headers"])
    return replace(answer, headers={**answer.headers, REPLAYED: "true"}, is_replay=True)
