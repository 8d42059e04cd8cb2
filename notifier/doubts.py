"""Intents of which nobody knows whether they were kept, because the connection was lost in their commit.

Nothing was sent for them: whoever wrote them waits for that commit.
"""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier import meters
from notifier.attempts import First, Intent, NotOursError
from notifier.model import Attempt


def take_back(session: Session, intent: Intent) -> None:
    """As if it had never been written, so that it can be written anew."""
    kept = select(Attempt).where(
        Attempt.delivery_id == intent.delivery_id,
        Attempt.lease_token == intent.token,
        Attempt.n == intent.n,
        Attempt.part == intent.part,
        Attempt.outcome.is_(None),
    )
    for attempt in session.scalars(kept).all():
        meters.give_back(session, set(intent.meters.values()), attempt.id)
        session.delete(attempt)
    session.flush()


def found_all(session: Session, first: Sequence[First]) -> list[int]:
    """Their attempts, in order: one commit keeps all of them or none.

    Raises:
        NotOursError: none is kept.
    """
    kept = select(Attempt.delivery_id, Attempt.id).where(
        Attempt.delivery_id.in_([one.delivery_id for one in first]),
        Attempt.lease_token.in_({one.token for one in first}),
        Attempt.n == 1,
        Attempt.outcome.is_(None),
    )
    ids = {row.delivery_id: row.id for row in session.execute(kept)}
    if ids.keys() != {one.delivery_id for one in first}:
        raise NotOursError
    return [ids[one.delivery_id] for one in first]
