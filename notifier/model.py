"""The notifier's tables. Columns speak the glossary's words (DESIGN 5); times are aware UTC datetimes."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from notifier.storage import Base

OPEN_STATES = ("pending", "retrying", "sending")
FINAL_STATES = ("delivered", "accepted", "unknown", "failed", "expired", "suppressed", "merged")
UNTOLD = ("failed", "expired", "suppressed")  # nobody was told by such a delivery, and nobody will be


class Meta(Base):
    """Facts about the database itself, such as the check value of its secret key."""

    __tablename__ = "meta"
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class Token(Base):
    """A bearer token; only its SHA-256 is kept. `pod_id` or `node` binds an agent's token."""

    __tablename__ = "tokens"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str]  # admin | operator | viewer | publisher | ingest | agent
    pool: Mapped[str | None]  # None: all pools
    queue: Mapped[str | None]  # None: the whole pool
    sha256: Mapped[str] = mapped_column(String(64), unique=True)
    pod_id: Mapped[str | None] = mapped_column(index=True)
    node: Mapped[str | None]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]


class Channel(Base):
    """A configured way to reach people. `secrets` is the encrypted part of its config."""

    __tablename__ = "channels"
    __table_args__ = (UniqueConstraint("pool", "queue", "name"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")  # "": the pool's
    name: Mapped[str]
    kind: Mapped[str]
    config: Mapped[dict[str, Any]]
    secrets: Mapped[str] = mapped_column(Text)
    language: Mapped[str | None]
    timezone: Mapped[str | None]
    enabled: Mapped[bool] = mapped_column(default=True)
    health: Mapped[str] = mapped_column(default="unknown")  # unknown | ok | broken
    health_why: Mapped[str] = mapped_column(Text, default="")
    paused_until: Mapped[datetime | None]  # a provider's penalty: nothing is claimed before
    shard: Mapped[int]
    version: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class AlertConfig(Base):
    """Rules and escalation of a job, or of a pool (the default)."""

    __tablename__ = "alert_configs"
    owner_kind: Mapped[str] = mapped_column(primary_key=True)  # job | pool
    owner_id: Mapped[str] = mapped_column(primary_key=True)
    config: Mapped[dict[str, Any]]
    version: Mapped[int] = mapped_column(default=1)
    updated_at: Mapped[datetime]


class Alert(Base):
    """Something worth telling. One incident is one alert; its resolve is kept on the same row."""

    __tablename__ = "alerts"
    __table_args__ = (
        Index(
            "alerts_open_dedup",
            "token_id",
            "source",
            "dedup_key",
            unique=True,
            sqlite_where=text("status = 'firing' and dedup_key is not null"),
            postgresql_where=text("status = 'firing' and dedup_key is not null"),
        ),
        Index("alerts_job", "job_id", "id"),
        Index("alerts_event", "event_id"),
        Index("alerts_scope", "pool", "queue", "id"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")
    source: Mapped[str]
    token_id: Mapped[str] = mapped_column(default="")  # "": the master
    dedup_key: Mapped[str | None]
    item: Mapped[str]
    items: Mapped[list[str]]
    severity: Mapped[str]
    status: Mapped[str]  # firing | resolved
    title: Mapped[str] = mapped_column(Text)
    body: Mapped[str] = mapped_column(Text, default="")
    labels: Mapped[dict[str, Any]]
    context: Mapped[dict[str, Any]]  # job and fault event as the templates see them
    job_id: Mapped[str | None]
    job_name: Mapped[str | None]
    event_id: Mapped[str | None]
    why: Mapped[str] = mapped_column(Text, default="")  # why nobody, or not everybody, was told
    repeats: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    last_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None]
    acked_at: Mapped[datetime | None]
    acked_by: Mapped[str | None]
    ack_comment: Mapped[str | None] = mapped_column(Text)


class Delivery(Base):
    """One alert for one channel; the promise. `digest_of` is every row whose `merged_into` is this one."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(
            "deliveries_due",
            "shard",
            "next_attempt_at",
            sqlite_where=text("state in ('pending','retrying','sending')"),
            postgresql_where=text("state in ('pending','retrying','sending')"),
        ),
        Index("deliveries_order", "channel_id", "order_key", "id"),
        Index("deliveries_scope", "pool", "queue", "id"),
        Index("deliveries_job", "job_id", "id"),
        Index("deliveries_alert", "alert_id"),
        Index("deliveries_event", "event_id"),
        Index("deliveries_channel", "channel", "id"),
        Index("deliveries_kind", "kind", "id"),
        Index("deliveries_item", "item", "id"),
        Index("deliveries_state", "state", "id"),
        Index("deliveries_merged", "merged_into"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    alert_id: Mapped[str | None]  # None: a digest
    event_id: Mapped[str | None]
    job_id: Mapped[str | None]
    job_name: Mapped[str | None]
    pool: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")
    channel_id: Mapped[str]
    channel: Mapped[str]
    kind: Mapped[str]
    item: Mapped[str]
    items: Mapped[list[str]]
    severity: Mapped[str]
    status: Mapped[str] = mapped_column(default="firing")  # firing | resolved: what it tells
    language: Mapped[str]
    timezone: Mapped[str]
    trigger: Mapped[str] = mapped_column(
        default="alert"
    )  # alert | resolve | fallback | escalation | remind (…_fallback) | unsilence | no_rule | resend | test
    is_digest: Mapped[bool] = mapped_column(default=False)
    fallback: Mapped[list[str]]  # channel names still to be told when this one cannot be
    state: Mapped[str]
    why: Mapped[str] = mapped_column(Text, default="")
    order_key: Mapped[str]  # job:<id> or alert:<id>: told in order per channel
    shard: Mapped[int]
    tries: Mapped[int] = mapped_column(default=0)  # that cost a step of the retry ladder
    attempt_count: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    first_attempt_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    next_attempt_at: Mapped[datetime | None]
    expires_at: Mapped[datetime]
    lease_token: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    mends: Mapped[list[str]]  # what was tried to get it through (channels.base.Mend)
    message: Mapped[dict[str, Any] | None]  # as rendered for the last try; {} once expunged
    error_code: Mapped[str | None]
    error_message: Mapped[str | None] = mapped_column(Text)
    error_permanent: Mapped[bool | None]
    recipients: Mapped[list[Any]]
    provider_message_id: Mapped[str | None]
    merged_into: Mapped[str | None]


class Attempt(Base):
    """One try to send one part. Written before the send (intent), completed after it (outcome)."""

    __tablename__ = "attempts"
    __table_args__ = (
        Index("attempts_delivery", "delivery_id", "n"),
        Index("attempts_channel", "channel_id", "started_at"),  # the sliding window is counted here
    )
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    delivery_id: Mapped[str] = mapped_column(ForeignKey("deliveries.id"))
    channel_id: Mapped[str]
    n: Mapped[int]
    part: Mapped[int]
    parts: Mapped[int]
    trigger: Mapped[str]
    lease_token: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    outcome: Mapped[str | None]  # None: the send is on its way, or its worker died
    http_status: Mapped[int | None]
    provider_code: Mapped[str | None]
    provider_message: Mapped[str | None] = mapped_column(Text)
    possible_duplicate: Mapped[bool] = mapped_column(default=False)
    recipients: Mapped[list[Any]]
    request: Mapped[str | None] = mapped_column(Text)
    response: Mapped[str | None] = mapped_column(Text)
    claimed_at: Mapped[datetime | None]


class ChannelMeter(Base):
    """By what the channel's provider counts sends (channels.base.ChannelConfig.meters); some share one."""

    __tablename__ = "channel_meters"
    channel_id: Mapped[str] = mapped_column(primary_key=True)
    meter: Mapped[str] = mapped_column(primary_key=True, index=True)


class MeterUse(Base):
    """An attempt that counts under a meter: the sliding window is counted here."""

    __tablename__ = "meter_uses"
    meter: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime] = mapped_column(primary_key=True)
    attempt_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)


class Receipt(Base):
    """A delivery whose provider is to be asked what became of it. `sent`: whom, when, the provider's id."""

    __tablename__ = "receipts"
    delivery_id: Mapped[str] = mapped_column(primary_key=True)
    channel_id: Mapped[str]
    sent: Mapped[list[Any]]
    looks: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(index=True)


class Template(Base):
    """A user's own words for an item. `channel`, `item`, `language` "": for all of them."""

    __tablename__ = "templates"
    __table_args__ = (UniqueConstraint("pool", "queue", "channel", "item", "language"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")
    channel: Mapped[str] = mapped_column(default="")
    item: Mapped[str] = mapped_column(default="")
    language: Mapped[str] = mapped_column(default="")
    title: Mapped[str] = mapped_column(Text, default="")
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]


class Silence(Base):
    """Alerts that all of `matchers` ([{name, op, value}]) match are told to nobody for a time."""

    __tablename__ = "silences"
    __table_args__ = (Index("silences_pool", "pool", "ends_at"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")
    matchers: Mapped[list[Any]]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    comment: Mapped[str] = mapped_column(Text, default="")
    created_by: Mapped[str]
    created_at: Mapped[datetime]


class Oncall(Base):
    """Who has the turn, by day or week; its name stands wherever a channel's may."""

    __tablename__ = "oncalls"
    __table_args__ = (UniqueConstraint("pool", "queue", "name"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")
    name: Mapped[str]
    spec: Mapped[dict[str, Any]]
    version: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class Followup(Base):
    """What is to be done about an alert at a later moment, if it still matters then: escalate, remind, tell
    what a silence kept back."""

    __tablename__ = "followups"
    alert_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)  # escalate | remind | unsilence
    n: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    spec: Mapped[dict[str, Any]]
    due_at: Mapped[datetime] = mapped_column(index=True)


class Worker(Base):
    """A process that sends, as it said of itself a few seconds ago. `behind_s`: its clock, against ours."""

    __tablename__ = "workers"
    id: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    version: Mapped[str]
    concurrency: Mapped[int]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    behind_s: Mapped[float]


class Shard(Base):
    """A share of the channels. `generation` moves on with every claim and names the next bell."""

    __tablename__ = "shards"
    shard: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    generation: Mapped[int] = mapped_column(BigInteger, default=0)


class Idempotency(Base):
    """What a creation with an Idempotency-Key answered."""

    __tablename__ = "idempotency"
    token_id: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str]
    status: Mapped[int]
    body: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
