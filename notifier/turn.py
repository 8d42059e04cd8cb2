"""Whose turn it is to do what one process does for all: a lease in the table `meta`."""

import secrets
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier.model import Meta
from notifier.storage import Store, insert_new

LEASE = timedelta(seconds=30)
RENEW_BEFORE = timedelta(seconds=20)  # of its end: an idle process writes only so often


class Turn:
    """Ours from the moment nobody else has it, for as long as we ask often enough."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key
        self._name = secrets.token_hex(8)

    def is_ours(self) -> bool:
        with self._store.read() as session:
            now = self._store.now(session)
            holder, until = _parsed(session.scalar(select(Meta.value).where(Meta.key == self._key)))
        if holder == self._name and until - now > RENEW_BEFORE:
            return True
        return False if holder != self._name and until > now else self._take()

    def give_up(self) -> None:
        with self._store.write(lasts=False) as session:
            row = self._row(session)
            if row is not None and _parsed(row.value)[0] == self._name:
                session.delete(row)

    def _take(self) -> bool:
        with self._store.write(lasts=False) as session:
            now = self._store.now(session)
            value = f"{self._name} {(now + LEASE).isoformat()}"
            if insert_new(session, Meta, {"key": self._key, "value": value}):
                return True
            row = self._row(session)
            if row is None:
                return False
            holder, until = _parsed(row.value)
            if holder == self._name or until <= now:
                row.value = value
                return True
            return False

    def _row(self, session: Session) -> Meta | None:
        return session.get(Meta, self._key, with_for_update=True, populate_existing=True)


def _parsed(value: str | None) -> tuple[str, datetime]:
    if value is None:
        return "", datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    holder, _, until = value.partition(" ")
    return holder, datetime.fromisoformat(until)
