"""The master's tables: pool, jobs, runs, pods, what agents saw, fault events, recoveries."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, Integer, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from notifier.storage import Base


class Pool(Base):
    """A resource pool. `isolation_cap`: the largest share of its nodes that may be isolated at once."""

    __tablename__ = "pools"
    id: Mapped[str] = mapped_column(primary_key=True)
    fault_isolation: Mapped[bool] = mapped_column(default=True)
    isolation_cap: Mapped[float] = mapped_column(default=0.34)
    version: Mapped[int] = mapped_column(default=1)


class Queue(Base):
    __tablename__ = "queues"
    pool: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)


class DataSource(Base):
    __tablename__ = "datasources"
    pool: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]


class Node(Base):
    """A machine (on the local runtime a virtual one)."""

    __tablename__ = "nodes"
    name: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    status: Mapped[str] = mapped_column(default="ready")  # ready | isolated | unknown
    reason: Mapped[str] = mapped_column(Text, default="")
    isolated_at: Mapped[datetime | None]
    agent_seen_at: Mapped[datetime | None]


class NodeSignal(Base):
    """What somebody trusted says of a node, such as Alertmanager; `key` tells repeats of it by."""

    __tablename__ = "node_signals"
    __table_args__ = (UniqueConstraint("pool", "source", "key"), Index("node_signals_node", "node", "id"))
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    node: Mapped[str]
    source: Mapped[str]
    key: Mapped[str]
    name: Mapped[str]
    status: Mapped[str]  # firing | resolved
    severity: Mapped[str]
    text: Mapped[str] = mapped_column(Text)
    labels: Mapped[dict[str, Any]]
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime | None]
    last_at: Mapped[datetime]


class Job(Base):
    """What a user submitted. `spec` is the parsed creation, `fault_tolerance` the effective settings."""

    __tablename__ = "jobs"
    __table_args__ = (Index("jobs_status", "status"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    pool: Mapped[str]
    queue: Mapped[str]
    name: Mapped[str]
    priority: Mapped[str] = mapped_column(default="normal")
    spec: Mapped[dict[str, Any]]
    fault_tolerance: Mapped[dict[str, Any]]
    warnings: Mapped[list[str]]
    status: Mapped[str]  # CONTRACT 3: Created … Failed
    reason: Mapped[str] = mapped_column(Text, default="")
    run: Mapped[int] = mapped_column(default=0)
    restarts_used: Mapped[int] = mapped_column(default=0)  # infrastructure; progress gives them back
    unconditional_used: Mapped[int] = mapped_column(default=0)
    stop_requested: Mapped[bool] = mapped_column(default=False)
    delete_requested: Mapped[bool] = mapped_column(default=False)  # unseen; purged once its pods ended
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class Run(Base):
    """The n-th start of a job (0 first)."""

    __tablename__ = "runs"
    job_id: Mapped[str] = mapped_column(primary_key=True)
    n: Mapped[int] = mapped_column(primary_key=True)
    started_at: Mapped[datetime]
    first_step_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    first_step: Mapped[int | None]
    last_step: Mapped[int | None]
    last_step_at: Mapped[datetime | None]
    last_log_at: Mapped[datetime | None]
    end_reason: Mapped[str] = mapped_column(default="")
    rhythm: Mapped[list[Any]]  # recent gaps between steps, seconds: the adaptive hang deadline
    stacks_wanted_at: Mapped[datetime | None]  # every pod whose `stacks_at` is older is asked for its stacks


class Pod(Base):
    """One replica of a run. `handle` is what the runtime needs to find it again."""

    __tablename__ = "pods"
    __table_args__ = (UniqueConstraint("job_id", "run", "index"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(index=True)
    run: Mapped[int]
    index: Mapped[int]
    name: Mapped[str]
    node: Mapped[str]
    status: Mapped[str]  # CONTRACT 3: Pending … Unknown
    reason: Mapped[str] = mapped_column(default="")  # Deleted, Evicted, …
    exit_code: Mapped[int | None]
    handle: Mapped[dict[str, Any]]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    agent_started_at: Mapped[datetime | None]  # its newest life
    agent_seen_at: Mapped[datetime | None]
    agent_lost_at: Mapped[datetime | None]  # None: it speaks
    closed_at: Mapped[datetime | None]  # nothing of it is left anywhere, its token is void
    stacks_at: Mapped[datetime | None]


class AgentLife(Base):
    """One life of an agent: the last report taken of it, so that none counts twice."""

    __tablename__ = "agent_lives"
    owner: Mapped[str] = mapped_column(primary_key=True)  # pod:<id> | node:<name>
    boot: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int]
    seen_at: Mapped[datetime]


class ObservationRow(Base):
    """What was seen, as received; the case file of a run is built from these rows alone."""

    __tablename__ = "observations"
    __table_args__ = (
        Index("observations_run", "job_id", "run", "id"),
        Index("observations_node", "node", "id"),
    )
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    job_id: Mapped[str | None]  # None: a node's
    run: Mapped[int | None]
    pod_id: Mapped[str | None]
    node: Mapped[str]
    rank: Mapped[int | None]
    source: Mapped[str]  # agent | node | runtime | ingest: who says so decides what it may lead to
    kind: Mapped[str]
    at: Mapped[datetime]  # by the master's clock (the agent's, less its skew)
    received_at: Mapped[datetime]
    data: Mapped[dict[str, Any]]


class FaultEventRow(Base):
    """The lasting record of one diagnosis and decision (CONTRACT 3: fault event)."""

    __tablename__ = "fault_events"
    __table_args__ = (
        UniqueConstraint("job_id", "run", "incident"),
        Index("fault_events_job", "job_id", "id"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[str]
    pool: Mapped[str]
    queue: Mapped[str]
    run: Mapped[int]
    incident: Mapped[int] = mapped_column(default=0)  # numbers the incidents of one run
    time: Mapped[datetime]  # when the fault happened
    fault_class: Mapped[str]
    cause: Mapped[str]
    reason: Mapped[dict[str, Any]]  # {"zh", "en"}
    advice: Mapped[dict[str, Any]]  # {"zh", "en"}
    culprit: Mapped[dict[str, Any]]  # {"rank", "pod", "node"}, each may be null
    confidence: Mapped[float]
    hardware: Mapped[bool]
    retryable: Mapped[bool]
    fingerprint: Mapped[str]
    step: Mapped[int | None]
    evidence: Mapped[list[Any]]
    decision: Mapped[dict[str, Any]]
    detected_at: Mapped[datetime]
    decided_at: Mapped[datetime]
    recovered_at: Mapped[datetime | None]
    steps_lost: Mapped[int | None]
    downtime_s: Mapped[float | None]


class Recovery(Base):
    """A decision being carried out; each stage is idempotent, so a new master goes on where the old died."""

    __tablename__ = "recoveries"
    event_id: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(index=True)
    run: Mapped[int]  # the run that is ended
    stage: Mapped[str]  # stopping | waiting (backoff) | starting | done
    not_before: Mapped[datetime]
    updated_at: Mapped[datetime]


class Leader(Base):
    """Who is master of a pool, by a lease of the database's clock."""

    __tablename__ = "leaders"
    pool: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    until: Mapped[datetime]
