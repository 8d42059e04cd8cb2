"""What arrived at the stand-ins: in memory for questions, and in a ledger on disk for crash tests."""

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Received:
    """One arrival.

    Attributes:
        kind: `dingtalk`, `wecom`, `feishu`, `webhook`, `email`, `sms`, `phone`, or `query`: what became of
            a text or a call was asked.
        robot: the token, key, hook, sink name, the account's key, or the mail's first recipient.
        is_accepted: the provider took it and shows it to people.
        code: what it was answered: the provider's code or the SMTP reply.
        title: what people see first, where the form has a title of its own.
        text: what people read.
        called: who was really notified, by the provider's own rules.
        id: what the sender calls it: `msgUuid`, `webhook-id` or `Message-ID`.
        body: the whole request body, or the headers of the mail.
        headers: the request's headers, in lower case.
        query: the request's query, decoded once.
    """

    n: int
    at: str
    kind: str
    robot: str
    is_accepted: bool
    code: str
    title: str = ""
    text: str = ""
    called: tuple[str, ...] = ()
    id: str = ""
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "called": list(self.called)}


class Journal:
    """Shared by all threads. With a ledger, an arrival is on disk before it is answered."""

    def __init__(self, ledger: Path | None = None) -> None:
        self._received: list[Received] = []
        self._changed = threading.Condition(threading.RLock())
        self._count = 0
        self._file = ledger.open("a", encoding="utf-8") if ledger else None

    def add(self, make: Callable[[int], Received]) -> Received:
        """Keeps what `make` makes of the next number."""
        with self._changed:
            self._count += 1
            received = make(self._count)
            if self._file is not None:
                self._file.write(json.dumps(received.document(), ensure_ascii=False) + "\n")
                self._file.flush()
                os.fsync(self._file.fileno())
            self._received.append(received)
            self._changed.notify_all()
        return received

    def all(self, kind: str | None = None, *, accepted: bool | None = None) -> list[Received]:
        with self._changed:
            return [
                one for one in self._received
                if kind in (None, one.kind) and accepted in (None, one.is_accepted)
            ]  # fmt: skip

    def wait(
        self, count: int, kind: str | None = None, *, accepted: bool | None = None, timeout_s: float = 10.0
    ) -> list[Received]:
        """All arrivals as soon as there are `count` of them.

        Raises:
            TimeoutError: says how many there were instead.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.all(kind, accepted=accepted)) >= count, timeout_s):
                raise TimeoutError(f"{len(self.all(kind, accepted=accepted))} of {count} messages arrived")
            return self.all(kind, accepted=accepted)

    def clear(self) -> None:
        with self._changed:
            self._received.clear()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
