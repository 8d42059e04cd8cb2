"""Opens sockets, and only to addresses that may be dialled: the check is on the address itself, after
the name is resolved, so that neither odd spellings nor a name that changes its mind get around it."""

import io
import queue
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from channels.addresses import Address, Cidr, forbidden, parse

UNGUARDED = None  # the operator's own targets

_Found = list[tuple[socket.AddressFamily, str]]


class NotSent(Exception):  # noqa: N818  an outcome in the words of the trade
    """Nothing of the request has left: no name, no connection, no TLS. Carries words, never a URL."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ForbiddenTarget(NotSent):
    """The target is not an address or URL that messages may go to."""


class Unanswered(Exception):  # noqa: N818  likewise
    """The request went out and its answer was lost: it may have been carried out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Guard:
    """Says which addresses may be dialled; `allow` None admits every address."""

    allow: tuple[Cidr, ...] | None = ()

    def addresses(self, host: str, timeout_s: float) -> _Found:
        """The addresses of `host`, all of them fit to be dialled.

        Raises:
            ForbiddenTarget: one of them is not.
            NotSent: the name does not resolve in time.
        """
        found = _resolve(host, timeout_s)
        for _, text in found:
            self.admit(parse(text))
        return found

    def admit(self, address: Address | None) -> None:
        """Raises ForbiddenTarget unless `address` may be dialled."""
        if self.allow is UNGUARDED:
            return
        kind = forbidden(address, self.allow) if address is not None else "unknown"
        if kind is not None:
            # The address itself is not told: it would let one read a private name server.
            raise ForbiddenTarget(f"the target's address is {kind}; FAULTCAST_ALLOW_TARGETS may admit it")

    def dial(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """A connected socket to `host`, whichever of its addresses answers first in turn."""
        until = monotonic() + timeout_s
        found = self.addresses(host, timeout_s)
        reason = "the target cannot be reached"
        for tried, (family, address) in enumerate(found):
            left = until - monotonic()
            if left <= 0:
                break
            try:
                return _connect(family, (address, port), left / (len(found) - tried))
            except OSError as error:
                reason = in_words(error)
        raise NotSent(reason)


def in_words(error: BaseException) -> str:
    """A network failure in words of our own: foreign ones may quote the URL, and with it the secret."""
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "connection closed by the other side"
    if isinstance(error, OSError) and error.strerror and error.errno:
        return error.strerror.lower()
    return "the connection failed"


def _connect(family: socket.AddressFamily, address: tuple[str, int], timeout_s: float) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout_s)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def _resolve(host: str, timeout_s: float) -> _Found:
    host = host.rstrip(".").strip("[]")  # `localhost.` is localhost
    literal = parse(host)
    if literal is not None:
        if "%" in host and not literal.is_link_local:
            raise ForbiddenTarget("only a link-local address takes a zone (%…): leave it out")
        family = socket.AF_INET if literal.version == 4 else socket.AF_INET6
        return [(family, host if "%" in host else str(literal))]
    return _in_time(lambda: _lookup(host), timeout_s)


def _lookup(host: str) -> _Found:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def _in_time(lookup: Callable[[], _Found], timeout_s: float) -> _Found:
    """The system's resolver knows no deadline, so it is asked from a thread that may be left behind."""
    answer: queue.SimpleQueue[_Found | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(lookup())
        except (OSError, ValueError):  # no such name, or not a name at all (UnicodeError)
            answer.put(None)

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        found = answer.get(timeout=max(timeout_s, 0.01))
    except queue.Empty:
        raise NotSent("the target's name was not resolved in time") from None
    if not found:
        raise NotSent("the target's name does not resolve")
    return found


class TimedReader(io.RawIOBase):
    """Reads a socket until a moment: a peer that sends one byte now and then cannot stretch it."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
