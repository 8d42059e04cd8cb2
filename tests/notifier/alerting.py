"""A pool with channels, rules, lists and silences, and alerts published into it, on a real database."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select

from notifier import oncalls, silencebook, silences
from notifier.alertconfigs import put_alert_config
from notifier.alerts import NewAlert, Published, publish
from notifier.auth import Principal, Role
from notifier.doorbell import shard_of
from notifier.ends import resolve
from notifier.ids import new_id
from notifier.model import Alert, Channel, Delivery, Followup, Oncall
from notifier.oncalls import OncallBody
from notifier.rules import AlertConfigModel
from notifier.silencebook import SilenceBody
from notifier.storage import Store

NOW = datetime(2026, 11, 30, 4, tzinfo=UTC)  # noon in Shanghai, a monday
WANG = Principal("tok_1", "wang", Role.OPERATOR)


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def add_channels(store: Store, *names: str, queue: str = "", **values: Any) -> None:
    with store.write() as session:
        for name in names:
            channel_id = new_id("chn", NOW)
            row = Channel(
                id=channel_id, pool="default", queue=queue, name=name, kind="wecom", config={}, secrets="",
                shard=shard_of(channel_id), created_at=NOW, updated_at=NOW, **values,
            )  # fmt: skip
            session.add(row)


def add_list(store: Store, name: str, *people: Any, queue: str = "", **more: Any) -> None:
    body = {"name": name, "turn": "daily", "timezone": "UTC", "start": "2026-11-30", "people": list(people)}
    with store.write() as session:
        oncalls.create(session, OncallBody.model_validate(body | more), ("default", queue), NOW)


def drop_list(store: Store, name: str) -> None:
    with store.write() as session:
        session.delete(session.scalars(select(Oncall).where(Oncall.name == name)).one())


def add_silence(store: Store, queue: str = "", now: datetime = NOW, **given: Any) -> str:
    body = SilenceBody.model_validate({"match": {"item": "custom"}, "duration_s": 3600} | given)
    with store.write() as session:
        return silencebook.create(session, body, ("default", queue), WANG, now).id


def end_silence(store: Store, silence_id: str, now: datetime) -> None:
    with store.write() as session:
        silences.end(session, silencebook.find(session, WANG, silence_id, lock=True), now)


def set_rules(store: Store, *rules: dict[str, Any], job: str | None = None) -> None:
    owner = ("job", job) if job else ("pool", "default")
    with store.write() as session:
        put_alert_config(session, owner, AlertConfigModel.model_validate({"rules": list(rules)}), NOW)  # type: ignore[arg-type]


def custom(**more: Any) -> NewAlert:
    return NewAlert(**{"pool": "default", "item": "custom", "severity": "error", "title": "disk full"} | more)


def incident(*items: str, severity: str = "warning", **more: Any) -> NewAlert:
    known = {"event_id": "evt_1", "job_id": "job_1", "job_name": "llm", "title": "rank 3 is gone"}
    return NewAlert(pool="default", item=items[0], items=items, severity=severity, **known | more)


def told(store: Store, new: NewAlert, now: datetime = NOW) -> Published:
    with store.write() as session:
        return publish(session, new, now)


def resolved(store: Store, alert_id: str, now: datetime) -> Published:
    with store.write() as session:
        return resolve(session, now=now, alert_id=alert_id)


def unsilenced(store: Store, now: datetime) -> set[int]:
    """What the loop of follow-ups does with what is due: each once, in one transaction."""
    with store.write() as session:
        due = select(Followup).where(Followup.kind == silences.UNSILENCE, Followup.due_at <= now)
        shards: set[int] = set()
        for row in session.scalars(due).all():
            session.delete(row)
            shards |= silences.unsilence(session, session.get_one(Alert, row.alert_id), row.spec, now)
        return shards


def log(store: Store) -> list[Delivery]:
    with store.read() as session:
        return list(session.scalars(select(Delivery).order_by(Delivery.id)))


def lines(rows: Sequence[Delivery]) -> list[tuple[str, str, str, str]]:
    return [(row.channel, row.status, row.trigger, row.state) for row in rows]


def alert_of(store: Store, alert_id: str) -> Alert:
    with store.read() as session:
        return session.get_one(Alert, alert_id)


def planned(store: Store) -> list[datetime]:
    with store.read() as session:
        return list(session.scalars(select(Followup.due_at).order_by(Followup.due_at)))
