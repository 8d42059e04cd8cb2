"""The `channelFailing` alert of a channel: found by its key, closed when the channel is mended."""

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.orm import Session

from notifier.model import Alert, Channel


def failing_key(channel: Channel) -> str:
    return f"channel-failing:{channel.id}"


def close_failing(session: Session, channel: Channel, now: datetime) -> None:
    """The channel works again, or is no more: the next failure is news. Nobody is told of this."""
    session.execute(
        update(Alert)
        .where(Alert.token_id == "", Alert.dedup_key == failing_key(channel), Alert.status == "firing")
        .values(status="resolved", resolved_at=now),
        execution_options={"synchronize_session": False},
    )
