"""What every adapter shares: the message it is given, the parts it makes, the answer it reads.

An adapter translates and does nothing else: it cuts a message into what the provider takes, sends one
part, and says what the answer means. It never retries, logs, stores or reads a clock.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from channels.escaping import clean
from channels.transport import Network


class Outcome(StrEnum):
    """What a provider's answer means (DESIGN 6). A code that is not in a provider's table is TEMPORARY."""

    DELIVERED = "delivered"
    ACCEPTED = "accepted"
    THROTTLED = "throttled"
    TEMPORARY = "temporary"
    REFUSED = "refused"
    CHANNEL_BROKEN = "channel_broken"
    AMBIGUOUS = "ambiguous"


class Mend(StrEnum):
    """What may still get a refused message through; each is tried once by the notifier."""

    SIGN_AGAIN = "sign_again"  # a fresh timestamp; if refused again the channel is broken
    PLAIN_TEXT = "plain_text"  # the provider did not like the form: the same words as plain text
    SHORTEN = "shorten"  # too long all the same: half the size


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


SERIOUS = (Severity.ERROR, Severity.CRITICAL)  # people are mentioned


@dataclass(frozen=True)
class Limit:
    """At most `count` sends in any window of `per`; with `until` only in the one that ends then, for
    providers that begin to count anew at some hour."""

    count: int
    per: timedelta
    until: datetime | None = None


@dataclass(frozen=True)
class Sheet:
    """The words of a message by what they are, for forms that have a place for each. All are escaped as the
    message's `text` is, but for the labels.

    Attributes:
        lead: what happened, one line.
        rows: label and value of what a reader needs: culprit, decision, job…
        words: lines of the sender's own.
        notes: small print: labels, time, ids.
    """

    lead: str
    rows: tuple[tuple[str, str], ...] = ()
    words: str = ""
    evidence: tuple[str, ...] = ()
    evidence_label: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """One rendered message. `text` is in the adapter's own `format`, already escaped for it.

    The adapter puts the title where the provider wants it, so `text` and `plain` begin below the title,
    with what must survive shortening: culprit, decision, link.

    Attributes:
        id: the delivery's id, the same on every try.
        title: one line of plain text, unescaped.
        text: the body in the adapter's format (`markdown` dialect or plain text).
        plain: the body as plain text: the fallback, the text part of a mail.
        html: the body as HTML, for e-mail only.
        severity: decides whether people are mentioned (`error` and `critical` only).
        status: `firing` or `resolved`; a resolve message never mentions anybody.
        sheet: what `text` says, taken apart; None where it cannot be.
        link: where to read on, or None; `link_label` is what it is called.
        ack_link: where whoever reads it can take the alert on, or None; `ack_label` is what it is called.
        thread: the same for all messages of one incident, for mail threading, or None.
        document: the machine-readable alert, for webhooks.
        params: the config's `templates()`, rendered over the alert, by the same names in the same order.
        is_plain: the notifier asks for the plain form (after Mend.PLAIN_TEXT).
    """

    id: str
    title: str
    text: str
    plain: str
    severity: Severity
    status: str = "firing"
    html: str | None = None
    sheet: Sheet | None = None
    link: str | None = None
    link_label: str = ""
    ack_link: str | None = None
    ack_label: str = ""
    thread: str | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    is_plain: bool = False

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Our own links in it, each with what it is called."""
        known = ((self.link_label, self.link), (self.ack_label, self.ack_link))
        return tuple((label, link) for label, link in known if link)


def mentions(message: Message) -> bool:
    """Whether people are called by name: only for what is serious and still going on."""
    return message.severity in SERIOUS and message.status == "firing"


@dataclass(frozen=True)
class Part:
    """One send. `n` of `of`; `payload` is what the adapter puts on the wire (less the signature)."""

    n: int
    of: int
    payload: Mapping[str, Any]
    message: Message


@dataclass(frozen=True)
class Recipient:
    """The outcome for one address or number of a part. `message_id`: the provider's, to ask for a receipt."""

    to: str
    outcome: Outcome
    code: str | None = None
    message_id: str | None = None


@dataclass(frozen=True)
class Sent:
    """A send whose fate is asked for: to whom, when, and the provider's id of it (None: its answer was lost).

    `delivery_id` is what was given to the provider to know it again, where that takes such a thing.
    """

    delivery_id: str
    to: str
    at: datetime
    message_id: str | None = None


@dataclass(frozen=True)
class Answer:
    """What came of one send. `request` and `response` are redacted and clipped by the adapter.

    `retry_after` is how long to wait; `repeated_after` how long if the try before was throttled too.
    """

    outcome: Outcome
    http_status: int | None = None
    code: str | None = None
    message: str = ""
    retry_after: timedelta | None = None
    repeated_after: timedelta | None = None
    message_id: str | None = None
    recipients: tuple[Recipient, ...] = ()
    mend: Mend | None = None
    request: str = ""
    response: str = ""


class ChannelConfig(BaseModel):
    """Base of every kind's `config`. Secret fields are `SecretStr` (or dicts/lists of it): they are
    encrypted at rest and answered masked; everything else is shown as it is."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        str_strip_whitespace=True,
        hide_input_in_errors=True,
        populate_by_name=False,
    )

    def targets(self) -> tuple[str, ...]:
        """The URLs (`https://…`, `smtp://…`) whose addresses are checked when the channel is saved."""
        return ()

    def meters(self) -> Mapping[str, str]:
        """By what the provider counts sends: recipient (of a robot: "") → a name that tells no secret.

        Channels with the same name share its limit, whoever owns them.
        """
        return {}

    def templates(self) -> Mapping[str, str]:
        """Templates over the alert that the notifier renders into `Message.params`."""
        return {}

    def lint(self) -> tuple[str, ...]:
        """Warnings for whoever saves the channel; never a refusal."""
        return ()


class Adapter(ABC):
    """The seam. One instance per kind, stateless, shared by all threads.

    Class attributes:
        kind: the channel kind.
        Config: its `config` model.
        limits: what the provider allows a robot (empty: no limit known).
        format: which template form the body needs: `markdown`, `lark`, `text`, `html` (text and HTML),
            `sms` or `speech`.
        resend_when_unknown: whether a message whose answer was lost is sent again with the same id.
        expires_after: how long a message is worth trying.
        receipts_after: how long after a send, and after each look, the provider is asked what became of it;
            empty: it cannot be asked. Where that depends on the config, `receipt_times` says otherwise, so
            that is what is to be asked.
        is_sequential: recipients are tried in order until one is told, as by phone: `addressed` names the
            first of those left, and who is refused (also by a receipt: nobody answered) or throttled makes
            room for the next one at once. Otherwise the message is for every one of them.

    An adapter whose config names recipients (`ChannelConfig.meters`) makes one part. Its answers say in
    `recipients` what became of each; if they name nobody, the answer's outcome is that of all addressed.
    """

    kind: ClassVar[str]
    Config: ClassVar[type[ChannelConfig]]
    limits: ClassVar[tuple[Limit, ...]] = ()
    format: ClassVar[str] = "text"
    resend_when_unknown: ClassVar[bool] = True
    expires_after: ClassVar[timedelta] = timedelta(hours=24)
    receipts_after: ClassVar[tuple[timedelta, ...]] = ()
    is_sequential: ClassVar[bool] = False

    def escape(self, text: str) -> str:
        """Make data literal in this adapter's format: no markup, mention or link of its own survives."""
        return clean(text)

    @abstractmethod
    def parts(self, message: Message, config: Any) -> list[Part]:
        """Cut into at most three parts within the provider's byte limits; the same message gives the
        same parts every time. Keyword, mentions and "(1/3)" are in place."""

    @abstractmethod
    def send(
        self, part: Part, config: Any, network: Network, now: datetime, only: frozenset[str] | None = None
    ) -> Answer:
        """Send one part, sign it for `now`, and read the answer. Never raises for anything that the
        network or the provider does. `only` names the recipients that are to be told (None: all)."""

    def limits_of(self, meter: str, now: datetime) -> tuple[Limit, ...]:
        """What the provider allows under this meter (`ChannelConfig.meters`)."""
        return self.limits

    def addressed(self, config: Any, left: Collection[str] | None) -> tuple[str, ...]:
        """Whom the next send goes to, of those who are left to be told (None: all). A phone calls one at a
        time; a robot has nobody of a name: ("",)."""
        return tuple(to for to in config.meters() or {"": ""} if left is None or to == "" or to in left)

    def space(self, config: Mapping[str, Any]) -> tuple[int, ...]:
        """How many bytes a message of one part, of two… surely has for its text, as a JSON string; empty: as
        many as are wished. `config` is what of it is no secret. A digest names no more than that holds."""
        return ()

    def sends(self, config: Mapping[str, Any], severity: Severity) -> int:
        """How many sends a message of one part usually takes while it goes on: two where people are called in
        one of its own. `config` is what of it is no secret."""
        return 1

    def receipt_times(self, config: Any) -> tuple[timedelta, ...]:
        """As `receipts_after`, for this channel."""
        return self.receipts_after

    def receipts(
        self, sent: Sequence[Sent], config: Any, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        """What the provider says became of these sends; those of which it knows nothing yet are left out.

        `delivered`, `refused` (with its code), `accepted` (it has it: a `message_id` learned here is kept),
        or `temporary`: it says for certain that it never had it, and it is sent again.
        Never raises for anything that the network or the provider does.
        """
        return ()
