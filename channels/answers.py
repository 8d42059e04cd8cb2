"""From a provider's reply to an Answer: what all robots and webhooks have in common."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from channels.base import Adapter, Answer, Mend, Outcome, Part
from channels.config import mask_url
from channels.escaping import clean
from channels.redaction import redact
from channels.transport import ForbiddenTarget, Network, NotSent, Response, Unanswered, encode

MAX_WAIT = timedelta(hours=24)  # nobody waits longer than a message lives
MAX_MESSAGE = 500


@dataclass(frozen=True)
class Verdict:
    """What an answer means, and what may be done about it; `hint` is for whoever owns the channel."""

    outcome: Outcome
    mend: Mend | None = None
    retry_after: timedelta | None = None
    repeated_after: timedelta | None = None
    hint: str = ""


@dataclass(frozen=True)
class Reading:
    """A verdict and the provider's own words for it."""

    verdict: Verdict
    code: str | None = None
    message: str = ""


@dataclass(frozen=True)
class Call:
    """One POST of JSON. `shown` is the payload as the delivery log may keep it; `body` is it encoded."""

    url: str
    payload: Mapping[str, Any]
    secrets: tuple[str, ...]
    shown: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


Heard: TypeAlias = Response | NotSent | Unanswered

DELIVERED = Verdict(Outcome.DELIVERED)
TEMPORARY = Verdict(Outcome.TEMPORARY)
REFUSED = Verdict(Outcome.REFUSED)
BROKEN = Verdict(Outcome.CHANNEL_BROKEN)
THROTTLED = Verdict(Outcome.THROTTLED)
REDIRECTED = Verdict(Outcome.REFUSED, hint="redirects are not followed: give the final URL")
TOO_LONG = Verdict(Outcome.REFUSED, Mend.SHORTEN)
BAD_FORM = Verdict(Outcome.REFUSED, Mend.PLAIN_TEXT)
_LOST = {
    ForbiddenTarget: (Outcome.REFUSED, "forbidden_target"),
    NotSent: (Outcome.TEMPORARY, "not_sent"),
    Unanswered: (Outcome.AMBIGUOUS, "unanswered"),
}


class Caller(Adapter):
    """A kind whose send is one POST: what it asks, and what the answer means."""

    @abstractmethod
    def call(self, part: Part, config: Any, now: datetime) -> Call:
        """Signed for `now`."""

    @abstractmethod
    def read(self, response: Response, now: datetime) -> Reading:
        """What a reply means."""

    def send(
        self,
        part: Part,
        config: Any,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,  # noqa: ARG002  it has one receiver
    ) -> Answer:
        return ask(network, self.call(part, config, now), lambda response: self.read(response, now))


def ask(network: Network, call: Call, read: Callable[[Response], Reading]) -> Answer:
    """Post, and say what came of it; never raises for what the network or the provider does."""
    try:
        heard: Heard = network.request(
            "POST", call.url, json=call.payload, body=call.body, headers=call.headers
        )
    except (NotSent, Unanswered) as lost:
        heard = lost
    return answered(call, heard, read)


def answered(call: Call, heard: Heard, read: Callable[[Response], Reading]) -> Answer:
    """What came of it, as it may be kept."""
    shown = _shown(call).decode()
    # The URL's key would be hidden anyway; without it the host stays readable.
    request = redact(f"POST {mask_url(call.url)}\n{shown}", call.secrets)
    if isinstance(heard, Response):
        return _answer(read(heard), heard, call.secrets, request)
    outcome, code = _LOST[type(heard)]
    return Answer(outcome, code=code, message=heard.reason, request=request)


def _shown(call: Call) -> bytes:
    if call.shown is not None:
        return encode(call.shown)
    return encode(call.payload) if call.body is None else call.body


def _answer(reading: Reading, response: Response, secrets: tuple[str, ...], request: str) -> Answer:
    verdict = reading.verdict
    said = reading.message or f"HTTP {response.status}"
    message = f"{said} ({verdict.hint})" if verdict.hint else said
    return Answer(
        verdict.outcome,
        http_status=response.status,
        code=reading.code or str(response.status),
        message=redact(clean(message), secrets, limit=MAX_MESSAGE),
        retry_after=verdict.retry_after,
        repeated_after=verdict.repeated_after,
        mend=verdict.mend,
        request=request,
        response=redact(clean(f"HTTP {response.status}\n{response.text}"), secrets),
    )


def settle(response: Response, verdict: Verdict | None, now: datetime) -> Verdict:
    """A robot's verdict: its own code first, else what HTTP says. Only a 2xx can be a success."""
    waited = retry_after(response, now)
    if verdict is not None and (verdict.outcome is not Outcome.DELIVERED or 200 <= response.status < 300):
        if verdict.outcome in (Outcome.THROTTLED, Outcome.TEMPORARY) and waited is not None:
            return replace(verdict, retry_after=waited, repeated_after=waited)
        return verdict
    if response.status in (401, 403, 404, 410):
        return Verdict(Outcome.CHANNEL_BROKEN, hint="the webhook URL is wrong or no longer valid")
    return by_status(response, waited)


def by_status(response: Response, waited: timedelta | None) -> Verdict:
    """What HTTP alone says of anything but a success."""
    status = response.status
    if 300 <= status < 400:
        return REDIRECTED
    if status == 413:
        return TOO_LONG
    if status == 429:
        return Verdict(Outcome.THROTTLED, retry_after=waited)
    if not response.is_whole:
        return Verdict(Outcome.AMBIGUOUS, hint="the answer broke off")
    return Verdict(Outcome.TEMPORARY, retry_after=waited)


def as_code(value: object) -> int | None:
    """A provider's code: a whole number or its digits as text; bool, None and anything else is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) < 16:
        return int(value)
    return None


def retry_after(response: Response, now: datetime) -> timedelta | None:
    """How long the provider asks to wait: `Retry-After`, or Feishu's `x-ogw-ratelimit-reset`."""
    said = response.headers.get("retry-after") or response.headers.get("x-ogw-ratelimit-reset")
    if said is None:
        return None
    said = said.strip()
    if said.isascii() and said.isdigit():
        return min(timedelta(seconds=int(said[:9])), MAX_WAIT)
    try:
        moment = parsedate_to_datetime(said)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return min(max(moment - now, timedelta(0)), MAX_WAIT)
