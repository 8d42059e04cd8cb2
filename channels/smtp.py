"""One SMTP transaction, stage by stage, so that it is known how far it came. `smtplib` speaks the
protocol; the socket comes from the guard, and every wait ends at one deadline."""

import io
import re
import smtplib
import socket
import ssl
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from urllib.parse import parse_qsl, unquote, urlsplit

from channels.addresses import parse
from channels.dialling import TimedReader
from channels.fields import is_address
from channels.transport import Network, NotSent

EXAMPLE = "smtp://user:password@host:587"
_ENHANCED = re.compile(r"([245])\.\d{1,3}\.\d{1,3}\b")


class Stage(StrEnum):
    """How far a mail came."""

    CONNECT = "connect"
    STARTTLS = "starttls"
    AUTH = "auth"
    SENDER = "sender"
    RECIPIENT = "recipient"
    CONTENT = "content"


@dataclass(frozen=True)
class MailServer:
    """A parsed `smtp://` or `smtps://` URL."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    is_implicit: bool = False  # TLS from the first byte
    starttls: bool = True
    sender: str = ""

    @classmethod
    def parse(cls, url: str) -> "MailServer":
        """Raises ValueError, in words that hold nothing of the URL."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:
            port = host = None
        if host is None or parts.scheme not in ("smtp", "smtps") or port == 0 or parts.path not in ("", "/"):
            raise ValueError(f"give a URL such as {EXAMPLE}; percent-encode / # ? and @ in the password")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        starttls, sender = options.pop("starttls", "on"), options.pop("from", "")
        if options or starttls not in ("on", "off") or (sender and not is_address(sender)):
            raise ValueError("after the ? only starttls=off and from=ADDRESS are known")
        implicit = parts.scheme == "smtps"
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if not (user + password).isascii():
            raise ValueError("user and password must be ASCII: SMTP servers agree on nothing else")
        return cls(
            host,
            port or (465 if implicit else 587),
            user,
            password,
            is_implicit=implicit,
            starttls=starttls == "on" and not implicit,
            sender=sender,
        )

    @property
    def mail_from(self) -> str:
        """The sender where the channel names none."""
        if self.sender or is_address(self.user):
            return self.sender or self.user
        guess = f"faultcast@{self.host}"
        return guess if is_address(guess) and parse(self.host) is None else "faultcast@localhost"


@dataclass(frozen=True)
class Reply:
    """What the server said. The class digit of an enhanced status (RFC 3463) goes before the code's, but
    for a success, which both must say."""

    code: int
    text: str = ""

    @property
    def kind(self) -> int:
        found = _ENHANCED.match(self.text)
        kind = self.code // 100
        return int(found[1]) if found and (kind == 2 or found[1] != "2") else kind

    @property
    def enhanced(self) -> str:
        found = _ENHANCED.match(self.text)
        return found[0] if found else ""

    def __str__(self) -> str:
        return f"{self.code} {self.text}".strip()


class Refused(Exception):  # noqa: N818  the server's word, not a failure of ours
    """The server refused the whole transaction at some stage."""

    def __init__(self, stage: Stage, reply: Reply) -> None:
        super().__init__(f"{stage}: {reply}")
        self.stage = stage
        self.reply = reply


@dataclass(frozen=True)
class Transaction:
    """How it ended: the word on each recipient, and on the content; `final` None: never heard."""

    recipients: tuple[tuple[str, Reply], ...]
    final: Reply | None
    lost: str = ""


class _Session(smtplib.SMTP):
    """`smtplib` on a socket that is already connected, with one deadline for all that is read."""

    def __init__(self, sock: socket.socket, server: MailServer, until: float) -> None:
        local = sock.getsockname()[0]
        literal = f"[IPv6:{local}]" if ":" in local else f"[{local}]"
        super().__init__(local_hostname=literal)  # an address literal: no look-up of our own name
        self.sock = sock
        self._host = server.host  # what STARTTLS checks the certificate against
        self._until = until

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(TimedReader(self.sock, self._until))
        return super().getreply()

    def ask(self, command: str) -> Reply:
        return _reply(*self.docmd(command))

    def content(self, content: bytes) -> None:
        """Everything after DATA, with the final dot; leading dots are doubled (RFC 5321 4.5.2)."""
        self.send(re.sub(rb"(?m)^\.", b"..", content).rstrip(b"\r\n") + b"\r\n.\r\n")


def submit(
    network: Network, server: MailServer, *, guarded: bool, sender: str, to: Iterable[str], content: bytes
) -> Transaction:
    """Hand one mail to the server.

    Raises:
        NotSent: the content never left whole.
        Refused: the server refused before it looked at a recipient, or the whole content.
    """
    until = monotonic() + network.smtp_timeout_s
    sock = network.dial(server.host, server.port, guarded=guarded, timeout_s=network.smtp_timeout_s)
    session: _Session | None = None
    try:
        sock = _secured(network, server, sock)
        session = _Session(sock, server, until)
        _introduce(network, server, session)
        return _transact(session, sender, list(to), content)
    except (smtplib.SMTPException, OSError) as error:
        raise NotSent(_in_words(error)) from None
    finally:
        (session or sock).close()


def greet(network: Network, server: MailServer) -> None:
    """As far as a mail would come before it names anybody; nothing is sent.

    Raises:
        NotSent: the server cannot be reached, or not in a way that is trusted.
        Refused: it would not have us.
    """
    until = monotonic() + network.smtp_timeout_s
    sock = network.dial(server.host, server.port, guarded=False, timeout_s=network.smtp_timeout_s)
    try:
        sock = _secured(network, server, sock)
        with closing(_Session(sock, server, until)) as session:
            _introduce(network, server, session)
            _must(Stage.CONNECT, session.ask("NOOP"))
            session.putcmd("QUIT")
    except (smtplib.SMTPException, OSError) as error:
        raise NotSent(_in_words(error)) from None
    finally:
        sock.close()


def _secured(network: Network, server: MailServer, sock: socket.socket) -> socket.socket:
    return network.tls.wrap_socket(sock, server_hostname=server.host) if server.is_implicit else sock


def _introduce(network: Network, server: MailServer, session: _Session) -> None:
    _must(Stage.CONNECT, _reply(*session.getreply()))
    _must(Stage.CONNECT, _reply(*session.ehlo()))
    if server.starttls:
        if not session.has_extn("starttls"):
            words = "no STARTTLS is offered; only in a trusted network may smtp_url end in ?starttls=off"
            raise Refused(Stage.STARTTLS, Reply(502, words))
        _must(Stage.STARTTLS, _reply(*session.starttls(context=network.tls)))
        _must(Stage.CONNECT, _reply(*session.ehlo()))
    if not server.user:
        return
    try:
        session.login(server.user, server.password)
    except smtplib.SMTPAuthenticationError as error:
        raise Refused(Stage.AUTH, _reply(error.smtp_code, error.smtp_error)) from None
    except smtplib.SMTPServerDisconnected:
        raise
    except smtplib.SMTPException:
        raise Refused(
            Stage.AUTH, Reply(504, "the server offers no way to log in that is known here")
        ) from None


def _transact(session: _Session, sender: str, to: list[str], content: bytes) -> Transaction:
    size = f" SIZE={len(content)}" if session.has_extn("size") else ""
    _must(Stage.SENDER, session.ask(f"MAIL FROM:<{sender}>{size}"))
    replies = [(address, session.ask(f"RCPT TO:<{address}>")) for address in to]
    if not any(reply.kind == 2 for _, reply in replies):
        return Transaction(tuple(replies), Reply(0))
    go = session.ask("DATA")
    if go.code != 354:
        raise Refused(Stage.CONTENT, go)
    session.content(content)
    try:
        final = _reply(*session.getreply())
    except (smtplib.SMTPException, OSError) as error:
        return Transaction(tuple(replies), None, _in_words(error))
    with suppress(smtplib.SMTPException, OSError):
        session.putcmd("QUIT")
    return Transaction(tuple(replies), final)


def _must(stage: Stage, reply: Reply) -> None:
    if reply.code // 100 != 2:
        raise Refused(stage, reply)


def _reply(code: int, text: bytes | str) -> Reply:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return Reply(code, " ".join(words.split()))


def _in_words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the mail server's certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return "TLS with the mail server failed"
    if isinstance(error, TimeoutError) or "timed out" in str(error):
        return "the mail server did not answer in time"
    return "the mail server closed the connection"
