"""Bearer tokens: who speaks, in which role, for which pool and queue."""

import hashlib
import os
import secrets
import tempfile
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, and_, bindparam, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from notifier.ids import new_id
from notifier.model import Token
from notifier.storage import Store

PREFIX = "fct_"
ADMIN_FILE = "admin.token"
_TOKENS = Token.__table__
_BY_HASH = select(_TOKENS).where(_TOKENS.c.sha256 == bindparam("sha256"))  # one read, at every request
_SECRET_BYTES = 32  # 256 bits of chance: nothing to guess, so a plain SHA-256 keeps it


class Role(StrEnum):
    """What a token may do: `publisher` alerts only, `ingest` node signals only, `agent` reports only."""

    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    PUBLISHER = "publisher"
    INGEST = "ingest"
    AGENT = "agent"


@dataclass(frozen=True)
class Principal:
    """Who speaks. `pool` None: all pools; `queue` None: the whole pool. `pod_id`, `node`: an agent's."""

    token_id: str
    name: str
    role: Role
    pool: str | None = None
    queue: str | None = None
    pod_id: str | None = None
    node: str | None = None

    def covers(self, pool: str, queue: str = "") -> bool:
        """Whether a thing of that pool (and queue) lies within this one's scope; if not it answers 404."""
        return self.pool is None or (self.pool == pool and self.queue in {None, queue})

    def only(
        self, pool: InstrumentedAttribute[str], queue: InstrumentedAttribute[str]
    ) -> ColumnElement[bool]:
        """The same as a condition on a table's columns."""
        if self.pool is None:
            return true()
        return pool == self.pool if self.queue is None else and_(pool == self.pool, queue == self.queue)


@dataclass(frozen=True)
class NewToken:
    """What a token is to be."""

    name: str
    role: Role
    pool: str | None = None
    queue: str | None = None
    expires_at: datetime | None = None
    pod_id: str | None = None
    node: str | None = None


def create_token(session: Session, new: NewToken, now: datetime) -> tuple[Token, str]:
    """The row, and the plaintext that is shown this once."""
    plaintext = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    row = Token(
        id=new_id("tok", now),
        name=new.name,
        role=new.role.value,
        pool=new.pool,
        queue=new.queue,
        sha256=_hashed(plaintext),
        pod_id=new.pod_id,
        node=new.node,
        created_at=now,
        expires_at=new.expires_at,
    )
    session.add(row)
    session.flush()
    return row, plaintext


def authenticate(session: Session | Connection, bearer: str, now: datetime) -> Principal | None:
    """Whose token that is, or None. Looked up by its hash: timing tells nothing of any token."""
    if not bearer.startswith(PREFIX):
        return None
    row = session.execute(_BY_HASH, {"sha256": _hashed(bearer)}).first()
    if row is None or (row.expires_at is not None and row.expires_at <= now):
        return None
    return Principal(
        token_id=row.id,
        name=row.name,
        role=Role(row.role),
        pool=row.pool,
        queue=row.queue,
        pod_id=row.pod_id,
        node=row.node,
    )


def bootstrap_admin(store: Store, data_dir: Path, now: datetime) -> Path:
    """Makes sure that `<data_dir>/admin.token` holds a working admin token (mode 0600)."""
    path = data_dir / ADMIN_FILE
    with store.write() as session:
        if not _works(session, path, now):
            _, plaintext = create_token(session, NewToken(name="admin", role=Role.ADMIN), now)
            _write_private(path, plaintext + "\n")
    return path


def _works(session: Session, path: Path, now: datetime) -> bool:
    if not path.is_file():
        return False
    kept = authenticate(session, path.read_text(encoding="utf-8", errors="replace").strip(), now)
    return kept is not None and kept.role is Role.ADMIN


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, draft = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(draft).replace(path)


def _hashed(plaintext: str) -> str:
    return hashlib.sha256(plaintext.encode(errors="replace")).hexdigest()
