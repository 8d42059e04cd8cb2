"""Within one scope a name is a channel's or an on-call list's, never both: it stands where either may."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from notifier.documents import scope_of
from notifier.model import Channel, Oncall
from notifier.problems import conflict

_KINDS: dict[type[Channel] | type[Oncall], str] = {Channel: "a channel", Oncall: "an on-call list"}


def take(session: Session, scope: tuple[str, str], name: str, table: type[Channel] | type[Oncall]) -> None:
    """To be asked before a row of that name is added to `table`; holds the name until the transaction ends.

    Raises:
        Problem: it is taken (409).
    """
    if session.get_bind().dialect.name == "postgresql":  # on SQLite nobody else writes
        key = func.hashtextextended(f"name:{scope_of(*scope)}:{name}", 0)
        session.execute(select(func.pg_advisory_xact_lock(key)))
    for kind, words in _KINDS.items():
        same = select(kind.id).where(kind.pool == scope[0], kind.queue == scope[1], kind.name == name)
        if session.scalars(same).first() is not None:
            other = "name" if kind is table else "name: it stands wherever a channel's or a list's may"
            raise conflict(f"{scope_of(*scope)} already has {words} {name}; take another {other}")
