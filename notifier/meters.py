"""Meters: by what a provider counts sends. Which ones a channel has, and all that counts under one.

Channels of different shards may share a meter, so whoever counts in order to send holds its lock.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from sqlalchemy import Select, Table, bindparam, delete, func, or_, select
from sqlalchemy.orm import Session

from channels.base import Adapter, ChannelConfig, Limit, Severity
from channels.registry import adapter as adapter_of
from notifier import pace
from notifier.model import Attempt, Channel, ChannelMeter, Delivery, MeterUse
from notifier.storage import insert_new
from notifier.waiting import waited_for

LONGEST_SEND = timedelta(minutes=10)  # a mail to a slow server
KEPT = timedelta(hours=25)  # longer than any provider's window


_M = cast(Table, ChannelMeter.__table__).c
_OF = (
    select(_M.channel_id, _M.meter)
    .where(_M.channel_id.in_(bindparam("ids", expanding=True)))
    .order_by(_M.meter)
)
# On the way of every alert that has a limit, so built once.
_SHARING = select(ChannelMeter.channel_id).where(ChannelMeter.meter == bindparam("meter"))
_BEGUN = (Attempt.delivery_id == Delivery.id) & (Attempt.lease_token == Delivery.lease_token)
_PROMISED = (
    select(
        Delivery.severity,
        Delivery.order_key,
        Delivery.status,
        Delivery.is_digest,
        Delivery.why,
        (func.max(Attempt.parts) - func.max(Attempt.part)).label("left"),
        Channel.kind,
        Channel.config,
    )
    .select_from(Delivery)
    .join(Channel, Channel.id == Delivery.channel_id)
    .outerjoin(Attempt, _BEGUN)
    .where(
        or_(Delivery.channel_id.in_(_SHARING), Delivery.channel_id == bindparam("alone")),
        Delivery.state == "sending",
        Delivery.id != bindparam("but"),
    )
    .group_by(Delivery.id, Channel.id)
)
_SENT = (
    select(Delivery.severity, Delivery.order_key, Attempt.finished_at)
    .select_from(MeterUse)
    .join(Attempt, Attempt.id == MeterUse.attempt_id)
    .join(Delivery, Delivery.id == Attempt.delivery_id)
    .where(
        MeterUse.meter == bindparam("meter"),
        MeterUse.started_at > bindparam("begun"),
        or_(Attempt.finished_at.is_(None), Attempt.finished_at > bindparam("since")),
    )
)


def own(channel_id: str) -> str:
    """The meter of a channel whose provider counts by nothing that could be shared."""
    return f"channel:{channel_id}"


def names(config: ChannelConfig, channel_id: str) -> Mapping[str, str]:
    """Recipient → meter."""
    return config.meters() or {"": own(channel_id)}


def addressed(
    adapter: Adapter, config: ChannelConfig, channel_id: str, left: Collection[str] | None
) -> dict[str, str]:
    """Recipient → meter of those to whom the next send goes, if these are left to be told (None: all)."""
    known = names(config, channel_id)
    return {to: known[to] for to in adapter.addressed(config, left) if to in known}


def may_limit(adapter: Adapter) -> bool:
    """Whether the provider allows only so many at all."""
    return bool(adapter.limits) or type(adapter).limits_of is not Adapter.limits_of


def limits(adapter: Adapter, meters: Iterable[str], now: datetime) -> dict[str, tuple[Limit, ...]]:
    """What the provider allows under each."""
    return {meter: adapter.limits_of(meter, now) for meter in meters}


def at_once(limits: Mapping[str, Sequence[Limit]]) -> int:
    """How many sends all of these allow in one moment at all."""
    return min((limit.count for some in limits.values() for limit in some), default=pace.MAX_PARTS)


def calls(row: Any, adapter: Adapter, config: Mapping[str, Any]) -> int:
    """How many messages of this delivery only call people, before it has begun."""
    return adapter.sends(config, Severity(row.severity)) - 1 if row.status == "firing" else 0


def expected(row: Any, adapter: Adapter, config: Mapping[str, Any]) -> int:
    """How many messages this delivery takes, before it has begun: so many turns its claim gives it."""
    return max(1 + calls(row, adapter, config), waited_for(row.why))


def register(session: Session, channel_id: str, config: ChannelConfig) -> None:
    """The channel's meters are these from now on."""
    session.execute(delete(ChannelMeter).where(ChannelMeter.channel_id == channel_id))
    for meter in sorted(set(names(config, channel_id).values())):
        insert_new(session, ChannelMeter, {"channel_id": channel_id, "meter": meter})


def of(session: Session, channel_ids: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The meters of these channels."""
    if not channel_ids:
        return {}
    found: dict[str, list[str]] = {}
    for row in session.execute(_OF, {"ids": list(channel_ids)}):
        found.setdefault(row.channel_id, []).append(row.meter)
    return {one: tuple(found.get(one) or (own(one),)) for one in channel_ids}


def sharing(channel: Channel) -> Select[str]:
    """The channels to the same robot, itself among them; what has recipients is shared with nobody."""
    mine = select(ChannelMeter.meter).where(ChannelMeter.channel_id == channel.id)
    shared = select(ChannelMeter.channel_id).where(ChannelMeter.meter.in_(mine))
    both = Channel.id == channel.id
    return select(Channel.id).where(both if "to" in channel.config else or_(both, Channel.id.in_(shared)))


def pause(session: Session, channel: Channel) -> datetime | None:
    """Until when the others with a channel to the same robot keep quiet."""
    others = select(func.max(Channel.paused_until)).where(Channel.id != channel.id)
    return session.scalar(others.where(Channel.id.in_(sharing(channel))))


def lock(session: Session, meters: Iterable[str], *, wait: bool = True) -> bool:
    """Until this transaction ends nobody else counts under these; False: somebody does already.

    On SQLite nobody else writes at all.
    """
    if session.get_bind().dialect.name != "postgresql":
        return True
    take = func.pg_advisory_xact_lock if wait else func.pg_try_advisory_xact_lock
    taken = [session.scalar(select(take(func.hashtextextended(meter, 0)))) for meter in sorted(meters)]
    return wait or all(taken)


def sends(
    session: Session, meter: str, limits: Sequence[Limit], now: datetime, *, but: str = ""
) -> list[pace.Send]:
    """All that counts under the meter: what was answered, is under way, or promised by a claim.

    `but`: a delivery whose own promise does not count.
    """
    since = now - pace.horizon(limits)
    alone = meter.removeprefix(own("")) if meter.startswith(own("")) else ""
    # Promises first: one that is begun between the two looks counts twice rather than not at all.
    promised = session.execute(_PROMISED, {"meter": meter, "alone": alone, "but": but}).all()
    sent = session.execute(_SENT, {"meter": meter, "begun": since - LONGEST_SEND, "since": since}).all()
    found = [pace.Send(pace.lane_of(severity, key), at) for severity, key, at in sent]
    for one in promised:
        found += [pace.Send(pace.lane_of(one.severity, one.order_key), None)] * _promised(one)
    return found


def _promised(row: Any) -> int:
    """How many more messages this delivery under way takes, or at most may take."""
    if row.left is not None:
        return int(row.left)
    return max(pace.MAX_PARTS if row.is_digest else 1, expected(row, adapter_of(row.kind), row.config))


def use(session: Session, meters: Iterable[str], attempt_id: int, now: datetime) -> None:
    """An attempt counts under these."""
    session.add_all(MeterUse(meter=meter, started_at=now, attempt_id=attempt_id) for meter in set(meters))


def give_back(session: Session, meters: Collection[str], attempt_id: int) -> None:
    """The attempt does not count under these after all."""
    used = delete(MeterUse).where(MeterUse.attempt_id == attempt_id, MeterUse.meter.in_(meters))
    session.execute(used, execution_options={"synchronize_session": False})


def forget(session: Session, now: datetime) -> None:
    """Uses that count in no window any more."""
    old = delete(MeterUse).where(MeterUse.started_at < now - KEPT)
    session.execute(old, execution_options={"synchronize_session": False})
