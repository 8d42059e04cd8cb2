"""All providers at once, in this process."""

import secrets
import ssl
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from channels.standin.journal import Journal, Received
from channels.standin.robots import Robot
from channels.standin.server import Desk, Scripted, Server, make_robot
from channels.standin.smtp import MailRules, MailServer
from channels.standin.telecom import Account


class StandIn:
    """All providers at once: robots, texts and calls, a webhook receiver, and a mail server.

    Port 0 is any free one; `ledger` is a file to which every arrival is written before it is answered.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        smtp_port: int = 0,
        ledger: Path | None = None,
        smtp_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.mail = MailRules()
        self._host = host
        self._journal = Journal(ledger)
        self._desk = Desk(self._journal)
        self._server = Server(host, port, self._desk)
        self._desk.url = self.url = f"http://{host}:{self._server.server_port}"
        self._mail = MailServer(self._journal, self.mail, host=host, port=smtp_port, tls=smtp_tls)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="standin", daemon=True
        )

    def start(self) -> Self:
        self._mail.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.close_all()
        self._mail.stop()
        self._journal.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def smtp_url(self) -> str:
        """As `FAULTCAST_SMTP_URL` or a channel's `smtp_url` wants it."""
        return f"smtp://{self._host}:{self._mail.port}?starttls=off"

    def robot(
        self,
        kind: str,
        token: str | None = None,
        *,
        limited: bool = True,
        **settings: Any,
    ) -> Robot:
        """A new robot (or receiver); `limited` False: one that never says "too fast"; `settings` are
        Robot's: secret, keyword …"""
        robot = make_robot(self.url, kind, token or secrets.token_hex(16), **settings)
        return self._desk.register(robot, limited=limited)

    def tell(self, commands: Sequence[str]) -> None:
        """Commands that the page shows."""
        self._desk.commands = commands

    def account(self, provider: str, key: str | None = None, **settings: Any) -> Account:
        """A new customer of a provider of texts and calls; `settings` are Account's."""
        given = {"secret": secrets.token_hex(16), "endpoint": self.url, **settings}
        return self._desk.open(Account(provider, key or f"AK{secrets.token_hex(8)}", **given))

    def script(self, kind: str, *answers: Scripted) -> None:
        """The next requests to this kind are answered so, one after another."""
        self._desk.script(kind, *answers)

    def messages(self, kind: str | None = None, *, accepted: bool | None = None) -> list[Received]:
        return self._journal.all(kind, accepted=accepted)

    def wait(
        self, count: int, kind: str | None = None, *, accepted: bool | None = True, timeout_s: float = 10.0
    ) -> list[Received]:
        """All messages as soon as there are `count`; TimeoutError otherwise."""
        return self._journal.wait(count, kind, accepted=accepted, timeout_s=timeout_s)

    def clear(self) -> None:
        """Forgets what arrived and what was scripted; robots stay."""
        self._journal.clear()
        self._desk.forget_scripts()
        self.mail.reset()
