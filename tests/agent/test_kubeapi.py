"""Servers that answer no list and no watch: each is told for what it is, and no token gets anywhere by it."""

import socket
import ssl
import time
from collections.abc import Callable
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agent.kubeapi import Api, Cluster, Collection, GoneError, UnavailableError, this_cluster
from notifier.clock import utcnow
from tests import certificates
from tests.agent.apiserver import TOKEN, ApiServer, api, begin, chunk, said

__all__ = ["api"]  # pytest finds the fixture by its name

NODES = Collection("nodes", "/api/v1/nodes", {"metadata.name": "gpu-7"})


def silence(handler: BaseHTTPRequestHandler) -> None:
    """Until the other side is tired of it."""
    handler.connection.recv(1)


def trickle(handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    for _ in range(1000):
        chunk(handler, b" ")
        time.sleep(0.02)


def endless(handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    for _ in range(1000):
        chunk(handler, b" " * (1 << 20))


def broken_off(handler: BaseHTTPRequestHandler) -> None:
    begin(handler)
    handler.wfile.write(b"100\r\n{")


NO_LIST = {
    "no such token": (said({"message": TOKEN}, 401), "401: the API server does not accept"),
    "no permission": (said({"message": TOKEN}, 403), "allow the service account `list` and `watch` of nodes"),
    "not found": (said({}, 404), "HTTP 404"),
    "too many requests": (said({}, 429), "HTTP 429"),
    "elsewhere": (said(b"", 302), "HTTP 302"),
    "a page": (said(b"<html>"), "no JSON object"),
    "deep": (said(b"[" * 100_000), "no JSON object"),
    "a number": (said(b"1"), "no JSON object"),
    "no list": (said({"kind": "Status"}), "no list"),
    "items of no version": (said({"items": []}), "no list"),
    "silence": (silence, "TimeoutError"),
    "a trickle": (trickle, "takes longer than"),
    "an endless answer": (endless, "longer than 8 MiB"),
    "broken off": (broken_off, "IncompleteRead"),
    "no HTTP": (lambda handler: handler.wfile.write(b"SSH-2.0\r\n"), "BadStatusLine"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_LIST)
def test_an_answer_that_is_no_list_is_told_for_what_it_is(api: ApiServer, case: str) -> None:
    answer, why = NO_LIST[case]
    api.answers["nodes"] = answer
    began = time.monotonic()
    with pytest.raises(UnavailableError) as caught:
        Api(api.cluster(answer_s=0.3)).fetch(NODES, 10)
    assert time.monotonic() - began < 10
    assert why in str(caught.value)
    assert TOKEN not in str(caught.value)


def stream(*lines: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        begin(handler)
        for line in lines:
            chunk(handler, line)
        chunk(handler, b"")

    return answer


NO_WATCH = {
    "too old": (stream(b'{"type":"ERROR","object":{"code":410}}\n'), GoneError, "410"),
    "an error": (stream(b'{"type":"ERROR","object":{"code":"x"}}\n'), UnavailableError, "no code"),
    "no JSON": (stream(b"{\n"), UnavailableError, "no JSON object"),
    "no change": (stream(b'{"type":"ADDED","object":1}\n'), UnavailableError, "tells no changes"),
    "half a line": (stream(b'{"type":"ADDED","obj'), UnavailableError, "no JSON object"),
    "too long": (stream(*[b" " * (1 << 20)] * 5), UnavailableError, "longer than 4 MiB"),
    "refused": (said({}, 403), UnavailableError, "403"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_WATCH)
def test_a_watch_that_tells_no_changes_is_told_for_what_it_is(api: ApiServer, case: str) -> None:
    answer, kind, why = NO_WATCH[case]
    api.answers["nodes"] = answer
    with pytest.raises(kind, match=why):
        list(Api(api.cluster()).watch(NODES, "7"))


def test_a_server_that_another_authority_vouches_for_is_not_asked(api: ApiServer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (api.account / "ca.crt").write_bytes(certificates.made(other).authority.read_bytes())
    with pytest.raises(UnavailableError, match="not good by the cluster's authority"):
        Api(api.cluster()).fetch(NODES, 10)
    assert api.tokens == []


def test_a_server_of_another_name_is_not_asked(tmp_path: Path) -> None:
    api = ApiServer(tmp_path, "127.0.0.2")
    try:
        with pytest.raises(UnavailableError, match="not good by the cluster's authority"):
            Api(api.cluster()).fetch(NODES, 10)
        assert api.tokens == []
    finally:
        api.close()


def test_an_authority_without_the_newest_extensions_is_one(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as EKS has. Python 3.13 refuses them unless it is told not to."""

    def strict(cafile: Path) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    bare_certificates(tmp_path)
    authority = api.account / "ca.crt"
    authority.write_bytes((tmp_path / "authority.crt").read_bytes())
    api.present(tmp_path / "bare.crt", tmp_path / "bare.key")
    monkeypatch.setattr(ssl, "create_default_context", strict)
    with (
        socket.create_connection((api.cluster().host, api.cluster().port)) as plain,
        pytest.raises(ssl.SSLCertVerificationError, match="Missing Authority Key Identifier"),
    ):
        strict(authority).wrap_socket(plain, server_hostname="127.0.0.1")
    assert Api(api.cluster()).fetch(NODES, 10) == ([], "7")


def bare_certificates(folder: Path) -> None:
    """An authority and what it signed, without the identifiers of keys."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        for name in ("kubernetes", "kube-apiserver")
    ]
    here = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    extensions = (x509.BasicConstraints(ca=True, path_length=None), here)
    for file, name, key, extension in zip(("authority", "bare"), names, keys, extensions, strict=True):
        made = (
            x509.CertificateBuilder().subject_name(name).issuer_name(names[0]).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(utcnow() - timedelta(days=1))
            .not_valid_after(utcnow() + timedelta(days=1)).add_extension(extension, critical=False)
            .sign(keys[0], hashes.SHA256())
        )  # fmt: skip
        (folder / f"{file}.crt").write_bytes(made.public_bytes(certificates.PEM))
    form = serialization.PrivateFormat.PKCS8
    text = keys[1].private_bytes(certificates.PEM, form, serialization.NoEncryption())
    (folder / "bare.key").write_bytes(text)


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_pod_without_a_service_account_is_told_so(api: ApiServer, missing: str) -> None:
    (api.account / missing).unlink()
    with pytest.raises(UnavailableError, match="automountServiceAccountToken"):
        Api(api.cluster()).fetch(NODES, 10)


@pytest.mark.parametrize("token", ["a\nX-Remote-User: admin", "тайна"])
def test_a_token_that_is_none_goes_nowhere(api: ApiServer, token: str) -> None:
    (api.account / "token").write_text(token)
    with pytest.raises(UnavailableError) as caught:
        Api(api.cluster()).fetch(NODES, 10)
    assert (api.tokens, token in str(caught.value)) == ([], False)


@pytest.mark.parametrize(
    ("env", "found"),
    [
        pytest.param({}, None, id="outside of a cluster"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None, id="without a port"),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "x"}, None, id="no port"
        ),
        pytest.param(
            {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"},
            Cluster("fd00::1", 443),
            id="inside",
        ),
    ],
)
def test_a_pod_knows_its_cluster_by_its_environment(env: dict[str, str], found: Cluster | None) -> None:
    assert this_cluster(env) == found
