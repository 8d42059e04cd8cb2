"""All that goes out by HTTP goes through the operator's proxy and trusts the operator's authority, and it
alone: the provider's name is known to the proxy only, its certificate is of an authority of our own."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from channels.base import Answer, Outcome
from channels.contract import Desk, Subject, make_message
from channels.standin import StandIn
from channels.transport import Network
from notifier.watchdog import Watchdog
from tests.certificates import NAMES, Pair, made
from tests.conftest import wait_for
from tests.contract import subjects, telecom

BY_HTTP = {
    name: getattr(subjects, name.upper()) for name in ("dingtalk", "wecom", "feishu", "webhook", "apprise")
} | telecom.SUBJECTS
HOST = NAMES[1]


class Proxy:
    """A real one: CONNECT, then bytes both ways. It knows one name."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[bytes] = []
        threading.Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                if not (piece := client.recv(1)):
                    return
                head += piece
            self.asked.append(head.partition(b" HTTP/")[0])
            if not head.startswith(b"CONNECT " + HOST.encode()):
                client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", self._port)) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return made(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def providers(pair: Pair) -> Iterator[StandIn]:
    """All of them, over TLS, under a name that resolves nowhere."""
    found = StandIn()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    found._server.socket = context.wrap_socket(
        found._server.socket, server_side=True, do_handshake_on_connect=False
    )
    found._desk.url = found.url = f"https://{HOST}:{found._server.server_port}"
    with found:
        yield found


@pytest.fixture(scope="module")
def proxy(providers: StandIn) -> Iterator[Proxy]:
    found = Proxy(providers._server.server_port)
    yield found
    found.close()


@pytest.fixture
def send(providers: StandIn, proxy: Proxy, pair: Pair) -> Callable[..., list[Answer]]:
    def send(subject: Subject, **changes: object) -> list[Answer]:
        network = Network(allow=(), proxy=proxy.url, ca_bundle=str(pair.authority), timeout_s=10.0)
        desk = Desk(subject)
        desk.providers, desk.network = providers, replace(network, **changes)  # type: ignore[arg-type]
        return desk.send(make_message(), desk.channel())

    return send


@pytest.mark.parametrize("name", BY_HTTP)
def test_through_the_proxy_to_whom_the_operator_trusts(
    name: str, send: Callable[..., list[Answer]], proxy: Proxy, providers: StandIn
) -> None:
    proxy.asked.clear()
    subject: Subject = BY_HTTP[name]
    answers = send(subject)
    assert {answer.outcome for answer in answers} == {subject.told}, answers
    port = providers._server.server_port
    assert set(proxy.asked) == {f"CONNECT {HOST}:{port}".encode()}


@pytest.mark.parametrize("name", BY_HTTP)
def test_nobody_else_is_trusted(
    name: str, send: Callable[..., list[Answer]], proxy: Proxy, providers: StandIn, tmp_path: Path
) -> None:
    before = len(providers.messages())
    other = made(tmp_path)
    (answer, *_) = send(BY_HTTP[name], ca_bundle=str(other.authority))
    assert answer.outcome is Outcome.TEMPORARY, answer
    assert len(providers.messages()) == before


def test_the_watchdog_goes_the_same_way(proxy: Proxy, providers: StandIn, pair: Pair) -> None:
    robot = providers.robot("webhook")
    network = Network(proxy=proxy.url, ca_bundle=str(pair.authority))
    proxy.asked.clear()
    watchdog = Watchdog(robot.url, network, list, every_s=0.02)
    watchdog.start()
    try:
        wait_for(lambda: proxy.asked)
    finally:
        watchdog.stop()
    assert set(proxy.asked) == {f"CONNECT {HOST}:{providers._server.server_port}".encode()}
