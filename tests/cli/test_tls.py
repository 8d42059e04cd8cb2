"""The API over TLS: who trusts it, what browsers are told, and a certificate that is renewed."""

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

from master.certificate import Renewing
from master.runtimes.local import LocalRuntime
from tests.certificates import Pair, made
from tests.cli.test_server import LIMIT_S, run, serving


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def serial(port: int, pair: Pair) -> int:
    """Of the certificate that a new connection is shown."""
    trusting = ssl.create_default_context(cafile=pair.authority)
    plain = socket.create_connection(("127.0.0.1", port), timeout=10)
    with closing(trusting.wrap_socket(plain, server_hostname="localhost")) as secure:
        shown = secure.getpeercert()
    assert shown
    return int(str(shown["serialNumber"]), 16)


def test_the_api_over_tls(tmp_path: Path) -> None:
    data, pair = tmp_path / "data", made(tmp_path)
    settings = {"FAULTCAST_TLS_CERT": str(pair.certificate), "FAULTCAST_TLS_KEY": str(pair.key)}
    assert run(data, "migrate").returncode == 0
    try:
        with serving(data, **settings) as url:
            port = urlsplit(url).port or 0
            address = {"FAULTCAST_SERVER": f"https://localhost:{port}"}
            trusted = run(data, "node", "list", "--json", **address, FAULTCAST_CA_BUNDLE=str(pair.authority))
            assert (trusted.returncode, "items" in json.loads(trusted.stdout)) == (0, True)
            doubted = run(data, "node", "list", **address)
            assert doubted.returncode == 3
            assert "FAULTCAST_CA_BUNDLE" in doubted.stderr
            context = ssl.create_default_context(cafile=pair.authority)
            kept = http.client.HTTPSConnection("localhost", port, context=context, timeout=10)
            kept.request("GET", "/healthz")
            answer = kept.getresponse()
            assert (answer.read(), answer.headers["strict-transport-security"]) == (
                b"ok\n",
                "max-age=2592000",
            )
            assert serial(port, pair) == pair.serial
            pair.key.write_text("half written")
            again = made(tmp_path)
            until(lambda: serial(port, again) == again.serial)
            kept.request("GET", "/healthz")
            assert kept.getresponse().read() == b"ok\n", "a connection that is open goes on"
            kept.close()
    finally:
        LocalRuntime(data, 3).shutdown()


def test_what_cannot_be_loaded_leaves_the_one_in_use(tmp_path: Path) -> None:
    pair = made(tmp_path)
    renewing = Renewing(pair.certificate, pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)

    def shown() -> int:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        trusting = ssl.create_default_context(cafile=pair.authority)
        client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
        server = context.wrap_bio(to_server, to_client, server_side=True)
        for side in (client, server, client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        found = client.getpeercert()
        assert found
        return int(str(found["serialNumber"]), 16)

    assert shown() == pair.serial
    other = made(tmp_path, name="other")
    pair.key.write_bytes(other.key.read_bytes())  # not this certificate's own
    renewing.look(context)
    assert shown() == pair.serial
    pair.certificate.write_bytes(other.certificate.read_bytes())
    renewing.look(context)
    assert shown() == other.serial
    pair.key.unlink()
    renewing.look(context)
    assert shown() == other.serial
