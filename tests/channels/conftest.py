"""Real stand-ins and a client that may dial them."""

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from channels.base import Message, Severity
from channels.standin import StandIn
from channels.transport import Network


@pytest.fixture
def providers() -> Iterator[StandIn]:
    with StandIn() as standin:
        yield standin


@pytest.fixture
def network() -> Network:
    return Network(allow=(ip_network("127.0.0.0/8"),), timeout_s=1.0, smtp_timeout_s=1.0)


@pytest.fixture
def message() -> Callable[..., Message]:
    text = "culprit: rank 3 on node-b\ndecision: restart"
    usual = Message(
        "dlv_01", "llm-训练 🔥 failed", text, text, Severity.ERROR, html=f"<p>{text}</p>",
        link="https://faultcast.example.com/a/1", thread="alert_01",
        document={
            "id": "alr_01", "time": "2026-11-29T03:12:41.120Z", "item": "jobFailed",
            "labels": {"team": "nlp"},
            "job": {"id": "job_01", "name": "llm"}, "event": None,
            "links": {"job": "https://faultcast.example.com/jobs/job_01"},
        },
    )  # fmt: skip
    return lambda **changes: replace(usual, **changes)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> str:
    """A PEM file with a key and a certificate of its own for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return str(path)
