"""Many requests at once in one thread: which connections they go by, and that nobody waits for another."""

import socket
import threading
from concurrent.futures import Future
from ipaddress import ip_network
from typing import Any

import pytest

from channels.abreast import wire
from channels.answers import Call, Heard
from channels.standin import Scripted, StandIn
from channels.transport import ForbiddenTarget, Network, NotSent, Unanswered
from notifier.engine import CONCURRENCY
from notifier.leases import SHARE
from tests.channels.sockets import OK, Asked, Server, abreast, saying, serving
from tests.scarce import no_more_threads

LAST = OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")


PER_HOST = 16


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to a host."""
    monkeypatch.setattr("channels.abreast.PER_HOST", PER_HOST)


def network(**more: Any) -> Network:
    return Network(**{"allow": (ip_network("127.0.0.0/8"),), "timeout_s": 5.0, **more})


def test_a_connection_is_kept() -> None:
    server = Server()
    with server.running() as url, abreast(network()) as one:
        for _ in range(3):
            assert Asked.of(one, url).result(5).status == 200
    assert list(server.asked.values()) == [3]


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"200 OK\r\n", b"200 OK\r\nConnection: close\r\n"),
        OK + b"more",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
    ],
    ids=["it says so", "it says too much", "it ends with the answer"],
)
def test_a_connection_that_is_good_for_one_answer_is_not_kept(answer: bytes) -> None:
    server = Server(answers=1, answer=answer)
    with server.running() as url, abreast(network()) as one:
        assert [Asked.of(one, url).result(5).body for _ in range(2)] == [b"{}", b"{}"]
    assert list(server.asked.values()) == [1, 1]


def test_what_was_closed_meanwhile_is_not_used_again() -> None:
    """The server says nothing of it, and ends the connection after each answer."""
    server = Server(answers=1)
    with server.running() as url, abreast(network()) as one:
        for _ in range(5):
            assert Asked.of(one, url).result(5).status == 200
            assert server.closed.acquire(timeout=5)
    assert list(server.asked.values()) == [1] * 5


def test_a_connection_that_is_lost_before_any_answer_leaves_doubt() -> None:
    with serving(saying()) as port, abreast(network()) as one:
        asked = Asked.of(one, f"http://127.0.0.1:{port}/")
        with pytest.raises(Unanswered, match="closed by the other side"):
            asked.result(5)


@pytest.mark.usefixtures("few")
def test_nobody_listens() -> None:
    with abreast(network()) as one:
        found = [Asked.of(one, "http://127.0.0.1:1/") for _ in range(PER_HOST + 20)]
        for asked in found:
            with pytest.raises(NotSent, match="connection refused"):
                asked.result(5)


@pytest.mark.usefixtures("few")
def test_a_fault_of_ours_while_dialling_is_told_and_leaves_the_place_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_args: object) -> None:
        raise RuntimeError("no more threads")

    server = Server()
    with server.running() as url, abreast(network()) as one:
        monkeypatch.setattr(one, "_connected", broken)
        for _ in range(PER_HOST + 1):
            with pytest.raises(NotSent, match="the connection failed"):
                Asked.of(one, url).result(5)
        monkeypatch.undo()
        assert Asked.of(one, url).result(5).status == 200


@pytest.mark.parametrize("thread", ["resolve-for-all", "resolve"])
def test_a_name_that_no_thread_could_look_up_is_looked_up_the_next_time(thread: str) -> None:
    with serving(saying(OK)) as port, abreast(network()) as one:
        url = f"http://localhost:{port}/"
        with no_more_threads(thread), pytest.raises(NotSent, match="the connection failed"):
            Asked.of(one, url).result(5)
        assert Asked.of(one, url).result(5).status == 200


def test_a_fault_of_whoever_hears_keeps_nobody_else_from_hearing() -> None:
    """At its deadline, when the connection ends, and when there is none."""
    failed = threading.Semaphore(0)

    def deaf(_heard: Heard) -> None:
        failed.release()
        raise RuntimeError

    hangs = Server().gated()
    with hangs.running() as slow, serving(saying()) as port, abreast(network(timeout_s=0.5)) as one:
        for url in (slow, f"http://127.0.0.1:{port}/", "http://127.0.0.1:1/"):
            one.loop.call_soon_threadsafe(one.send, Call(url, {}, ()), deaf)
        assert all(failed.acquire(timeout=5) for _ in range(3))
        with pytest.raises(Unanswered, match="timed out"):
            Asked.of(one, slow).result(5)
        hosts: Future[int] = Future()
        one.loop.call_soon_threadsafe(lambda: hosts.set_result(len(one._hosts)))
        assert hosts.result(5) == 0
        hangs.gate.release(2)


def test_a_slow_channel_keeps_no_other_of_the_same_host_waiting() -> None:
    server = Server().gated("/slow")
    with server.running() as url, abreast(network(timeout_s=30.0)) as one:
        slow = [Asked.of(one, f"{url}slow") for _ in range(CONCURRENCY // SHARE)]
        assert Asked.of(one, url).result(20).status == 200
        assert not any(asked.done() for asked in slow)
        server.gate.release(len(slow))
        assert {asked.result(20).status for asked in slow} == {200}


@pytest.mark.usefixtures("few")
def test_a_slow_host_keeps_no_other_waiting_and_has_no_more_than_its_share() -> None:
    slow, quick = Server().gated(), Server()
    with slow.running() as slow_url, quick.running() as quick_url, abreast(network(timeout_s=30.0)) as one:
        many = [Asked.of(one, slow_url) for _ in range(PER_HOST + 50)]
        assert [Asked.of(one, quick_url).result(5).status for _ in range(3)] == [200] * 3
        assert not any(asked.done() for asked in many)
        slow.gate.release(len(many))
        assert {asked.result(20).status for asked in many} == {200}
    assert sum(slow.asked.values()) == PER_HOST + 50
    assert len(slow.asked) == PER_HOST


def test_a_late_answer_is_nobody_elses() -> None:
    with StandIn() as providers, abreast(network(timeout_s=0.3)) as one:
        url = providers.robot("webhook").url
        providers.script("webhook", Scripted(200, "late", delay_s=0.8), Scripted(200, "next"))
        with pytest.raises(Unanswered, match="timed out"):
            Asked.of(one, url).result(5)
        assert Asked.of(one, url).result(5).body == b"next"


def test_an_address_is_judged_at_each_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: what the name means has changed once the first connection is used up."""
    answers = iter(["127.0.0.1", "127.0.0.2"])

    def resolver(*_args: object, **_more: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), 0))]

    monkeypatch.setattr("channels.dialling.socket.getaddrinfo", resolver)
    client = network(allow=(ip_network("127.0.0.1/32"),))
    with serving(saying(LAST)) as port, abreast(client) as one:
        url = f"http://rebind.example:{port}/"
        assert Asked.of(one, url).result(5).status == 200
        with pytest.raises(ForbiddenTarget):
            Asked.of(one, url).result(5)


def test_the_next_address_is_tried_when_the_first_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr("channels.dialling.socket.getaddrinfo", lambda *_args, **_more: found)
    with serving(saying(OK)) as port, abreast(network()) as one:
        assert Asked.of(one, f"http://two.example:{port}/").result(5).status == 200


def test_a_body_of_many_pieces_arrives() -> None:
    chunks = [b"1000\r\n" + b"x" * 4096 + b"\r\n"] * 8
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(saying(head, *chunks, b"0\r\n\r\n")) as port, abreast(network()) as one:
        response = Asked.of(one, f"http://127.0.0.1:{port}/").result(5)
    assert (len(response.body), response.is_whole) == (32768, True)


def call(url: str, **headers: str) -> Call:
    return Call(url, {"a": "训"}, (), headers=headers)


@pytest.mark.parametrize(
    ("url", "place", "first", "host"),
    [
        ("http://a.example/x?y=1#z", ("http", "a.example", 80), "POST /x?y=1 HTTP/1.1", "a.example"),
        ("https://A.example:443", ("https", "a.example", 443), "POST / HTTP/1.1", "a.example"),
        ("https://a.example:8443/%zz ü", ("https", "a.example", 8443), "POST /%25zz%20%C3%BC HTTP/1.1",
         "a.example:8443"),
        ("http://[::1]:9/", ("http", "[::1]", 9), "POST / HTTP/1.1", "[::1]:9"),
    ],
)  # fmt: skip
def test_a_request_on_the_wire(url: str, place: tuple[str, str, int], first: str, host: str) -> None:
    found, content = wire(call(url, **{"user-agent": "mine"}))
    head, _, body = content.decode().partition("\r\n\r\n")
    assert (found, head.split("\r\n")) == (
        place,
        [first, f"Host: {host}", "Accept-Encoding: identity", "Content-Type: application/json; charset=utf-8",
         "user-agent: mine", "Content-Length: 11"],
    )  # fmt: skip
    assert body == '{"a":"训"}'


@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\n", "训"])
def test_a_header_that_would_be_two_is_not_sent(value: str) -> None:
    with pytest.raises(NotSent):
        wire(call("http://a.example/", **{"X-A": value}))
