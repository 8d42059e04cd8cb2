"""Certificates of an authority of the tests' own."""

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from notifier.clock import utcnow

PEM = serialization.Encoding.PEM
NAMES = ("localhost", "providers.invalid")  # the second is known to a proxy of the tests alone


@dataclass(frozen=True)
class Pair:
    """Files: the certificate, its key, and that of the authority which signed it."""

    certificate: Path
    key: Path
    authority: Path
    serial: int


def made(folder: Path, *, days: int = 90, name: str = "server") -> Pair:
    """A certificate for this machine that is good for `days`; the authority is made once a folder."""
    authority_key, authority = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    now = utcnow()
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name("localhost"))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([*map(x509.DNSName, NAMES), x509.IPAddress(ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    certificate = builder.sign(authority_key, hashes.SHA256())
    pair = Pair(
        folder / f"{name}.pem", folder / f"{name}.key", folder / "authority.pem", certificate.serial_number
    )
    pair.certificate.write_bytes(certificate.public_bytes(PEM))
    _keep(pair.key, key)
    return pair


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    path, key_path = folder / "authority.pem", folder / "authority.key"
    if path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key, x509.load_pem_x509_certificate(path.read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    now = utcnow()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name("tests"))
        .issuer_name(_name("tests"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path.write_bytes(certificate.public_bytes(PEM))
    _keep(key_path, key)
    return key, certificate


def _keep(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(PEM, form, serialization.NoEncryption()))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
