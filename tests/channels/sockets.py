"""Servers that say what a test lets them say, and a client in an event loop of its own."""

import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress

import uvloop

from channels.abreast import Abreast
from channels.answers import Call, Heard
from channels.transport import Network, NotSent, Response

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def serving(talk: Callable[[socket.socket], None], wrap: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that lets `talk` do what it likes with each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with suppress(OSError), sock:
                talk(wrap.wrap_socket(sock, server_side=True) if wrap else sock)

    threading.Thread(target=run, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def whole_request(sock: socket.socket) -> bytes:
    """All of it: closing a socket with bytes unread would reset the connection."""
    head = body = b""
    while not head.endswith(b"\r\n\r\n") and (piece := sock.recv(1)):
        head += piece
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]) and (piece := sock.recv(65536)):
        body += piece
    return head + body


def saying(*pieces: bytes, every_s: float = 0.0) -> Callable[[socket.socket], None]:
    def talk(sock: socket.socket) -> None:
        whole_request(sock)
        for piece in pieces:
            sock.sendall(piece)
            time.sleep(every_s)

    return talk


@contextmanager
def abreast(client: Network) -> Iterator[Abreast]:
    """With an event loop in a thread of its own."""
    loop = uvloop.new_event_loop()
    one = Abreast(client, loop)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(one.close())
        loop.close()


class Server:
    """Answers on each connection as often as it may, and knows what came by which."""

    def __init__(self, answers: int = 1000, answer: bytes = OK) -> None:
        self.asked: Counter[int] = Counter()
        self.gate, self.closed = threading.Semaphore(0), threading.Semaphore(0)
        self._answers, self._answer = answers, answer
        self._gated: bytes | None = None

    def gated(self, path: str = "/") -> "Server":
        """An answer for each `release` of the gate, below that path."""
        self._gated = f"POST {path}".encode()
        return self

    @contextmanager
    def running(self) -> Iterator[str]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)

        def accept() -> None:
            while True:
                try:
                    sock, address = listener.accept()
                except OSError:
                    return
                threading.Thread(target=self._talk, args=(sock, address[1]), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _talk(self, sock: socket.socket, port: int) -> None:
        with sock:
            for _ in range(self._answers):
                request = whole_request(sock)
                if not request:
                    return
                self.asked[port] += 1
                if self._gated is not None and request.startswith(self._gated):
                    self.gate.acquire()
                sock.sendall(self._answer)
        self.closed.release()


class Asked(Future[Response]):
    """One POST that is under way."""

    @classmethod
    def of(cls, one: Abreast, url: str, headers: Mapping[str, str] | None = None) -> "Asked":
        asked = cls()

        def send() -> None:
            try:
                one.send(Call(url, {}, (), headers=headers or {}), asked.hear)
            except NotSent as lost:
                asked.hear(lost)

        one.loop.call_soon_threadsafe(send)
        return asked

    def hear(self, heard: Heard) -> None:
        if isinstance(heard, Response):
            self.set_result(heard)
        else:
            self.set_exception(heard)
