"""Keeps foreign HTTP stacks (the providers' SDKs, Apprise) to our rules for the network.

They bring stacks of their own (requests, http.client, aiohttp), all of which dial by Python's sockets. So
an audit hook judges each address at the moment it is dialled, whoever dials it: neither a redirect nor a
name that changes its mind gets around it. What is done outside a `confined` block is left alone. A stack
that dials in C (pycurl, grpc, uvloop) is not seen and must not be used here.
"""

import logging
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import cache, partial
from time import monotonic
from types import MappingProxyType
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError

from channels import sessions
from channels.addresses import is_listed, parse
from channels.dialling import ForbiddenTarget, Guard, NotSent, Unanswered
from channels.transport import Network, Response, host_of, reason_of

__all__ = ["Wire", "answer_to", "confined"]

_WIRE: ContextVar["Wire | None"] = ContextVar("wire", default=None)

# At DEBUG and INFO they tell whole requests: URLs, signatures, numbers, texts.
TALKERS = (
    "tencentcloud_sdk_common", "twilio.http_client", "twilio.async_http_client", "darabonba-core",
    "baidubce.http.bce_http_client", "baidubce.auth.bce_v1_signer", "baidubce.services.sms.sms_client",
)  # fmt: skip


class Wire:
    """What a foreign stack did in one block.

    Attributes:
        response: the last answer to a request of `requests`, which SDKs tell less than all of.
        error: what its last request failed with, which some swallow.
    """

    def __init__(self, network: Network, timeout_s: float) -> None:
        self.network = network
        self.response: Response | None = None
        self.error: BaseException | None = None
        self.until = monotonic() + timeout_s
        self._guard = Guard(network.allow)
        self._proxy = _addresses_of(network.proxy, timeout_s) if network.proxy else frozenset()
        self._refused: ForbiddenTarget | None = None
        self._speaks_http = False  # http.client, alone or below requests: tells when a request leaves
        self._left = False
        self._is_late = self._is_over = False
        self._lines: list[socket.socket] = []

    def proxy_for(self, url: str) -> str | None:
        """The proxy that `url` goes through, for a stack that must be told."""
        return None if is_listed(host_of(url), self.network.no_proxy) else self.network.proxy

    def failure(self, error: BaseException | None = None) -> NotSent | Unanswered:
        """What `Network.request` would have raised for the failure that happened in this block."""
        if self._refused is not None:
            return self._refused
        error = error or self.error
        if isinstance(error, NotSent | Unanswered):
            return error
        reason = "timed out" if self._is_late else reason_of(error) if error else "the connection failed"
        return Unanswered(reason) if self._left else NotSent(reason)

    def finish(self) -> None:
        """Raises Unanswered if time ran out before the whole answer was there."""
        if self._is_late:
            raise self.failure()

    def hang_up(self) -> None:
        """Ends what is still open: a peer that sends a byte now and then cannot hold a thread."""
        self._is_late = True
        for line in list(self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._is_over = True
        for line in self._lines:
            line.close()

    def on_connect(self, sock: socket.socket, address: Any) -> None:
        """Judges an address before it is dialled, and watches the socket from then on."""
        if self._is_over:
            self._refuse("the time for it is over")
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            self._refuse("only TCP over IP may be used here")
        if address[:2] not in self._proxy:
            self._judged(lambda: self._guard.admit(parse(str(address[0]))))
        if type(sock) is socket.socket:
            sock.__class__ = _Watched
            self._lines.append(sock.dup())  # a second handle, which no TLS layer takes away
        elif type(sock) is not _Watched:
            self._left = True  # what it sends is not seen

    def on_datagram(self, _sock: socket.socket, address: Any) -> None:
        if address is not None:
            self._refuse("only TCP over IP may be used here")

    def on_http_connect(self, *_args: Any) -> None:
        self._speaks_http = True

    def on_http_send(self, _connection: Any, data: Any) -> None:
        if not (isinstance(data, bytes) and data.startswith(b"CONNECT ")):
            self._left = True

    def on_send(self, sock: socket.socket, data: Any = b"") -> None:
        """Bytes, or a TLS handshake, by a watched socket."""
        if self._proxy:
            self._judge_request(bytes(data[:4096]))
        # An http.client tells by itself when the request leaves, later than its handshake.
        if not self._speaks_http or sock.gettimeout() == 0:
            self._left = True

    def judge_host(self, host: str) -> None:
        """Judges what a name means here and now.

        Raises:
            NotSent: it does not resolve in time, or (ForbiddenTarget) to what may not be dialled.
        """
        self._judged(lambda: self._guard.addresses(host, self.left_s()))

    def left_s(self) -> float:
        return max(self.until - monotonic(), 0.01)

    def _judge_request(self, head: bytes) -> None:
        """The proxy dials, so the target can only be judged by what its name means here, if anything."""
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target = rest.partition(" ")[0]
        host = target.rpartition(":")[0] if method == "CONNECT" else _host(target)
        if host:
            try:
                self.judge_host(host)
            except ForbiddenTarget:
                raise
            except NotSent:
                return

    def _judged(self, judge: Callable[[], object]) -> None:
        try:
            judge()
        except ForbiddenTarget as refused:
            self._refused = refused
            raise

    def _refuse(self, reason: str) -> None:
        self._refused = ForbiddenTarget(reason)
        raise self._refused


@contextmanager
def confined(network: Network, timeout_s: float | None = None) -> Iterator[Wire]:
    """Inside, a foreign stack dials only what `network` may dial, for at most `timeout_s` in all.

    `requests` there takes proxy, certificates and time limits from `network` and nothing from the
    environment; it follows no redirect and reads at most 64 KiB of an answer. Threads started inside
    are confined too. An answer that the stack reports as an exception is to be caught inside: every
    exception that leaves the block is taken for a failure of the network.

    Raises:
        NotSent: nothing left this machine (ForbiddenTarget: because it may not go there).
        Unanswered: something left, and no answer came.
    """
    _install()
    timeout_s = timeout_s or network.timeout_s
    wire = Wire(network, timeout_s)
    timer = threading.Timer(timeout_s, wire.hang_up)
    timer.daemon = True
    timer.start()
    token = _WIRE.set(wire)
    try:
        yield wire
    except Exception as error:  # noqa: BLE001  whatever it is, the stack failed
        raise wire.failure(error) from None
    else:
        wire.finish()
    finally:
        _WIRE.reset(token)
        timer.cancel()
        wire.close()


def answer_to(call: Callable[[], object], network: Network) -> Response:
    """The answer to one call of an SDK over `requests`, as it came, whatever the SDK makes of it.

    Raises:
        NotSent, Unanswered: as `confined`.
    """
    with confined(network) as wire:
        try:
            call()
        except Exception:
            if wire.response is None:
                raise
        if wire.response is None:
            raise NotSent("the client made no request")
        return wire.response


class _Watched(socket.socket):
    """A socket that tells its block when it sends."""

    __slots__ = ()

    def send(self, data: Any, flags: int = 0) -> int:
        self._tell(data)
        return super().send(data, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._tell(data)
        return super().sendall(data, flags)

    def sendmsg(self, buffers: Any, *more: Any) -> int:
        buffers = list(buffers)
        self._tell(b"".join(bytes(piece) for piece in buffers))
        return super().sendmsg(buffers, *more)

    def detach(self) -> int:
        self._tell()  # to be wrapped by TLS
        return super().detach()

    def _tell(self, data: Any = b"") -> None:
        wire = _WIRE.get()
        if wire is not None:
            wire.on_send(self, memoryview(data))


_EVENTS: Mapping[str, Callable[..., None]] = MappingProxyType(
    {
        "socket.connect": Wire.on_connect,
        "socket.sendto": Wire.on_datagram,
        "socket.sendmsg": Wire.on_datagram,
        "http.client.connect": Wire.on_http_connect,
        "http.client.send": Wire.on_http_send,
    }
)


def _audit(event: str, args: tuple[Any, ...], events: Mapping[str, Callable[..., None]] = _EVENTS) -> None:
    """Called for everything that Python audits, in all threads: one look-up for what is not ours."""
    if event in events and (wire := _WIRE.get()) is not None:
        events[event](wire, *args)


@cache
def _install() -> None:
    """Once in a process, when the first block is entered. An audit hook can not be taken away again."""
    for name in TALKERS:
        logging.getLogger(name).addFilter(lambda _record: False)
    _cover_threads()
    sessions.cover(_WIRE.get)
    sessions.cover_tls(_WIRE.get)
    sys.addaudithook(_audit)


def _cover_threads() -> None:
    """A thread begins with an empty context (Python < 3.14), and so would begin outside the block; a pool's
    thread takes up work from inside and outside, so there it is the work that is covered."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def confined_start(self: threading.Thread) -> None:
        target = getattr(self, "_target", None)
        if _WIRE.get() is not None and getattr(target, "__module__", "") != ThreadPoolExecutor.__module__:
            self.run = partial(copy_context().run, self.run)  # type: ignore[method-assign]
        start(self)

    def confined_submit(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **more: Any) -> Any:
        inside = _WIRE.get() is not None
        return submit(self, partial(copy_context().run, fn) if inside else fn, *args, **more)

    threading.Thread.start = confined_start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = confined_submit  # type: ignore[method-assign, assignment]


def _host(target: str) -> str:
    """The host of a request's target, if it names one."""
    try:
        return host_of(target) if "://" in target.partition("?")[0] else ""
    except HTTPError:
        raise ForbiddenTarget("the target is not a URL that can be dialled") from None


def _addresses_of(proxy: str, timeout_s: float) -> frozenset[tuple[str, int]]:
    try:
        parts = urllib3.util.parse_url(proxy)
    except HTTPError:
        raise NotSent("the proxy's URL cannot be read") from None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    found = Guard(None).addresses(parts.host or "", timeout_s)
    return frozenset((address, port) for _, address in found)
