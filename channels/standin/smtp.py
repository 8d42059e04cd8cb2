"""Plays a mail server, on aiosmtpd: logins, STARTTLS, refused recipients, answers that are never heard."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from ssl import SSLContext
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from channels.standin.journal import Journal, Received

OK = "250 2.0.0 OK"


@dataclass
class MailRules:
    """What the server does; may be changed between mails.

    Attributes:
        recipients: the reply to `RCPT TO` by address, where it is not "250".
        senders: likewise for `MAIL FROM`.
        content: the reply to the content, or `close`: taken, and never answered.
        logins: user → password; not empty: a login is asked for.
        delay_s: waited before the content is answered.
    """

    recipients: dict[str, str] = field(default_factory=dict)
    senders: dict[str, str] = field(default_factory=dict)
    content: list[str] = field(default_factory=list)
    logins: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0

    def reset(self) -> None:
        vars(self).update(vars(MailRules()))


class MailServer:
    """An SMTP server in a thread of its own."""

    def __init__(
        self, journal: Journal, rules: MailRules, *, host: str, port: int, tls: SSLContext | None = None
    ) -> None:
        self._journal = journal
        self._rules = rules
        self._where = (host, port)
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="standin-smtp", daemon=True)
        self.port = port

    def start(self) -> None:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        self.port = server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await self._loop.create_server(self._session, *self._where)

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _session(self) -> SMTP:
        return SMTP(
            _Handler(self._journal, self._rules), hostname="mail.standin", ident="stand-in",
            tls_context=self._tls, authenticator=self._authenticate, auth_require_tls=False,
        )  # fmt: skip

    def _authenticate(self, *call: Any) -> AuthResult:
        given = call[-1]  # after server, session, envelope and mechanism
        known = (
            isinstance(given, LoginPassword)
            and self._rules.logins.get(given.login.decode()) == given.password.decode()
        )
        return AuthResult(success=known, handled=False)


class _Handler:
    """The hooks that aiosmtpd calls by name."""

    def __init__(self, journal: Journal, rules: MailRules) -> None:
        self._journal = journal
        self._rules = rules

    async def handle_MAIL(  # noqa: N802
        self, _server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self._rules.logins and not session.authenticated:
            return "530 5.7.0 Authentication required"
        reply = self._rules.senders.get(address, OK)
        if reply.startswith("2"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return reply

    async def handle_RCPT(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        reply = self._rules.recipients.get(address, "250 2.1.5 OK")
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        reply = self._rules.content.pop(0) if self._rules.content else OK
        self._journal.add(lambda n: _received(n, envelope, reply))
        if self._rules.delay_s:
            await asyncio.sleep(self._rules.delay_s)
        if reply == "close" and isinstance(server.transport, asyncio.WriteTransport):
            server.transport.abort()
        return OK if reply == "close" else reply


def _received(n: int, envelope: Envelope, reply: str) -> Received:
    content = envelope.content if isinstance(envelope.content, bytes) else b""
    mail = BytesParser(EmailMessage, policy=default).parsebytes(content)
    text = mail.get_body(("plain",))
    return Received(
        n=n,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),  # noqa: TID251  a played clock
        kind="email",
        robot=envelope.rcpt_tos[0],
        is_accepted=reply == "close" or reply.startswith("2"),
        code=reply,
        title=str(mail.get("Subject", "")),
        text=text.get_content() if text is not None else "",
        called=tuple(envelope.rcpt_tos),
        id=str(mail.get("Message-ID", "")),
        body=content.decode("utf-8", "replace"),
        headers={name.lower(): str(value) for name, value in mail.items()},
    )
