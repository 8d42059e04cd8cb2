"""`faultcast up` on other parts than the embedded ones: PostgreSQL, Redis, TLS, JSON logs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from notifier.clock import utcnow

LIMIT_S = 60.0


def environment(data_dir: Path, **given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    return kept | {"FAULTCAST_DATA_DIR": str(data_dir)} | given


@contextmanager
def up(folder: Path, **settings: str) -> Iterator[str]:
    """A running `up`; answers its address. Its log is `folder/log`."""
    command = [sys.executable, "-m", "master.cli", "up", "--bind", "127.0.0.1:0", "--workers", "1"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command,
            env=environment(folder / "data", **settings),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("ready "), (folder / "log").read_text()
            yield line.split()[1]
        finally:
            process.terminate()
            assert process.wait(LIMIT_S) == 0


def nodes(folder: Path, url: str, **settings: str) -> list[dict[str, str | None]]:
    listed = subprocess.run(
        [sys.executable, "-m", "master.cli", "node", "list", "--json", "--server", url],
        env=environment(folder / "data", **settings),
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    items: list[dict[str, str | None]] = json.loads(listed.stdout)["items"]
    return items


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def certificate(folder: Path) -> dict[str, str]:
    """A certificate for 127.0.0.1, signed by itself, as settings."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "faultcast")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(utcnow() - timedelta(hours=1))
        .not_valid_after(utcnow() + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return {
        "FAULTCAST_TLS_CERT": str(folder / "cert.pem"),
        "FAULTCAST_TLS_KEY": str(folder / "key.pem"),
    }


def test_with_tls_agents_of_this_machine_still_report(tmp_path: Path) -> None:
    trusted = {"SSL_CERT_FILE": str(tmp_path / "cert.pem")}
    with up(tmp_path, **certificate(tmp_path)) as url:
        assert url.startswith("https://127.0.0.1:")
        wait_for(lambda: all(node["agent_seen_at"] for node in nodes(tmp_path, url, **trusted)))
        untrusted = subprocess.run(
            [sys.executable, "-m", "master.cli", "node", "list", "--server", url],
            env=environment(tmp_path / "data", SSL_CERT_FILE=os.devnull),
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        assert untrusted.returncode == 3
        assert "certificate" in untrusted.stderr


def test_postgresql_and_redis_take_the_place_of_the_embedded(
    tmp_path: Path, postgres_url: str, valkey_url: str
) -> None:
    settings = {
        "FAULTCAST_DATABASE_URL": postgres_url,
        "FAULTCAST_REDIS_URL": valkey_url,
        "FAULTCAST_SECRET_KEY": "a-secret-key-of-tests",
        "FAULTCAST_LOG_FORMAT": "json",
    }
    with up(tmp_path, **settings) as url:
        assert len(nodes(tmp_path, url)) == 3
    assert not (tmp_path / "data" / "faultcast.db").exists()
    assert not (tmp_path / "data" / "valkey").exists()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"event", "level", "timestamp"} <= set(lines[0])
    told = (tmp_path / "log").read_text()
    assert (tmp_path / "data" / "admin.token").read_text().strip() not in told
    assert "a-secret-key-of-tests" not in told


def test_postgresql_without_a_key_is_refused(tmp_path: Path, postgres_url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "master.cli", "up", "--bind", "127.0.0.1:0"],
        env=environment(tmp_path / "data", FAULTCAST_DATABASE_URL=postgres_url),
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "FAULTCAST_SECRET_KEY is not set" in ended.stderr
