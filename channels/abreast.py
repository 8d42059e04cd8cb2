"""Requests to many hosts at once in one thread: what `Network.request` does, for an event loop.

The same guard, certificates, deadlines and words. A host has connections of its own, kept as long as they are
used, so a slow one keeps no other waiting. Nothing here is for several threads but what says so.
"""

import asyncio
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import cast

from channels.addresses import parse
from channels.answers import Call, Heard
from channels.dialling import NotSent, Unanswered, in_words
from channels.replies import NoAnswerError, Reply
from channels.transport import Network, encode, reason_of, taken_apart

PER_HOST = 512  # connections: several channels' shares, so that a slow one keeps no other of its host waiting
IDLE = 256  # of all hosts
IDLE_S = 60.0
LOOK_S, LOOK_IDLE_S = 0.25, 5.0  # between two looks at the deadlines
PORTS = {"http": 80, "https": 443}
USUAL = {"User-Agent": "Faultcast", "Accept-Encoding": "identity"}
JSON = {"Content-Type": "application/json; charset=utf-8"}
NO_URL = "the target is not a URL that can be dialled"
NO_HTTP = "the connection failed"
CLOSED = "connection closed by the other side"

Place = tuple[str, str, int]  # scheme, host, port


@dataclass(eq=False, slots=True)
class _Request:
    """One that is under way: `heard` is told what came of it, once."""

    content: bytes
    heard: Callable[[Heard], None]
    until: float


@dataclass(eq=False)
class _Host:
    """`count`: its connections, those that are being opened too."""

    place: Place
    idle: list["_Connection"] = field(default_factory=list)
    waiting: deque[_Request] = field(default_factory=deque)
    count: int = 0
    opening: int = 0


class Abreast:
    """Sends for one event loop."""

    def __init__(self, network: Network, loop: asyncio.AbstractEventLoop) -> None:
        self._network, self.loop = network, loop
        self._hosts: dict[Place, _Host] = {}
        self.connections: set[_Connection] = set()
        self._lookups: dict[str, asyncio.Future[list[tuple[socket.AddressFamily, str]]]] = {}
        self._openings: set[asyncio.Task[None]] = set()
        self._look: asyncio.TimerHandle | None = None
        self._pause_s: float | None = None  # until the next look
        self._idle = 0

    def send(self, call: Call, heard: Callable[[Heard], None]) -> None:
        """Ask, and tell `heard` in this loop what came of it, at once or later. Only for a URL that
        `Network.is_direct`. Raises nothing but NotSent, and then `heard` is told nothing."""
        place, content = wire(call)
        request = _Request(content, heard, monotonic() + self._network.timeout_s)
        host = self._hosts.get(place)
        if host is None:
            host = self._hosts[place] = _Host(place)
        while host.idle:
            self._idle -= 1
            connection = host.idle.pop()
            if connection.is_quiet():
                connection.ask(request)
                break
            connection.drop()
        else:
            host.waiting.append(request)
            self._open_more(host)
        self._look_in(LOOK_S)

    async def close(self) -> None:
        """Nothing is asked any more; what is under way is given up without a word."""
        self._look_in(None)
        for host in self._hosts.values():
            host.waiting.clear()
        for task in self._openings:
            task.cancel()
        for connection in self.connections:
            connection.request = None
            connection.drop()
        await asyncio.gather(*self._openings, return_exceptions=True)
        for _ in range(3):  # the loop tells them, and lets go of them
            await asyncio.sleep(0)

    def has_answered(self, connection: "_Connection") -> None:
        """It is free for another request."""
        host = connection.host
        if host.waiting:
            connection.ask(host.waiting.popleft())
        elif self._idle < IDLE:
            self._idle += 1
            host.idle.append(connection)
        else:
            connection.drop()

    def is_gone(self, connection: "_Connection") -> None:
        self.connections.discard(connection)
        host = connection.host
        host.count -= 1
        if connection in host.idle:
            host.idle.remove(connection)
            self._idle -= 1
        self._open_more(host)

    def _open_more(self, host: _Host) -> None:
        while host.opening < len(host.waiting) and host.count < PER_HOST:
            host.count += 1
            host.opening += 1
            task = self.loop.create_task(self._open(host))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)
        if not host.count and not host.waiting:
            self._hosts.pop(host.place, None)

    async def _open(self, host: _Host) -> None:
        """One more connection to it; if there can be none, whoever waits longest hears so."""
        try:
            async with asyncio.timeout(self._network.timeout_s):
                connection = await self._connected(host)
        except NotSent as lost:
            reason: NotSent | None = lost
        except TimeoutError:
            reason = NotSent("timed out")
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  a border: whatever it was, nothing has been sent
            reason = NotSent(reason_of(error))
        else:
            reason = NotSent(CLOSED) if connection.is_lost() else None
        host.opening -= 1
        if reason is None:
            self.connections.add(connection)
            self.has_answered(connection)
            return
        host.count -= 1
        request = host.waiting.popleft() if host.waiting else None
        self._open_more(host)
        if request is not None:
            request.heard(reason)

    async def _connected(self, host: _Host) -> "_Connection":
        """By the first address that answers, of those that may be dialled."""
        scheme, name, port = host.place
        found, reason = await self._addresses(name), "the target cannot be reached"
        share_s = self._network.timeout_s / len(found)
        name = name.strip("[]").rstrip(".")
        tls, named = (self._network.tls, name) if scheme == "https" else (None, None)
        for family, address in found:
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setblocking(False)
                async with asyncio.timeout(share_s):
                    await self.loop.sock_connect(sock, (address, port))
            except OSError as error:  # a TimeoutError too
                sock.close()
                reason = in_words(error)
                continue
            except BaseException:
                sock.close()
                raise
            _, connection = await self.loop.create_connection(
                lambda: _Connection(self, host), sock=sock, ssl=tls, server_hostname=named
            )
            return connection
        raise NotSent(reason)

    async def _addresses(self, name: str) -> list[tuple[socket.AddressFamily, str]]:
        """Those that may be dialled. A name is looked up in a thread of its own, for all that wait for it."""
        guard, timeout_s = self._network.guard, self._network.timeout_s
        if parse(name.strip("[]")) is not None:
            return guard.addresses(name, timeout_s)
        found = self._lookups.get(name)
        if found is None:
            found = self.loop.create_future()
            threading.Thread(
                target=self._look_up, args=(name, found), name="resolve-for-all", daemon=True
            ).start()
            self._lookups[name] = found  # not before: where there is no thread to be had, nobody looks it up
            found.add_done_callback(lambda _: self._lookups.pop(name, None))
        return await asyncio.shield(found)

    def _look_up(self, name: str, found: "asyncio.Future[list[tuple[socket.AddressFamily, str]]]") -> None:
        """In a thread of its own."""
        try:
            # Less than there is in all, so that it can be told what took so long.
            addresses = self._network.guard.addresses(name, 0.9 * self._network.timeout_s)
        except NotSent as lost:
            self._say(_fail, found, lost)
        except BaseException as error:  # noqa: BLE001  a border: those who wait are told, and the next ones look anew
            self._say(_fail, found, NotSent(reason_of(error)))
        else:
            self._say(_tell, found, addresses)

    def _say(self, how: Callable[..., None], *what: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(how, *what)

    def _look_around(self) -> None:
        """Who waits for too long, and what nobody has used for long."""
        self._pause_s = None
        self._look_in(LOOK_S)  # whatever becomes of this look
        now, is_busy = monotonic(), False
        for connection in list(self.connections):
            request = connection.request
            if request is None:
                if now > connection.since + IDLE_S:
                    connection.drop()
            elif now >= request.until:
                connection.give_up(Unanswered("timed out"))
            else:
                is_busy = True
        for host in list(self._hosts.values()):
            while host.waiting and now >= host.waiting[0].until:
                host.waiting.popleft().heard(NotSent("timed out"))
            is_busy |= bool(host.waiting)
        self._look_in(LOOK_S if is_busy or self._openings else LOOK_IDLE_S if self.connections else None)

    def _look_in(self, pause_s: float | None) -> None:
        if pause_s == self._pause_s:
            return
        if self._look is not None:
            self._look.cancel()
        self._pause_s = pause_s
        self._look = None if pause_s is None else self.loop.call_later(pause_s, self._look_around)


class _Connection(asyncio.Protocol):
    """One connection, and the one request that is under way on it."""

    def __init__(self, all_: Abreast, host: _Host) -> None:
        self._all, self.host = all_, host
        self.request: _Request | None = None
        self.since = monotonic()  # when it was last used
        self._reply = Reply()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def is_lost(self) -> bool:
        return self._is_lost or self._transport.is_closing()

    def is_quiet(self) -> bool:
        """Nothing has come since, and above all no end."""
        return not self.is_lost() and not self._poll.poll(0)

    def ask(self, request: _Request) -> None:
        self.request, self._reply = request, Reply()
        self._transport.write(request.content)

    def data_received(self, data: bytes) -> None:
        if self.request is None:  # nobody has asked
            self.drop()
            return
        try:
            self._reply.feed(data)
        except NoAnswerError:
            self.give_up(Unanswered(NO_HTTP))
            return
        if self._reply.is_done:
            self._answered(cast(Heard, self._reply.response()))

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        if self in self._all.connections:
            self._all.is_gone(self)
        if self.request is not None:
            reason = Unanswered(CLOSED if error is None else reason_of(error))
            self.give_up(reason, has_ended=error is None)

    def give_up(self, reason: Unanswered, *, has_ended: bool = False) -> None:
        """No more of the answer comes; what there is of it counts. `has_ended`: by the other side's will."""
        self.drop()
        request, self.request = self.request, None
        if request is not None:
            request.heard(self._reply.response(has_ended=has_ended) or reason)

    def drop(self) -> None:
        self._transport.abort()

    def _answered(self, heard: Heard) -> None:
        request, self.request = self.request, None
        self.since = monotonic()
        if not self._reply.may_keep:
            self.drop()
        elif not self.is_lost() and (not self.host.waiting or self.is_quiet()):
            self._all.has_answered(self)
        else:
            self.drop()
        if request is not None:
            request.heard(heard)


def wire(call: Call) -> tuple[Place, bytes]:
    """Where it goes, and all bytes of the request. Pure.

    Raises:
        NotSent: it cannot be written as HTTP.
    """
    try:
        scheme, host, port, target = taken_apart(call.url)
        place = (str(scheme), str(host), port or PORTS[str(scheme)])
        body = encode(call.payload) if call.body is None else call.body
        named = str(host) if place[2] == PORTS[place[0]] else f"{host}:{port}"
        head = f"POST {target} HTTP/1.1\r\nHost: {named}\r\n{_lines(call.headers)}"
        return place, f"{head}Content-Length: {len(body)}\r\n\r\n".encode("latin-1") + body
    except (ValueError, KeyError):
        raise NotSent(NO_URL) from None


def _lines(headers: Mapping[str, str]) -> str:
    """The caller's win, in any case."""
    given = {name.lower() for name in headers}
    usual = [f"{name}: {value}\r\n" for name, value in (USUAL | JSON).items() if name.lower() not in given]
    lines = [*usual, *(f"{name}: {value}\r\n" for name, value in headers.items())]
    text = "".join(lines)
    if text.count("\r") != len(lines) or text.count("\n") != len(lines):
        raise ValueError
    return text


def _tell(found: "asyncio.Future[list[tuple[socket.AddressFamily, str]]]", addresses: object) -> None:
    if not found.done():
        found.set_result(cast("list[tuple[socket.AddressFamily, str]]", addresses))


def _fail(found: "asyncio.Future[list[tuple[socket.AddressFamily, str]]]", lost: NotSent) -> None:
    if not found.done():
        found.set_exception(lost)
        found.exception()  # it may be that nobody waits for it any more
