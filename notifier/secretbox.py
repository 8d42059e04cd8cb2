"""Secrets at rest: AES-256-GCM under a key derived from `SECRET_KEY`, bound to the row that owns them."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy.orm import Session

from notifier.model import Meta
from notifier.settings import Settings, SettingsError
from notifier.storage import Store

KEY_FILE = "secret.key"
_VERSION = "v1."
_NONCE_BYTES = 12
CHECK = "secret_key_check"


class WrongKeyError(ValueError):
    """What is to be opened was sealed with another key, for another row, or was changed since."""


class SecretBox:
    """Seals and opens. Its repr shows nothing; it is shared by all threads."""

    def __init__(self, secret_key: str) -> None:
        self._cipher = AESGCM(_derive(secret_key, b"faultcast: secrets at rest"))
        self._hash_key = _derive(secret_key, b"faultcast: fingerprints")
        self._sign_key = _derive(secret_key, b"faultcast: links that act")

    def seal(self, plain: Mapping[str, Any], *, owner: str) -> str:
        """`plain` as text for the database; opens only with the same `owner` (the row's id)."""
        nonce = os.urandom(_NONCE_BYTES)
        body = self._cipher.encrypt(nonce, json.dumps(plain).encode(), owner.encode())
        return _VERSION + base64.b64encode(nonce + body).decode()

    def open(self, sealed: str, *, owner: str) -> dict[str, Any]:
        """The mapping that was sealed for `owner`.

        Raises:
            WrongKeyError: sealed with another key or for another owner, or damaged.
        """
        if not sealed.startswith(_VERSION):
            raise WrongKeyError("not in a form that this version of Faultcast knows")
        try:
            raw = base64.b64decode(sealed.removeprefix(_VERSION), validate=True)
            body = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], owner.encode())
        except (InvalidTag, ValueError):
            raise WrongKeyError("sealed with another key or for another row, or damaged") from None
        plain: dict[str, Any] = json.loads(body)
        return plain

    def fingerprint(self, *parts: str) -> str:
        """A keyed hash: equal for equal parts, and no help in guessing a secret among them."""
        return _hashed(self._hash_key, parts).hex()

    def signature(self, *parts: str) -> str:
        """128 bits in 26 letters and digits that nobody without the key can make for these parts."""
        return base64.b32encode(_hashed(self._sign_key, parts)[:16]).decode().rstrip("=").lower()


def open_box(settings: Settings, store: Store) -> SecretBox:
    """The box of this database.

    Raises:
        SettingsError: there is no key, or it is not the one that this database was started with.
    """
    box = SecretBox(_secret_key(settings, store))
    with store.write() as session:
        check = session.get(Meta, CHECK)
        if check is None:
            session.add(Meta(key=CHECK, value=box.seal({"is": "right"}, owner=CHECK)))
            return box
        try:
            box.open(check.value, owner=CHECK)
        except WrongKeyError:
            raise SettingsError(
                "FAULTCAST_SECRET_KEY is not the key of this database: "
                "set the key with which the database was first started"
            ) from None
    return box


def is_key_of(session: Session, box: SecretBox) -> bool:
    """Whether that is the key with which this database was started."""
    check = session.get(Meta, CHECK)
    try:
        return check is not None and bool(box.open(check.value, owner=CHECK))
    except WrongKeyError:
        return False


def _hashed(key: bytes, parts: tuple[str, ...]) -> bytes:
    digest = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.digest()


def _derive(secret_key: str, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret_key.encode())


def _secret_key(settings: Settings, store: Store) -> str:
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value()
    if store.is_postgres:
        raise SettingsError(
            "FAULTCAST_SECRET_KEY is not set: with PostgreSQL set it, the same for every server and worker "
            "(openssl rand -hex 32), or name a file by FAULTCAST_SECRET_KEY_FILE"
        )
    path = settings.data_dir / KEY_FILE
    if not path.exists():
        with store.read() as session:
            _refuse_when_lost(session, path)
        _keep_new_key(path)
    return path.read_text(encoding="ascii").strip()


def _refuse_when_lost(session: Session, path: Path) -> None:
    if session.get(Meta, CHECK) is not None:
        raise SettingsError(
            f"{path} is missing, and this database was started with the key in it: "
            "put the file back, or set FAULTCAST_SECRET_KEY to its content"
        )


def _keep_new_key(path: Path) -> None:
    """Appears whole or not at all; of several processes that start at once the first one's key stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        Path(draft).unlink()
