"""Posts reports to the master, one after another over one connection, until each is taken."""

import contextlib
import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from agent.clock import stamp
from agent.journal import note
from agent.outbox import Outbox, Waiting
from agent.settings import Token
from agent.wire import Reply

PATH = "/api/v1/agent/reports"
_CONNECT_S, _ANSWER_S = 3.0, 10.0
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 3.0  # a master that is back must not take our patience for silence
_REFUSED_WAIT_S = 30.0  # a wrong token is seldom mended within seconds
_MAX_REPLY = 256 << 10


class Fate(StrEnum):
    """What became of one post."""

    TAKEN = "taken"
    DROPPED = "dropped"  # the master will never take this report
    AWAY = "away"  # nobody answered, or not as a master does
    REFUSED = "refused"  # our token is not accepted (any more)


@dataclass(frozen=True)
class Answer:
    fate: Fate
    why: str = ""
    reply: Reply | None = None
    wait_s: float | None = None


def judge(status: int, body: bytes, seq: int, retry_after: str | None = None) -> Answer:
    """What an answer means. Only a master's own acknowledgement lets a report go: a proxy says 200 too."""
    if status in (401, 403):
        return Answer(Fate.REFUSED, f"HTTP {status}")
    if status in (400, 409, 410, 413, 415, 422):
        return Answer(Fate.DROPPED, f"HTTP {status}")
    if not 200 <= status < 300:
        is_number = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
        wait = float(retry_after[:9]) if retry_after and is_number else None
        return Answer(Fate.AWAY, f"HTTP {status}", wait_s=min(wait, 60.0) if wait else None)
    try:
        document = json.loads(body)
        ack, want = document["ack"], document.get("want") or {}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Answer(Fate.AWAY, "the answer is no master's")
    if isinstance(ack, bool) or not isinstance(ack, int) or ack < seq or not isinstance(want, dict):
        return Answer(Fate.AWAY, "the answer does not acknowledge the report")
    return Answer(Fate.TAKEN, reply=Reply(ack, want))


class Client:
    """One kept connection to the master."""

    def __init__(self, server: str, token: Token) -> None:
        parts = urlsplit(server)
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port
        self._path = parts.path + PATH
        self._token = token
        self._connection: http.client.HTTPConnection | None = None

    def post(self, waiting: Waiting) -> Answer:
        body = b'{"sent_at":"%s",%s' % (stamp().encode(), waiting.body[1:])
        try:
            return self._post(body, waiting.seq)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            return Answer(Fate.AWAY, type(error).__name__)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, seq: int) -> Answer:
        headers = {"Authorization": f"Bearer {self._token.read()}", "Content-Type": "application/json"}
        kept = self._connection is not None
        try:
            response = self._exchange(body, headers)
        except (ConnectionError, http.client.BadStatusLine):
            if not kept:
                raise
            self.close()  # the master closed a connection that stood idle; numbered reports may be repeated
            response = self._exchange(body, headers)
        content = response.read(_MAX_REPLY)
        if not response.isclosed():
            self.close()
        return judge(response.status, content, seq, response.headers.get("Retry-After"))

    def _exchange(self, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._connection = kind(self._host, self._port, timeout=_CONNECT_S)
            self._connection.connect()
            self._connection.sock.settimeout(_ANSWER_S)
        self._connection.request("POST", self._path, body, headers)
        return self._connection.getresponse()


class Sender(threading.Thread):
    """Empties the outbox. `heard` is called with each reply, in this thread."""

    def __init__(self, outbox: Outbox, client: Client, heard: Callable[[Reply, Waiting], Any]) -> None:
        super().__init__(name="sender", daemon=True)
        self.away = False
        self.refused = False
        self.dropped = 0
        self._outbox = outbox
        self._client = client
        self._heard = heard
        self._wait_s = _FIRST_WAIT_S
        self._until: float | None = None

    def finish(self, within_s: float) -> None:
        """Send what waits, but not for longer; then keep the rest on disk."""
        self._until = time.monotonic() + within_s
        self._outbox.wake()
        self.join(within_s)
        self._outbox.to_disk()

    def run(self) -> None:
        while not self._over():
            waiting = self._outbox.peek()
            if waiting is None:
                if self._until is not None:
                    return
                self._outbox.wait(5.0)
                continue
            self._settle(waiting, self._client.post(waiting))
        self._client.close()

    def _over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _settle(self, waiting: Waiting, answer: Answer) -> None:
        if answer.fate in (Fate.AWAY, Fate.REFUSED):
            self._hold(answer)
            return
        self._outbox.done(waiting)
        if self.away:
            note("master_reached")
        self.away = self.refused = False
        self._wait_s = _FIRST_WAIT_S
        if answer.fate is Fate.DROPPED:
            self.dropped += 1
            note("report_refused", seq=waiting.seq, why=answer.why)
        if answer.reply is not None:
            self._heard(answer.reply, waiting)

    def _hold(self, answer: Answer) -> None:
        """Keep everything on disk and try again later; say so once, not at each try."""
        refused = answer.fate is Fate.REFUSED
        if not self.away or refused is not self.refused:
            note("token_refused" if refused else "master_away", why=answer.why)
        self.away, self.refused = True, refused
        self._outbox.to_disk()
        wait = answer.wait_s or self._wait_s * random.uniform(0.8, 1.2)  # noqa: S311  only spreads the agents
        self._wait_s = min(self._wait_s * 2, _REFUSED_WAIT_S if refused else _LONGEST_WAIT_S)
        if self._until is not None:
            self._until = self._until if answer.fate is Fate.AWAY else time.monotonic()
            wait = min(wait, max(0.0, self._until - time.monotonic()))
        with contextlib.suppress(OSError):
            self._outbox.wait(wait, urgent_only=True)
