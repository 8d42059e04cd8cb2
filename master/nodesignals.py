"""What somebody trusted says of nodes: kept, shown beside the node, and evidence where it names a fault."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from agent.signatures import Scanner, signature
from agent.wire import Kind
from master.casefile import Source
from master.evidence import Origin, keep_word
from master.model import Node, NodeSignal, ObservationRow
from master.reports import Condition
from notifier.ids import new_id
from notifier.storage import insert_new

FIRING, RESOLVED = "firing", "resolved"
STALE = timedelta(days=1)  # one that is not repeated any more was forgotten by its sender
KEPT = timedelta(days=30)
SHOWN = 20  # of each node
ROWS_KEPT = 300  # of each node whose agent speaks
IN_ONE = 500  # names or keys in one statement
MAX_TEXT = 2000
AGENT, KUBERNETES = "agent", "kubernetes"  # as a signal's source: the node's own agent, the API server
CONDITION, EVENT = "condition/", "event/"  # how the keys of Kubernetes' begin
# Of a node's clock, by when its report was sent and taken. What comes late may have waited for us.
AHEAD, BEHIND = timedelta(seconds=5), timedelta(seconds=30)
_XID_LABELS = ("xid", "xid_code", "err_code")
_XID_IN_TEXT = re.compile(r"\bXid(?:\s+(?:errors?|code))?\s*[:=#(]?\s*(\d{1,3})\b", re.IGNORECASE)
_CODE = re.compile(r"[0-9]{1,4}")
_SCANNER = Scanner()


@dataclass(frozen=True)
class Signal:
    """As it came; `key` tells repeats by."""

    pool: str
    node: str
    source: str
    key: str
    name: str
    status: str
    severity: str
    text: str
    labels: Mapping[str, str]
    starts_at: datetime
    ends_at: datetime | None


@dataclass
class Kept:
    """How many were new, were repeated, are over, were not open; `is_evidence`: the master should look."""

    new: int = 0
    repeated: int = 0
    resolved: int = 0
    not_open: int = 0
    is_evidence: bool = False


def known_nodes(session: Session, names: Iterable[str], pool: str | None) -> dict[str, str]:
    """Of those names the ones that are nodes', each with its pool."""
    wanted, found = sorted(set(names)), dict[str, str]()
    for at in range(0, len(wanted), IN_ONE):
        rows = select(Node.name, Node.pool).where(Node.name.in_(wanted[at : at + IN_ONE]))
        rows = rows if pool is None else rows.where(Node.pool == pool)
        found |= {row.name: row.pool for row in session.execute(rows)}
    return found


def keep(session: Session, signals: Sequence[Signal], now: datetime) -> Kept:
    """Stores them; the same one again counts as a repeat, the end of one that is not known as nothing."""
    kept = Kept()
    for one in sorted(signals, key=lambda one: (one.pool, one.source, one.key)):
        _keep(session, one, now, kept)
    if kept.new:
        session.execute(delete(NodeSignal).where(NodeSignal.last_at < now - KEPT))
        for node in {one.node for one in signals if one.source in {AGENT, KUBERNETES}}:
            _forget_old(session, node)
    return kept


def stand(session: Session, pool: str, node: str, conditions: Sequence[Condition], now: datetime) -> Kept:
    """All that the node's own agent says stands there; what it said before and says no more is over.

    These are for people: what is evidence of a fault the agent reports by itself, as it happens.
    """
    known = _firing(session, pool, node, AGENT)
    signals = [
        Signal(
            pool=pool, node=node, source=AGENT, key=key, name=one.name, status=FIRING,
            severity=one.severity, text=one.text,
            labels={"subject": one.subject} if one.subject else {},
            starts_at=known[key].starts_at if key in known else min(one.since or now, now), ends_at=None,
        )
        for one in conditions
        if (key := f"{node}/{one.name}/{one.subject}")
    ]  # fmt: skip
    return keep(session, [*signals, *_ended(known, signals, now)], now)


def ended_conditions(
    session: Session, pool: str, node: str, standing: Sequence[Signal], *, now: datetime
) -> list[Signal]:
    """The ends of Kubernetes' conditions that name no trouble any more. Nothing tells an event's end."""
    known = _firing(session, pool, node, KUBERNETES)
    return _ended({key: row for key, row in known.items() if key.startswith(CONDITION)}, standing, now)


def clock_conditions(skew: timedelta) -> list[Condition]:
    """What is to be said of a node's clock that is `skew` ahead of ours."""
    if -BEHIND <= skew <= AHEAD:
        return []
    way = "ahead of" if skew > timedelta(0) else "behind"
    text = f"the clock is {abs(skew.total_seconds()):.0f} s {way} the master's: mend its time service"
    return [Condition(name="clock_skew", text=text)]


def open_signals(session: Session, nodes: Iterable[str], now: datetime) -> dict[str, list[NodeSignal]]:
    """What is said of each node just now, the newest first."""
    wanted, found = set(nodes), dict[str, list[NodeSignal]]()
    rows = select(NodeSignal).where(NodeSignal.status == FIRING, NodeSignal.last_at > now - STALE)
    for row in session.scalars(rows.order_by(NodeSignal.id.desc())):
        if row.node in wanted and len(found.setdefault(row.node, [])) < SHOWN:
            found[row.node].append(row)
    return found


def _keep(session: Session, one: Signal, now: datetime, kept: Kept) -> None:
    which = (NodeSignal.pool == one.pool, NodeSignal.source == one.source, NodeSignal.key == one.key)
    values = {
        "node": one.node, "name": one.name, "status": one.status, "severity": one.severity,
        "text": one.text[:MAX_TEXT], "labels": dict(one.labels), "starts_at": one.starts_at,
        "ends_at": one.ends_at, "last_at": now,
    }  # fmt: skip
    if one.status == FIRING:
        fresh = {"id": new_id("sig", now), "pool": one.pool, "source": one.source, "key": one.key, **values}
        if insert_new(session, NodeSignal, fresh):
            kept.new += 1
            kept.is_evidence |= _bear_witness(session, one, _faults_in(one), at=one.starts_at, now=now)
            return
    row = session.scalars(select(NodeSignal).where(*which).with_for_update()).first()
    if row is None or (one.status == RESOLVED and row.status == RESOLVED):
        kept.not_open += 1
        return
    if one.status == RESOLVED:
        kept.resolved += 1
        _change(row, values)
        return
    begins = row.status == RESOLVED or row.starts_at < one.starts_at
    is_older = not begins and one.starts_at < row.starts_at
    faults, at = _faults_in(one), one.starts_at
    if not begins and not one.key.startswith(EVENT):
        # What goes on may come to tell of another fault: that one begins now.
        known = faults if is_older else _faults_in(row)
        faults, at = {name: data for name, data in faults.items() if name not in known}, now
    _change(row, {"last_at": now} if is_older else values)
    kept.new, kept.repeated = kept.new + begins, kept.repeated + (not begins)
    kept.is_evidence |= _bear_witness(session, one, faults, at=at, now=now)


def _change(row: NodeSignal, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)


def _forget_old(session: Session, node: str) -> None:
    """No agent fills the database by making names up."""
    rows = select(NodeSignal.id).where(NodeSignal.node == node).order_by(NodeSignal.last_at.desc())
    old = session.scalars(rows.offset(ROWS_KEPT)).all()
    session.execute(delete(NodeSignal).where(NodeSignal.id.in_(old)))


def _firing(session: Session, pool: str, node: str, source: str) -> dict[str, NodeSignal]:
    """By their keys."""
    rows = select(NodeSignal).where(
        NodeSignal.pool == pool,
        NodeSignal.node == node,
        NodeSignal.source == source,
        NodeSignal.status == FIRING,
    )
    return {row.key: row for row in session.scalars(rows)}


def _ended(known: Mapping[str, NodeSignal], standing: Sequence[Signal], now: datetime) -> list[Signal]:
    """The ends of those that stand no more."""
    stand_on = {one.key for one in standing}
    return [_over(row, now) for key, row in known.items() if key not in stand_on]


def _over(row: NodeSignal, now: datetime) -> Signal:
    return Signal(
        pool=row.pool, node=row.node, source=row.source, key=row.key, name=row.name, status=RESOLVED,
        severity=row.severity, text=row.text, labels=row.labels, starts_at=row.starts_at, ends_at=now,
    )  # fmt: skip


def _bear_witness(
    session: Session, one: Signal, faults: Mapping[str, dict[str, Any]], *, at: datetime, now: datetime
) -> bool:
    """A fault that a signal names as the kernel does is evidence like the kernel's line, once a moment."""
    origin = Origin(Source.RUNTIME if one.source == KUBERNETES else Source.INGEST, one.node)
    new = faults.keys() - _borne(session, origin, min(at, now)) if faults else set[str]()
    for name in sorted(new):
        keep_word(session, origin, Kind.KERNEL_LINE, min(at, now), data=faults[name], now=now)
    return bool(new)


def _borne(session: Session, origin: Origin, at: datetime) -> set[str]:
    """The faults that somebody bore witness of for that moment."""
    rows = select(ObservationRow).where(
        ObservationRow.node == origin.node,
        ObservationRow.job_id.is_(None),
        ObservationRow.source == origin.source,
        ObservationRow.at == at,
    )
    return {str(row.data["signature"]) for row in session.scalars(rows)}


def _faults_in(one: Signal | NodeSignal) -> dict[str, dict[str, Any]]:
    """By signature: the hardware's faults in its lines, the Xids of its labels, or else the one of its text.

    What a node's own agent says stands is for people. That a node is "not ready" is no fault: its pods may
    well go on, and if they do not, their silence tells.
    """
    if one.source == AGENT:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for line in one.text[:MAX_TEXT].splitlines():
        match = _SCANNER.scan(line, "kernel")
        if match is not None and (known := signature(match.signature)) is not None and known.hardware:
            data = {"signature": match.signature, "line": match.line, "captured": dict(match.captured)}
            found.setdefault(match.signature, data)
    codes = _codes_in(one.labels) or ([] if found else _XID_IN_TEXT.findall(one.text)[:1])
    device = one.labels.get("gpu") or one.labels.get("device") or ""
    for code in codes:
        if (name := f"xid.{int(code)}") not in found and signature(name) is not None:
            line = f"{one.name}: Xid {int(code)}" + (f", GPU {device}" if device else "")
            captured = {"device": device} if device else {}
            found[name] = {"signature": name, "line": line, "captured": captured}
    return found


def _codes_in(labels: Mapping[str, str]) -> list[str]:
    """Of the first label that holds such; several stand with commas between."""
    for text in (labels.get(name, "") for name in _XID_LABELS):
        codes = text.split(",")
        if all(_CODE.fullmatch(code) for code in codes):
            return codes
    return []
