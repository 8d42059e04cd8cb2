"""The `channelFailing` alert of a channel: raised when it breaks, over once it is mended or no more."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier.alerts import NewAlert, Published, publish
from notifier.ends import resolve
from notifier.items import ITEMS
from notifier.lasting import FIRING
from notifier.model import Alert, Channel

CHANGED = {
    "zh": "渠道已修改：暂存的消息现在补发，若仍失败会再次告警",
    "en": "The channel was changed: what was held is sent now, and if it fails again, that is told anew",
}
DISABLED = {"zh": "渠道已停用", "en": "The channel was disabled"}
DELETED = {"zh": "渠道已删除", "en": "The channel was deleted"}


def raise_channel_failing(session: Session, channel: Channel, why: str, now: datetime) -> Published:
    """Tells the pool's people, never through the channel itself, that it does not work any more."""
    new = NewAlert(
        pool=channel.pool,
        queue=channel.queue,
        dedup_key=_key(channel),
        item="channelFailing",
        severity=ITEMS["channelFailing"].severity,
        title=f"channel {channel.name} ({channel.kind}) does not work: {why}",
        text=why,
        labels={"channel": channel.name, "kind": channel.kind},
        context={"channel": {"name": channel.name, "kind": channel.kind, "why": why}},
        skip_channel=channel.id,
    )
    return publish(session, new, now)


def close_failing(
    session: Session, channel: Channel, now: datetime, ended: Mapping[str, str] | None = None
) -> frozenset[int]:
    """Whoever was told that it fails hears of the end, and the next failure is news. Shards to ring.

    `ended`: why, where it is not seen to work.
    """
    which = (Alert.token_id == "", Alert.dedup_key == _key(channel), Alert.status == FIRING)
    alert_id = session.scalar(select(Alert.id).where(*which))
    if alert_id is None:
        return frozenset()
    return resolve(session, alert_id=alert_id, now=now, ended=ended).shards


def _key(channel: Channel) -> str:
    return f"channel-failing:{channel.id}"
