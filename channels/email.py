"""E-mail by SMTP: one mail for all recipients, an outcome for each of them."""

import html
import re
from collections.abc import Iterable
from datetime import datetime
from email.headerregistry import Address as Mailbox
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from channels import escaping, fields
from channels.answers import Verdict
from channels.base import (
    Adapter,
    Answer,
    ChannelConfig,
    Message,
    Outcome,
    Part,
    Recipient,
    Severity,
)
from channels.config import secrets_of
from channels.cutting import cut, harmless, tail_for, utf8
from channels.outcomes.mail import look_up
from channels.redaction import in_url, redact
from channels.smtp import MailServer, Refused, Reply, Stage, Transaction, submit
from channels.transport import ForbiddenTarget, Network, NotSent

MAX_BODY = 256 * 1024
MAX_SUBJECT = 200
POLICY = SMTP.clone(cte_type="7bit")  # not every server on the way takes eight bits
PRIORITIES = {Severity.CRITICAL: "1", Severity.ERROR: "2"}


def _smtp_url(value: SecretStr) -> SecretStr:
    MailServer.parse(value.get_secret_value())
    return value


class EmailConfig(ChannelConfig):
    to: tuple[fields.Address, ...] = Field(min_length=1, max_length=50)
    cc: tuple[fields.Address, ...] = Field(default=(), max_length=50)
    from_: fields.Sender | None = Field(default=None, alias="from")
    smtp_url: Annotated[SecretStr, BeforeValidator(fields.trimmed), AfterValidator(_smtp_url)] | None = None

    def targets(self) -> tuple[str, ...]:
        return (self.smtp_url.get_secret_value(),) if self.smtp_url else ()

    def lint(self) -> tuple[str, ...]:
        if self.smtp_url and "starttls=off" in self.smtp_url.get_secret_value():
            return ("smtp_url: starttls=off sends mail and password in the clear",)
        return ()


class Email(Adapter):
    kind: ClassVar[str] = "email"
    Config: ClassVar[type[ChannelConfig]] = EmailConfig
    format: ClassVar[str] = "html"

    def escape(self, text: str) -> str:
        return html.escape(escaping.unlinked(text))

    def parts(self, message: Message, config: EmailConfig) -> list[Part]:  # noqa: ARG002  the same for all
        plain = harmless(message, escaping.unlinked)
        text = cut(plain, [MAX_BODY], utf8, tail_for(plain, message.link or ""))[0]
        payload = {"subject": escaping.one_line(message.title, MAX_SUBJECT), "text": text}
        if message.html and not message.is_plain and utf8(message.html) <= MAX_BODY:
            payload["html"] = escaping.writable(message.html)
        return [Part(1, 1, payload, message)]

    def send(
        self,
        part: Part,
        config: EmailConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,
    ) -> Answer:
        own = config.smtp_url.get_secret_value() if config.smtp_url else None
        url = own or network.smtp_url
        secrets = (*secrets_of(config), *(in_url(url) if url else ()))
        if url is None:
            mend = "no mail server: set the channel's smtp_url or FAULTCAST_SMTP_URL"
            return Answer(Outcome.CHANNEL_BROKEN, code="no_server", message=mend)
        server = MailServer.parse(url)
        sender = config.from_ or server.mail_from
        to = [one for one in dict.fromkeys((*config.to, *config.cc)) if only is None or one in only]
        if not to:
            return Answer(Outcome.DELIVERED, code="nobody_left", message="everybody was told before")
        mail = compose(part, config, sender, now)
        request = redact(f"MAIL FROM:<{parseaddr(sender)[1]}>\n{_shown(to, part)}", secrets)
        try:
            done = submit(
                network, server, guarded=own is not None,
                sender=parseaddr(sender)[1], to=to, content=mail.as_bytes(),
            )  # fmt: skip
        except ForbiddenTarget as lost:
            return Answer(Outcome.REFUSED, code="forbidden_target", message=lost.reason, request=request)
        except NotSent as lost:
            return Answer(Outcome.TEMPORARY, code="not_sent", message=lost.reason, request=request)
        except Refused as refusal:
            return _hidden(_refused(refusal, to), request, secrets)
        return _hidden(_read(done, mail["Message-ID"]), request, secrets)


def compose(part: Part, config: EmailConfig, sender: str, now: datetime) -> EmailMessage:
    """The mail; the same delivery has the same Message-ID on every try."""
    message, mail = part.message, EmailMessage(policy=POLICY)
    name, address = parseaddr(sender)
    domain = address.rpartition("@")[2]
    mail["From"] = Mailbox(name, addr_spec=address)
    mail["To"] = _mailboxes(config.to)
    if config.cc:
        mail["Cc"] = _mailboxes(config.cc)
    mail["Subject"] = part.payload["subject"]
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{_safe(message.id)}@{domain}>"
    if message.thread:
        # One root for all messages of an incident, so that the resolve is shown below the alarm.
        mail["In-Reply-To"] = mail["References"] = f"<{_safe(message.thread)}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office replies
    mail["List-Id"] = f"Faultcast <faultcast.{domain}>"
    if message.severity in PRIORITIES and message.status == "firing":
        mail["X-Priority"], mail["Importance"] = PRIORITIES[message.severity], "high"
    mail.set_content(part.payload["text"])
    if "html" in part.payload:
        mail.add_alternative(part.payload["html"], subtype="html")
    return mail


def _mailboxes(addresses: Iterable[str]) -> list[Mailbox]:
    return [Mailbox(addr_spec=address) for address in addresses]


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _shown(to: Iterable[str], part: Part) -> str:
    told = "\n".join(f"RCPT TO:<{address}>" for address in to)
    return f"{told}\nSubject: {part.payload['subject']}\n\n{part.payload['text']}"


def _hidden(answer: Answer, request: str, secrets: tuple[str, ...]) -> Answer:
    """Servers like to repeat what they were told, a login included."""
    message, response = redact(answer.message, secrets, limit=500), redact(answer.response, secrets)
    return Answer(
        answer.outcome, code=answer.code, message=message, message_id=answer.message_id,
        recipients=answer.recipients, mend=answer.mend, request=request, response=response,
    )  # fmt: skip


def _refused(refusal: Refused, to: Iterable[str]) -> Answer:
    """The whole mail, before or instead of a word on each recipient."""
    reply, verdict = refusal.reply, look_up(refusal.stage, refusal.reply)
    recipients = tuple(Recipient(address, verdict.outcome, _code(reply)) for address in to)
    said = f"{refusal.stage}: {reply}"
    return Answer(
        verdict.outcome,
        code=_code(reply),
        message=said,
        recipients=recipients,
        mend=verdict.mend,
        response=said,
    )


def _read(done: Transaction, message_id: str) -> Answer:
    verdicts = {to: _of_one(reply, done) for to, reply in done.recipients}
    words = {to: _last(reply, done) for to, reply in done.recipients}
    recipients = tuple(Recipient(to, verdicts[to].outcome, _code(words[to])) for to in verdicts)
    outcome = next(one for one in _WORST_FIRST if any(recipient.outcome is one for recipient in recipients))
    worst = next(recipient for recipient in recipients if recipient.outcome is outcome)
    return Answer(
        outcome,
        code=worst.code,
        message=str(words[worst.to]) if len(words) == 1 else f"{worst.to}: {words[worst.to]}",
        message_id=message_id if done.final is None or done.final.kind == 2 else None,
        recipients=recipients,
        mend=verdicts[worst.to].mend if done.final is not None else None,
        response=_transcript(done),
    )


# What is still to be done decides what the whole attempt is called.
_WORST_FIRST = (
    Outcome.AMBIGUOUS, Outcome.CHANNEL_BROKEN, Outcome.TEMPORARY, Outcome.REFUSED, Outcome.DELIVERED,
)  # fmt: skip


def _of_one(reply: Reply, done: Transaction) -> Verdict:
    if reply.kind != 2:
        return look_up(Stage.RECIPIENT, reply)
    return Verdict(Outcome.AMBIGUOUS) if done.final is None else look_up(Stage.CONTENT, done.final)


def _last(reply: Reply, done: Transaction) -> Reply:
    if reply.kind != 2:
        return reply
    return done.final if done.final is not None else Reply(0, done.lost)


def _code(reply: Reply) -> str:
    return " ".join(part for part in (str(reply.code or "unanswered"), reply.enhanced) if part)


def _transcript(done: Transaction) -> str:
    lines = [f"RCPT TO:<{to}> {reply}" for to, reply in done.recipients]
    if done.final is None:
        lines.append(f"DATA (no answer: {done.lost})")
    elif done.final.code:
        lines.append(f"DATA {done.final}")
    return "\n".join(lines)
