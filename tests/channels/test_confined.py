"""Foreign HTTP stacks inside `confined`: what they may dial, how long, and what their failures mean."""

import asyncio
import gzip
import http.client
import logging
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network

import aiohttp
import pytest
import requests
import urllib3

from channels import confined as module
from channels.confined import confined
from channels.standin import Scripted
from channels.transport import ForbiddenTarget, Network, NotSent, Unanswered
from tests.channels.test_transport import HINTS, OK, saying, serving, whole_request

LOOPBACK = (ip_network("127.0.0.0/8"),)
PUBLIC = Network(timeout_s=2.0)


def network(**more) -> Network:
    return Network(**{"allow": LOOPBACK, "timeout_s": 2.0, **more})


def by_requests(url):
    return requests.post(url, data=b"{}", timeout=5).status_code


def by_urllib3(url):
    retries = urllib3.Retry(3, connect=0, read=0)
    return urllib3.PoolManager().request("POST", url, body=b"{}", timeout=5.0, retries=retries).status


def by_http_client(url):
    parts = urllib3.util.parse_url(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.host.strip("[]"), parts.port, timeout=5)
    try:
        connection.request("POST", "/", b"{}")
        return connection.getresponse().status
    finally:
        connection.close()


def by_aiohttp(url):
    async def post():
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as session,
            session.post(url, data=b"{}") as reply,
        ):
            return reply.status

    return asyncio.run(post())


def by_socket(url):
    parts = urllib3.util.parse_url(url)
    with socket.create_connection((parts.host, parts.port), 5) as sock:
        sock.sendall(b"POST / HTTP/1.0\r\n\r\n")
        return int(sock.makefile("rb").read(12)[9:])


STACKS = [by_requests, by_urllib3, by_http_client, by_aiohttp, by_socket]
BLOCKING = [by_requests, by_urllib3, by_http_client]
every_stack = pytest.mark.parametrize("post", STACKS)


@pytest.fixture
def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@every_stack
def test_what_may_be_dialled_is(providers, post):
    with confined(network()):
        assert post(providers.robot("webhook").url) in (200, 400, 404)


@every_stack
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_forbidden_address_is_never_reached(providers, post, host):
    url = providers.robot("webhook").url.replace("127.0.0.1", host)
    with pytest.raises(ForbiddenTarget, match="FAULTCAST_ALLOW_TARGETS"), confined(PUBLIC):
        post(url)
    assert providers.messages() == []


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "100.100.100.200", "[::ffff:7f00:1]", "[::1]", "0", "127.1"]
)
@pytest.mark.parametrize("post", [by_requests, by_http_client])
def test_odd_spellings_of_forbidden_addresses(post, host):
    with pytest.raises(ForbiddenTarget), confined(PUBLIC):
        post(f"http://{host}:80/")


@pytest.mark.parametrize("post", [*BLOCKING, by_aiohttp])
def test_an_interim_answer_is_none(post):
    with serving(saying(HINTS, OK)) as port, confined(network()):
        assert post(f"http://127.0.0.1:{port}/") == 200


@every_stack
def test_outside_a_block_nothing_is_judged(providers, post):
    with pytest.raises(ForbiddenTarget), confined(PUBLIC):
        post(providers.url)
    assert post(providers.robot("webhook").url) in (200, 400, 404)


@pytest.mark.parametrize("post", [by_urllib3, by_http_client, by_aiohttp])
def test_a_name_that_changes_its_mind(providers, post, monkeypatch):
    """DNS rebinding: judged by the address dialled, whatever the name meant before."""
    port = int(providers.url.rpartition(":")[2])
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *more, **named: real("127.0.0.1", *more, **named)
    )
    with pytest.raises(ForbiddenTarget), confined(PUBLIC):
        post(f"http://rebind.example:{port}/")


@pytest.mark.parametrize("post", [by_requests, by_urllib3, by_aiohttp])
def test_a_redirect_to_a_forbidden_host(post):
    """The stand-in redirects from an admitted address to another one of loopback's."""
    away = b"HTTP/1.1 302 Found\r\nLocation: http://127.9.9.9:%d/\r\nContent-Length: 0\r\n\r\n"
    with serving(saying(OK)) as inner, serving(saying(away % inner)) as port:
        one = network(allow=(ip_network("127.0.0.1/32"),))
        if post is by_requests:  # follows none
            with confined(one):
                assert post(f"http://127.0.0.1:{port}/") == 302
        else:
            with pytest.raises(ForbiddenTarget), confined(one):
                post(f"http://127.0.0.1:{port}/")


def test_threads_begun_inside_are_inside(providers):
    url, found = providers.robot("webhook").url, []

    def attempt():
        try:
            by_requests(url)
        except Exception as error:  # noqa: BLE001
            found.append(type(error))

    with confined(PUBLIC):
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        with ThreadPoolExecutor() as pool:
            pool.submit(attempt).result()
    assert found == [ForbiddenTarget, ForbiddenTarget]
    assert by_requests(url) == 200


def test_work_given_to_a_pool_is_where_it_was_given(providers):
    url = providers.robot("webhook").url
    with ThreadPoolExecutor(1) as older:
        assert older.submit(by_requests, url).result() == 200
        with confined(PUBLIC):
            assert isinstance(older.submit(by_requests, url).exception(), ForbiddenTarget)
            younger = ThreadPoolExecutor(1)
            assert isinstance(younger.submit(by_requests, url).exception(), ForbiddenTarget)
        for pool in (older, younger):  # their threads were begun outside and inside
            assert pool.submit(by_requests, url).result() == 200
        younger.shutdown()


def test_what_outlives_its_block_may_dial_no_more(providers):
    gate, found = threading.Event(), []

    def attempt():
        gate.wait(10)
        try:
            by_urllib3(providers.url)
        except NotSent as error:
            found.append(str(error))

    with confined(network()):
        thread = threading.Thread(target=attempt)
        thread.start()
    gate.set()
    thread.join()
    assert found == ["the time for it is over"]


def test_neither_unix_sockets_nor_datagrams(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(ForbiddenTarget), confined(network()), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(tmp_path / "s"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        with pytest.raises(ForbiddenTarget), confined(network()):
            sock.sendto(b"x", ("127.0.0.1", 9))
        with pytest.raises(ForbiddenTarget), confined(network()):
            sock.sendmsg([b"x"], [], 0, ("127.0.0.1", 9))
        with pytest.raises(ForbiddenTarget), confined(network()):
            sock.connect(("127.0.0.1", 9))


@every_stack
def test_nobody_listens_so_nothing_left(post, closed_port):
    with pytest.raises(NotSent, match=r"refused|failed"), confined(network()):
        post(f"http://127.0.0.1:{closed_port}/")


@pytest.mark.parametrize("post", BLOCKING)
def test_no_such_name(post):
    with pytest.raises(NotSent), confined(network()):
        post("http://sms.nowhere.invalid/")


@every_stack
def test_it_left_and_no_answer_came(post):
    with serving(whole_request) as port, pytest.raises(Unanswered), confined(network()):
        post(f"http://127.0.0.1:{port}/")


@every_stack
def test_slow_answers_end_in_time(post):
    began = time.monotonic()
    drops = (bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10)
    slow = saying(*drops, every_s=0.05)
    with (
        serving(slow) as port,
        pytest.raises(Unanswered, match="timed out"),
        confined(network(timeout_s=0.4)),
    ):
        post(f"http://127.0.0.1:{port}/")
    assert time.monotonic() - began < 2.5


@pytest.mark.parametrize("post", BLOCKING)
def test_an_untrusted_certificate_lets_nothing_leave(post, certificate):
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate)
    untrusted = pytest.raises(NotSent, match="certificate is not trusted")
    with serving(saying(OK), served) as port, untrusted, confined(network()):
        post(f"https://127.0.0.1:{port}/")


def test_the_certificates_of_the_network_are_trusted(certificate):
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate)
    with serving(saying(OK), served) as port, confined(network(ca_bundle=certificate)):
        assert by_requests(f"https://127.0.0.1:{port}/") == 200
        assert requests.get(f"https://127.0.0.1:{port}/", verify=True, timeout=5).status_code == 200


def test_a_client_that_fails_by_itself_sent_nothing():
    with pytest.raises(NotSent), confined(network()):
        raise KeyError("secret-key")


def test_a_kept_connection_counts_too(providers):
    """The request leaves over a connection that another block dialled."""
    with requests.Session() as session:
        url = providers.robot("webhook").url
        with confined(network()):
            assert session.post(url, data=b"{}", timeout=5).status_code == 200
        providers.script("webhook", Scripted(close="before"))
        with pytest.raises(Unanswered), confined(network()):
            session.post(url, data=b"{}", timeout=5)


def proxying(seen):
    def talk(sock):
        request = whole_request(sock)
        seen.append(request.partition(b" HTTP/")[0])
        sock.sendall(OK if b"http://" in seen[-1] else b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    return talk


def test_through_the_proxy(monkeypatch):
    seen = []
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # the environment is not read
    with serving(proxying(seen)) as port:
        proxied = Network(proxy=f"http://127.0.0.1:{port}", timeout_s=2.0)
        with confined(proxied):
            assert by_requests("http://8.8.8.8/hook") == 200
        with confined(proxied):
            assert by_requests("http://sms.nowhere.invalid/") == 200  # the proxy may know it
        with pytest.raises(NotSent), confined(proxied):
            by_requests("https://8.8.8.8/hook")
    assert seen == [
        b"POST http://8.8.8.8/hook", b"POST http://sms.nowhere.invalid/", b"CONNECT 8.8.8.8:443",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "https://10.0.0.1/", "http://localhost:1/", "https://localhost/"]
)
@pytest.mark.parametrize("stack", ["requests", "urllib3"])
def test_the_proxy_is_not_asked_for_a_forbidden_target(url, stack):
    seen = []
    with serving(proxying(seen)) as port:
        proxy = f"http://127.0.0.1:{port}"
        manager = urllib3.ProxyManager(proxy, retries=False)
        post = by_requests if stack == "requests" else lambda url: manager.request("POST", url)
        with pytest.raises(ForbiddenTarget), confined(Network(proxy=proxy, timeout_s=2.0)):
            post(url)
    assert not any(seen)


def test_hosts_without_proxy_are_dialled():
    seen = []
    with serving(proxying(seen)) as port, serving(saying(OK)) as direct:
        proxy = f"http://127.0.0.1:{port}"
        with confined(network(proxy=proxy, no_proxy="127.0.0.1")) as wire:
            assert wire.proxy_for("http://8.8.8.8/") == proxy
            assert by_requests(f"http://127.0.0.1:{direct}/") == 200
    assert seen == []


def test_no_password_of_the_machine_is_sent(monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login operator password canary")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    heads = []

    def talk(sock):
        heads.append(whole_request(sock))
        sock.sendall(OK)

    with serving(talk) as port, confined(network()):
        by_requests(f"http://127.0.0.1:{port}/")
    assert b"Authorization" not in heads[0]


def test_no_more_is_read_than_an_answer_may_hold():
    bomb = gzip.compress(bytes(50_000_000))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with serving(saying(head + bomb)) as port, confined(network()):
        reply = requests.get(f"http://127.0.0.1:{port}/", timeout=5)
    assert len(reply.content) == 64 * 1024


def test_talkative_clients_are_silent(caplog):
    caplog.set_level(logging.DEBUG)
    with confined(network()):
        for name in module.TALKERS:
            logging.getLogger(name).warning("canary")
    assert "canary" not in caplog.text


def test_no_socket_is_left_open(providers):
    url = providers.robot("webhook").url
    with confined(network()) as wire:
        by_requests(url)
    assert [line.fileno() for line in wire._lines] == [-1]


def test_the_answer_is_kept_as_it_came():
    busy = saying(b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}")
    with serving(busy) as port, confined(network()) as wire:
        by_requests(f"http://127.0.0.1:{port}/")
    kept = wire.response
    assert (kept.status, kept.headers["retry-after"], kept.body, kept.is_whole) == (429, "7", b"{}", True)


def test_an_answer_that_broke_off():
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"
    with serving(saying(half)) as port, pytest.raises(Unanswered), confined(network()) as wire:
        by_requests(f"http://127.0.0.1:{port}/")
    assert (wire.response.status, wire.response.is_whole) == (200, False)
