"""Twilio: texts by Messages, calls by Calls with the text to be spoken; a request for each number.

https://www.twilio.com/docs/messaging/api/message-resource, https://www.twilio.com/docs/voice/api/call-resource
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from hashlib import sha256
from importlib import import_module
from typing import Any, ClassVar

from channels.answers import Reading, Verdict, as_code
from channels.base import Answer, Limit, Outcome, Recipient, Sent
from channels.config import secrets_of
from channels.confined import answer_to
from channels.escaping import clean
from channels.numbers import shortened
from channels.outcomes import twilio as codes
from channels.telecom.base import PHONE, SMS, Order, Telecom
from channels.telecom.exchange import ACCEPTED, WORST_FIRST, Told, ask, judged, shown
from channels.transport import Network, NotSent, Response, Unanswered

HOST = "api.twilio.com"
MAX_TEXT = 1600  # error 21617
MAX_TWIML = 4000  # "Twiml" of the call resource
MAX_SPOKEN = 2900  # 3000 for these voices: twilio.com/docs/api/errors/13521
PLAY_TIMES = 2
VOICES = {True: ("cmn-CN", "Polly.Zhiyu"), False: ("en-US", "Polly.Joanna")}  # by whether it is Chinese
NEVER_AFTER = timedelta(minutes=5)  # what is not in its books by then did not arrive
CLOCKS = timedelta(minutes=2)  # by which its clock and ours may differ
PAGE = 50
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
RESOURCES = {SMS: "messages", PHONE: "calls"}
_SID = re.compile(r"[A-Za-z0-9]{2,64}")
_SERVICE = re.compile(r"MG[0-9a-f]{32}")
_HAN = re.compile("[\u3400-\u9fff]")


class Twilio(Telecom):
    name: ClassVar[str] = "twilio"
    kinds: ClassVar[frozenset[str]] = frozenset({SMS, PHONE})
    module: ClassVar[str] = "twilio"
    extra: ClassVar[str] = "twilio"
    receipts_after: ClassVar[Mapping[str, tuple[timedelta, ...]]] = {
        SMS: tuple(timedelta(seconds=s) for s in (5, 25, 60, 300, 900, 3600)),
        PHONE: tuple(timedelta(seconds=s) for s in (20, 20, 30, 60, 120, 300)),
    }

    def check(self, kind: str, config: Any) -> None:
        if config.from_ is None:
            raise ValueError("from: Twilio sends from a number of your account, such as +14155550100")
        if kind == PHONE and not config.from_.startswith("+"):
            raise ValueError("from: Twilio calls from a number in E.164 form, such as +14155550100")
        for field in ("template_id", "sign_name", "app_id", "called_show_number"):
            if getattr(config, field, None) is not None:
                raise ValueError(f"{field}: Twilio has no such thing: leave it out")
        if config.params:
            raise ValueError("params: Twilio has no templates of its own: leave it out")
        if config.region is not None and config.endpoint is not None:
            raise ValueError("region: the endpoint names the region already: leave it out")

    def limits(self, kind: str, now: datetime) -> tuple[Limit, ...]:  # noqa: ARG002  the same all day
        """None of a number's; an account makes one call a second and queues the rest."""
        return ()

    def text(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        sender = "messaging_service_sid" if _SERVICE.fullmatch(config.from_) else "from_"
        body = f"{shortened(clean(order.text), MAX_TEXT - 8)} {mark(order.reference)}"
        asked = {sender: config.from_, "body": body}
        return _each("messages", order, asked, config, network, now)

    def call(self, order: Order, config: Any, network: Network, now: datetime) -> Answer:
        twiml = spoken(order.text, config.play_times or PLAY_TIMES)
        return _each("calls", order, {"from_": config.from_, "twiml": twiml}, config, network, now)

    def receipts(
        self, kind: str, sent: Sequence[Sent], config: Any, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        found = (
            _fetched(kind, one, config, network)
            if one.message_id
            else _searched(kind, one, config, network, now)
            for one in sent
        )
        return tuple(one for one in found if one is not None)


def mark(reference: str) -> str:
    """Ends a text, so that it is known again among the account's: Twilio keeps no id of ours."""
    return f"#{sha256(reference.encode()).hexdigest()[:6]}"


def spoken(text: str, times: int) -> str:
    """TwiML that says `text` so many times, in its language, within what Twilio takes."""
    voice = import_module("twilio.twiml.voice_response").VoiceResponse
    text = " ".join(clean(text).split())
    language, name = VOICES[_HAN.search(text) is not None]
    for limit in (MAX_SPOKEN, MAX_SPOKEN // 2, MAX_SPOKEN // 4, 600):  # what is escaped grows
        made = voice()
        made.say(shortened(text, limit), voice=name, language=language, loop=times)
        if len(str(made)) <= MAX_TWIML:
            break
    return str(made)


def _each(
    resource: str, order: Order, asked: Mapping[str, str], config: Any, network: Network, now: datetime
) -> Answer:
    """One request for each number: an answer that is lost, or a number that is refused, stops no other."""
    answers: list[Answer] = []
    where = f"{config.url(HOST)}/{resource}"
    for number in order.to:
        client = _client(config, network)
        create = partial(getattr(client, resource).create, to=number, **asked)
        answer = ask(
            partial(answer_to, create, network),
            partial(_told, number),
            replace(order, to=(number,)),
            shown("POST", where, {"to": number, **asked}),
            secrets_of(config),
            now,
        )
        answers.append(answer)
        if answer.outcome is Outcome.CHANNEL_BROKEN or answer.code in ("not_sent", "forbidden_target"):
            break  # it would be the same for all
    return _together(answers, order)


def _together(answers: list[Answer], order: Order) -> Answer:
    """The worst answer, with what came of every number."""
    worst = min(answers, key=lambda one: WORST_FIRST.index(one.outcome))
    last = answers[-1]
    told = tuple(recipient for answer in answers for recipient in answer.recipients)
    untried = (Recipient(number, last.outcome, last.code) for number in order.to[len(answers) :])
    waits = [answer.retry_after for answer in answers if answer.retry_after is not None]
    return replace(worst, recipients=(*told, *untried), retry_after=max(waits, default=None))


def _told(number: str, response: Response) -> tuple[Told, ...]:
    body = response.json_object()
    is_taken = 200 <= response.status < 300
    code = as_code(body.get("error_code" if is_taken else "code"))
    sid = _sid_of(body) if is_taken else None
    said = body.get("error_message" if is_taken else "message")
    if sid is not None and code is None:
        verdict: Verdict | None = ACCEPTED
    else:
        verdict = codes.verdict(response.status, code)
    settled = judged(response, code, verdict)
    words = said if isinstance(said, str) else str(body.get("status") or "") if is_taken else ""
    return (Told(number, Reading(settled, None if code is None else str(code), words), sid),)


def _fetched(kind: str, one: Sent, config: Any, network: Network) -> Recipient | None:
    sid = one.message_id or ""
    if _SID.fullmatch(sid) is None:
        return None
    found = _asked(lambda client: getattr(client, RESOURCES[kind])(sid).fetch(), config, network)
    return _receipt(kind, one, found) if found is not None else None


def _searched(kind: str, one: Sent, config: Any, network: Network, now: datetime) -> Recipient | None:
    """A send whose answer was lost: a text is known by its mark, a call by its moment if alone in it."""
    name = RESOURCES[kind]
    found = _asked(lambda client: getattr(client, name).page(to=one.to, page_size=PAGE), config, network)
    rows = found.get(name) if found is not None else None
    if not isinstance(rows, list):
        return None
    since = [row for row in rows if isinstance(row, dict) and _created(row) >= one.at - CLOCKS]
    if kind == SMS:
        mine = [row for row in since if str(row.get("body")).endswith(mark(one.delivery_id))]
    else:
        until = one.at + timedelta(seconds=network.timeout_s) + CLOCKS
        mine = [row for row in since if row.get("from") == config.from_ and _created(row) <= until]
    if not mine:
        is_certain = now - one.at > NEVER_AFTER and len(since) < PAGE
        return Recipient(one.to, Outcome.TEMPORARY, "never_arrived") if is_certain else None
    if len(mine) > 1 and kind == PHONE:
        return None
    row = mine[0]
    return _receipt(kind, one, row) or Recipient(one.to, Outcome.ACCEPTED, _words(row), _sid_of(row))


def _created(row: Mapping[str, Any]) -> datetime:
    """When Twilio took it; long ago where it does not say."""
    try:
        moment = parsedate_to_datetime(str(row.get("date_created")))
    except ValueError:
        return LONG_AGO
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _receipt(kind: str, one: Sent, row: Mapping[str, Any]) -> Recipient | None:
    """What its state says, or None while it is under way."""
    outcome = (codes.TEXT_ENDS if kind == SMS else codes.CALL_ENDS).get(str(row.get("status")))
    if outcome is None:
        return None
    if as_code(row.get("error_code")) == codes.QUEUE_OVERFLOW:
        outcome = Outcome.TEMPORARY
    return Recipient(one.to, outcome, _words(row), _sid_of(row) or one.message_id)


def _words(row: Mapping[str, Any]) -> str:
    code = as_code(row.get("error_code"))
    return str(row.get("status"))[:40] if code is None else str(code)


def _sid_of(row: Mapping[str, Any]) -> str | None:
    sid = row.get("sid")
    return sid if isinstance(sid, str) and _SID.fullmatch(sid) else None


def _asked(ask_of: Callable[[Any], object], config: Any, network: Network) -> dict[str, Any] | None:
    client = _client(config, network)
    try:
        response = answer_to(lambda: ask_of(client), network)
    except (NotSent, Unanswered):
        return None
    return response.json_object() if response.status == 200 and response.is_whole else None


def _client(config: Any, network: Network) -> Any:
    http = import_module("twilio.http.http_client").TwilioHttpClient(
        pool_connections=True, timeout=network.timeout_s, max_retries=0
    )
    made = import_module("twilio.rest").Client(
        config.credentials["account_sid"].get_secret_value(),
        config.credentials["auth_token"].get_secret_value(),
        region=config.region,
        http_client=http,
        environment={"TWILIO_EDGE": ""},  # an empty one would be replaced by the process's own
    )
    made.api.base_url = config.url(HOST)
    return made
