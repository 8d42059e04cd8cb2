"""One call of a provider's SDK, and what its answer means: what `channels/answers.py` is for robots.

The SDK makes, signs and sends the request; the answer is read as it came, because SDKs hide the HTTP
status, the provider's code, or both.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from channels.answers import MAX_MESSAGE, TEMPORARY, THROTTLED, Reading, Verdict, retry_after
from channels.base import Answer, Outcome, Recipient
from channels.escaping import clean
from channels.redaction import redact
from channels.telecom.base import Order
from channels.transport import ForbiddenTarget, NotSent, Response, Unanswered, encode

# What is still to be done decides what the whole attempt is called.
WORST_FIRST = (
    Outcome.AMBIGUOUS, Outcome.CHANNEL_BROKEN, Outcome.THROTTLED, Outcome.TEMPORARY, Outcome.REFUSED,
    Outcome.ACCEPTED, Outcome.DELIVERED,
)  # fmt: skip
ACCEPTED = Verdict(Outcome.ACCEPTED)
UNREAD = Verdict(Outcome.AMBIGUOUS, hint="not the provider's own answer: it may have been sent")
BROKEN_OFF = Verdict(Outcome.AMBIGUOUS, hint="the answer broke off")
REDIRECTED = Verdict(Outcome.REFUSED, hint="redirects are not followed: give the provider's endpoint")
_KEYS = Verdict(Outcome.CHANNEL_BROKEN, hint="the credentials were not accepted")
BY_STATUS = {
    401: _KEYS,
    403: _KEYS,
    410: Verdict(Outcome.REFUSED, hint="this endpoint is gone: see the provider's manual"),
    429: THROTTLED,
}
UNSAID = Verdict(Outcome.AMBIGUOUS, hint="the answer leaves open whether it was sent")


@dataclass(frozen=True)
class Told:
    """What the provider says of one number."""

    to: str
    reading: Reading
    message_id: str | None = None


def shown(action: str, url: str, document: Mapping[str, Any]) -> str:
    """The request as the delivery log keeps it, before its secrets are taken out."""
    return f"{action} {url}\n{encode(document).decode()}"


def ask(
    call: Callable[[], Response],
    read: Callable[[Response], tuple[Told, ...]],
    order: Order,
    request: str,
    secrets: tuple[str, ...],
    now: datetime,
) -> Answer:
    """Call, and say what came of it for every number; never raises for what network or provider do."""
    request = redact(request, secrets)
    try:
        response = call()
    except ForbiddenTarget as lost:
        return lost_answer(order.to, Outcome.REFUSED, "forbidden_target", lost.reason, request)
    except NotSent as lost:
        return lost_answer(order.to, Outcome.TEMPORARY, "not_sent", lost.reason, request)
    except Unanswered as lost:
        return lost_answer(order.to, Outcome.AMBIGUOUS, "unanswered", lost.reason, request)
    waited = retry_after(response, now)
    answer = of_all(tuple(_in_time(one, waited) for one in read(response)), response)
    return replace(
        answer,
        message=redact(clean(answer.message), secrets, limit=MAX_MESSAGE),
        request=request,
        response=redact(clean(f"HTTP {response.status}\n{response.text}"), secrets),
    )


def _in_time(told: Told, waited: timedelta | None) -> Told:
    """`Retry-After` wins over our own guess, whatever says that there is something to wait for."""
    verdict = told.reading.verdict
    if waited is None or verdict.outcome not in (Outcome.THROTTLED, Outcome.TEMPORARY):
        return told
    settled = replace(verdict, retry_after=waited, repeated_after=waited)
    return replace(told, reading=replace(told.reading, verdict=settled))


def lost_answer(to: Iterable[str], outcome: Outcome, code: str, reason: str, request: str) -> Answer:
    recipients = tuple(Recipient(number, outcome, code) for number in to)
    return Answer(outcome, code=code, message=reason, recipients=recipients, request=request)


def of_all(told: tuple[Told, ...], response: Response) -> Answer:
    """The worst of what is said of the numbers, and what is said of each."""
    worst = min(told, key=lambda one: WORST_FIRST.index(one.reading.verdict.outcome))
    verdict, code = worst.reading.verdict, worst.reading.code or str(response.status)
    said = worst.reading.message or f"HTTP {response.status}"
    waits = [one.reading.verdict.retry_after for one in told if one.reading.verdict.retry_after is not None]
    return Answer(
        verdict.outcome,
        http_status=response.status,
        code=code,
        message=f"{said} ({verdict.hint})" if verdict.hint else said,
        retry_after=max(waits, default=None),
        message_id=next((one.message_id for one in told if one.message_id), None),
        recipients=tuple(
            Recipient(one.to, one.reading.verdict.outcome, one.reading.code or code, one.message_id)
            for one in told
        ),
        mend=verdict.mend,
    )


def same(order: Order, reading: Reading, message_id: str | None = None) -> tuple[Told, ...]:
    """For providers that answer once for all numbers of a request."""
    return tuple(Told(number, reading, message_id) for number in order.to)


def judged(response: Response, code: object, verdict: Verdict | None) -> Verdict:
    """The provider's own word first; only a 2xx can be a success.

    `code` is its own, None where none could be read, and `verdict` what its table says of that. A code that
    the table does not know is temporary, and so is what cannot be read (CONTRACT 3). A 5xx without any is a
    gateway's: the message may have been taken before, so it is asked about and not repeated.
    """
    if verdict is not None and (verdict.outcome is not Outcome.ACCEPTED or 200 <= response.status < 300):
        return verdict
    said = BY_STATUS.get(response.status)
    if said is not None:
        return said
    if 300 <= response.status < 400:
        return REDIRECTED
    if not response.is_whole:
        return BROKEN_OFF
    if verdict is not None:  # a success, and a status that says otherwise
        return UNSAID
    return TEMPORARY if code is not None or response.status < 500 else UNREAD
