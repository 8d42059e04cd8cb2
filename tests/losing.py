"""A way to PostgreSQL on which connections are lost in their commit."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import make_url

COMMIT = b"COMMIT\0"


@dataclass
class Losing:
    """Hands everything on between its clients and the server, but what it is told to lose.

    `after`: what a transaction must have said for its commit to be lost.
    """

    server: tuple[str, int]
    url: str = ""
    after: bytes = b""
    lost: int = 0
    _to_lose: list[bool] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lose(self, *kept: bool, after: bytes = b"") -> None:
        """The next commits: their answers, once the database has kept them, or else they themselves."""
        with self._lock:
            self._to_lose += kept
            self.after = after

    def serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                pair = _Pair(self, client, socket.create_connection(self.server))
                for way in (pair.ask, pair.answer):
                    threading.Thread(target=way, daemon=True).start()

    def fate(self) -> bool | None:
        """Of a commit: whether it is kept; None: it is not lost."""
        with self._lock:
            if not self._to_lose:
                return None
            self.lost += 1
            return self._to_lose.pop(0)


@dataclass
class _Pair:
    """A client's connection and ours to the server."""

    way: Losing
    client: socket.socket
    server: socket.socket
    is_over: bool = False

    def ask(self) -> None:
        said = b""
        with suppress(OSError):
            while data := self.client.recv(65536):
                said += data
                if COMMIT in data:
                    kept = self.way.fate() if self.way.after in said else None
                    self.is_over = kept is not None
                    if kept is False:
                        break
                    said = b""
                self.server.sendall(data)
        self._end()

    def answer(self) -> None:
        with suppress(OSError):
            while (data := self.server.recv(65536)) and not self.is_over:
                self.client.sendall(data)
        self._end()

    def _end(self) -> None:
        for each in (self.client, self.server):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def losing(url: str) -> Iterator[Losing]:
    """To the PostgreSQL of that URL; `url` of what it gives leads through it."""
    parsed = make_url(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        way = Losing(("127.0.0.1", int(str(parsed.query["port"]))))
        port = listener.getsockname()[1]
        way.url = parsed.set(host="127.0.0.1", port=port, query={}).render_as_string(hide_password=False)
        thread = threading.Thread(target=way.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield way
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
