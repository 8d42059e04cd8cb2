"""The guarded clients over real sockets, the one for threads and the one for an event loop alike: what may be
dialled, how long, how much, and what an error says."""

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_network
from urllib.parse import urlsplit

import pytest

from channels import dialling
from channels.standin import Scripted, StandIn
from channels.transport import (
    ForbiddenTarget,
    Network,
    NotSent,
    Response,
    Unanswered,
    check_target,
    encode,
    malformed,
)
from tests.channels.sockets import OK, Asked, abreast, saying, serving, whole_request

LOOPBACK = (ip_network("127.0.0.0/8"),)
Ask = Callable[[Network, str], Response]


def network(**more) -> Network:
    return Network(**{"allow": LOOPBACK, "timeout_s": 1.0, **more})


@pytest.fixture(params=["threads", "abreast"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Posts `{}`."""
    if request.param == "threads":
        yield lambda client, url: client.request("POST", url, json={})
        return
    with abreast(network()) as one:

        def ask(client: Network, url: str) -> Response:
            one._network = client
            return Asked.of(one, url).result(10)

        yield ask


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data", "http://100.100.100.200/", "http://[::ffff:7f00:1]/",
        "http://[::1]/", "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/",
        "http://localhost/", "http://localhost./", "http://0/", "http://[fd00:ec2::254]/", "http://[64:ff9b::7f00:1]/",
        "http://user:pw@8.8.8.8/", "http://8.8.8.8\\@127.0.0.1/", "ftp://8.8.8.8/", "file:///etc/passwd",
        "http://", "http:///x", "//8.8.8.8/", "http://8.8.8.8:0/", "http://8.8.8.8:99999/", "http://a b/",
        "http://8.8.8.8/\r\nX: 1", "gopher://8.8.8.8/", "",
        "http://[::1%25lo]:8643/", "http://[::1%lo]/", "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/",
        "http://[::ffff:127.0.0.1%25lo]/", "http://127.0.0.1%25lo/", "http://[2606:4700::1111%25lo]/",
    ],
)  # fmt: skip
def test_neither_saved_nor_dialled(url):
    with pytest.raises(ForbiddenTarget):
        check_target(url, ())
    with pytest.raises(ForbiddenTarget):
        Network(timeout_s=1.0).request("POST", url, json={})


@pytest.mark.parametrize("url", ["smtps://[::1%lo]", "smtp://[::1%25lo]:25", "smtp://[fe80::1%25eth0]"])
def test_no_mail_server_by_a_zone(url):
    with pytest.raises(ForbiddenTarget):
        check_target(url, ())
    with pytest.raises(ForbiddenTarget):
        Network().dial(urlsplit(url).hostname, 25, guarded=True, timeout_s=1.0)


def test_a_zone_goes_with_a_link_that_the_operator_admits():
    check_target("http://[fe80::1%25eth0]/", (ip_network("fe80::/10"),))


def test_a_public_address_may_be_saved():
    check_target("https://8.8.8.8/hook", ())
    check_target("smtp://user:pw@8.8.8.8:587", ())


def test_a_name_that_does_not_resolve_may_be_saved():
    check_target("https://hooks.nowhere.invalid/x", ())


HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"


def test_interim_answers_are_passed_over(ask):
    with serving(
        saying(b"HTTP/1.1 100 Continue\r\n\r\n" + HINTS + b"HTTP/1.1 102 Processing\r\n\r\n" + OK)
    ) as port:
        answer = ask(network(), f"http://127.0.0.1:{port}/")
    assert (answer.status, answer.body, "link" in answer.headers) == (200, b"{}", False)


def test_interim_answers_without_end_are_no_answer(ask):
    with serving(saying(HINTS * 1000)) as port, pytest.raises(Unanswered):
        ask(network(), f"http://127.0.0.1:{port}/")


def test_the_operator_admits_a_network():
    check_target("http://127.0.0.1:1/", LOOPBACK)


def test_a_refusal_tells_no_address():
    with pytest.raises(ForbiddenTarget) as refused:
        check_target("http://localhost/secret-path", ())
    assert "127.0.0.1" not in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "FAULTCAST_ALLOW_TARGETS" in str(refused.value)


def test_a_name_that_changes_its_mind_is_judged_by_the_address_dialled(monkeypatch, ask):
    """DNS rebinding: public when the channel was saved, private now."""
    answers = iter([["8.8.8.8"], ["127.0.0.1"]])

    def resolver(host, *_args, **_more):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in next(answers)]

    monkeypatch.setattr(dialling.socket, "getaddrinfo", resolver)
    check_target("http://rebind.example/", ())
    with pytest.raises(ForbiddenTarget):
        ask(Network(timeout_s=1.0), "http://rebind.example/")


def test_one_private_address_among_public_ones_is_enough(monkeypatch):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in ("8.8.8.8", "10.0.0.1")]
    monkeypatch.setattr(dialling.socket, "getaddrinfo", lambda *_args, **_more: found)
    with pytest.raises(ForbiddenTarget):
        check_target("http://both.example/", ())


def test_a_resolver_that_hangs_is_left_behind(monkeypatch, ask):
    released = threading.Event()

    def hang(*_args, **_more):
        released.wait(10)
        return []

    monkeypatch.setattr(dialling.socket, "getaddrinfo", hang)
    began = time.monotonic()
    with pytest.raises(NotSent, match="not resolved in time"):
        ask(Network(timeout_s=0.2), "http://slow.example/")
    assert time.monotonic() - began < 2
    released.set()


def test_a_drip_of_headers_does_not_outlast_the_deadline(ask):
    drip = [b"HTTP/1.1 200 OK\r\n", *(f"X-{n}: 1\r\n".encode() for n in range(100))]
    with serving(saying(*drip, every_s=0.1)) as port:
        began = time.monotonic()
        with pytest.raises(Unanswered, match="timed out"):
            ask(network(timeout_s=0.5), f"http://127.0.0.1:{port}/")
        assert time.monotonic() - began < 1.5


def test_a_drip_of_body_keeps_what_came(ask):
    drip = [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", *[b"x"] * 100]
    with serving(saying(*drip, every_s=0.1)) as port:
        response = ask(network(timeout_s=0.5), f"http://127.0.0.1:{port}/")
    assert (response.status, response.is_whole) == (200, False)
    assert response.body.startswith(b"x")


def test_a_body_without_end_is_cut(ask):
    with serving(saying(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1_000_000)) as port:
        response = ask(network(), f"http://127.0.0.1:{port}/")
    assert len(response.body) == 64 * 1024


def test_a_compressed_bomb_is_not_unpacked(ask):
    bomb = gzip.compress(b"0" * 10_000_000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n".encode()
    with serving(saying(head, bomb)) as port:
        response = ask(network(), f"http://127.0.0.1:{port}/")
    assert response.body == bomb
    assert response.json_object() == {}


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(b"", id="closed"),
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", id="another-protocol"),
        pytest.param(b"HTTP/1.1 two hundred\r\n\r\n", id="bad-status"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 200 + b"\r\n", id="too-many-headers"),
        pytest.param(b"HTTP/1.1 200 " + b"x" * 100_000, id="endless-status-line"),
    ],
)
def test_what_is_no_answer_is_unanswered(reply, ask):
    with serving(saying(reply)) as port, pytest.raises(Unanswered) as lost:
        ask(network(), f"http://127.0.0.1:{port}/secret-path")
    assert "secret-path" not in str(lost.value)


def test_no_library_logs_the_url(caplog, ask):
    caplog.set_level("DEBUG")
    odd = b"HTTP/1.1 200 OK\r\n: no name\r\n\xff\xfe\r\nContent-Length: 2\r\n\r\n{}"
    with serving(saying(odd)) as port, suppress(Unanswered):
        ask(network(), f"http://127.0.0.1:{port}/hook?access_token=CANARY123")
    assert "CANARY123" not in caplog.text


def test_connections_are_kept_and_shared_by_threads():
    with StandIn() as providers:
        url = providers.robot("webhook").url
        client = network()
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: client.request("POST", url, json={}).status, range(100)))
        assert found == [200] * 100


def test_after_a_lost_answer_the_next_request_is_clean():
    with StandIn() as providers:
        url = providers.robot("webhook").url
        client = network()
        providers.script("webhook", Scripted(200, "late", delay_s=0.6), Scripted(200, "next"))
        with pytest.raises(Unanswered):
            client.request("POST", url, json={}, timeout_s=0.2)
        assert client.request("POST", url, json={}).body == b"next"


def test_headers_of_the_caller_win_in_any_case():
    with StandIn() as providers:
        network().request(
            "POST",
            providers.robot("webhook").url,
            json={},
            headers={"user-agent": "mine", "content-type": "a/b"},
        )
        (shown,) = providers.messages()
    assert (shown.headers["user-agent"], shown.headers["content-type"]) == ("mine", "a/b")


def test_the_environment_is_not_read(monkeypatch, ask):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with serving(saying(OK)) as port:
        assert ask(network(), f"http://127.0.0.1:{port}/").status == 200


def test_a_proxy_is_asked_when_handed_over():
    asked = []

    def proxy(sock: socket.socket) -> None:
        asked.append(whole_request(sock))
        sock.sendall(OK)

    with serving(proxy) as port:
        client = network(allow=(), proxy=f"http://me:p%40ss@127.0.0.1:{port}")
        assert client.request("POST", "http://nowhere.invalid/x", json={}).status == 200
    assert asked[0].startswith(b"POST http://nowhere.invalid/x HTTP/1.1")
    assert b"proxy-authorization: Basic bWU6cEBzcw==" in asked[0]


def test_a_proxy_is_no_way_around_the_guard():
    with serving(saying(OK)) as port:
        client = network(allow=(), proxy=f"http://127.0.0.1:{port}")
        with pytest.raises(ForbiddenTarget):
            client.request("POST", "http://169.254.169.254/", json={})


@pytest.mark.parametrize(
    ("no_proxy", "is_direct"),
    [
        ("127.0.0.1", True),
        ("10.0.0.0/8, 127.0.0.0/8", True),
        ("*", True),
        ("example.com", False),
        ("", False),
    ],
)
def test_no_proxy(no_proxy, is_direct):
    with serving(saying(OK)) as port:
        client = network(proxy="http://127.0.0.1:1", no_proxy=no_proxy)
        if is_direct:
            assert client.request("POST", f"http://127.0.0.1:{port}/", json={}).status == 200
        else:
            with pytest.raises(NotSent):
                client.request("POST", f"http://127.0.0.1:{port}/", json={})


@pytest.fixture
def https(certificate) -> Iterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with serving(saying(OK), context) as port:
        yield port


def test_a_certificate_nobody_knows_is_not_trusted(https, ask):
    with pytest.raises(NotSent, match="certificate is not trusted"):
        ask(network(), f"https://127.0.0.1:{https}/")


def test_the_operators_certificates_are(https, certificate, ask):
    client = network(ca_bundle=certificate)
    assert ask(client, f"https://127.0.0.1:{https}/").status == 200


def test_a_certificate_for_another_name_is_not_trusted(https, certificate, monkeypatch, ask):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(dialling.socket, "getaddrinfo", lambda *_args, **_more: found)
    with pytest.raises(NotSent, match="certificate is not trusted"):
        ask(network(ca_bundle=certificate), f"https://other.example:{https}/")


def test_plain_http_where_tls_is_meant(certificate, ask):
    with serving(saying(OK)) as port, pytest.raises(NotSent):
        ask(network(ca_bundle=certificate), f"https://127.0.0.1:{port}/")


def test_json_is_utf8_and_always_valid():
    assert encode({"a": "训练 \ud800"}) == '{"a":"训练 ?"}'.encode()


def test_a_password_does_not_print():
    assert "hunter2" not in repr(Network(smtp_url="smtp://a:hunter2@mail.example"))
    assert "hunter2" not in repr(Network(proxy="http://a:hunter2@proxy.example:3128"))


@pytest.mark.parametrize(
    "url", ["https://example.com/a?b=c", "http://[2606:4700::1]:8080/", "https://例え.jp/"]
)
def test_well_formed(url):
    assert malformed(url) is None
