"""Where there are only symptoms: what many victims together say of somebody else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from agent.signatures import Role
from master.casefile import Cause, Culprit
from master.diagnosis.arbitration import CLOCKS_APART
from master.diagnosis.counters import lagging, odd_call
from master.diagnosis.culprit import of_node, of_ranks
from master.diagnosis.recorder import Missing
from master.diagnosis.signs import Sign
from master.diagnosis.world import World, as_int

_FIRST_WORDS = timedelta(seconds=60)
# Nodes' clocks stand minutes apart (FAULTS 3.2): who takes part in a chorus of time-outs is asked of longer.
_CHORUS = timedelta(minutes=15)
_MOST = 0.75  # so large a part of all ranks must have spoken before silence says anything
_STOPS = ("slurm.cancelled", "elastic.death_signal", "exit.stopped", "python.interrupt")
# Which of several families of symptoms tells best what happened, best first.
_FAMILIES = (
    (Cause.DESYNC, ("c10d.desync", "gloo.mismatch", "npu.mismatch")),
    (Cause.NETWORK_IB, ("nccl.ib_",)),
    (Cause.NCCL_TIMEOUT, ("c10d.watchdog_timeout", "c10d.work_counters_late", "gloo.timeout", "npu.timeout")),
    (Cause.RENDEZVOUS_FAILURE, ("c10d.store_unreachable", "c10d.rendezvous", "c10d.store_id")),
    (Cause.HANG, ("c10d.hang_in_driver",)),
    (Cause.NETWORK_TCP, ("nccl.", "gloo.", "c10d.nccl_remote", "c10d.nccl_system", "c10d.store_lost",
                         "c10d.backend", "python.connection", "npu.peer", "npu.socket")),
    (Cause.HANG, ("c10d.hang", "c10d.heartbeat", "c10d.monitored")),
    (Cause.EXTERNAL_STOP, _STOPS),
    (Cause.NCCL_TIMEOUT, ("c10d.work_counters",)),
)  # fmt: skip

# Of these the flight recorder knows more than whoever waits.
_RECORDED = (Cause.DESYNC, Cause.NCCL_TIMEOUT, Cause.HANG)


@dataclass(frozen=True)
class Hearsay:
    """What symptoms alone allow to say."""

    cause: Cause
    culprit: Culprit
    confidence: float
    hardware: bool
    retryable: bool
    signs: tuple[Sign, ...]
    why: str = ""  # lagging | absent | mismatch | named | joined | stopped | misled
    record: Missing | None = None  # what the flight recorder adds


def recorded(record: Missing, cause: Cause, world: World, confidence: float = 0.9) -> Hearsay:
    """What the flight recorder says of collectives that never ended. `cause`: of those that somebody did not
    join; calls that differ are the program's."""
    where = of_ranks(record.ranks, world)
    if record.mismatch:
        return Hearsay(Cause.DESYNC, where, confidence, False, False, (), "mismatch", record)
    return Hearsay(cause, where, confidence, False, True, (), "lagging", record)


def hearsay(signs: Sequence[Sign], world: World, record: Missing | None = None) -> Hearsay | None:
    """The best reading of symptoms, or None where there are none that count."""
    heard = _heard(signs, world)
    if heard is None or record is None or heard.cause not in _RECORDED:
        return heard
    named = recorded(record, heard.cause, world)
    return replace(named, signs=heard.signs) if named.culprit != Culprit() or record.mismatch else heard


def _heard(signs: Sequence[Sign], world: World) -> Hearsay | None:
    symptoms = [sign for sign in signs if sign.role is Role.SYMPTOM]
    if not symptoms:
        return None
    if (misled := _misled(symptoms, signs, world)) is not None:
        return misled
    first = min(sign.at for sign in symptoms)
    early = _first_words(symptoms)
    for cause, names in _FAMILIES:
        family = [sign for sign in early if sign.is_a(*names)]
        if family and cause is Cause.NCCL_TIMEOUT and _is_after_a_cut(family, early, signs, world):
            continue
        if family and cause is Cause.NCCL_TIMEOUT:
            family = [sign for sign in symptoms if sign.is_a(*names) and sign.at - first <= _CHORUS]
        if family:
            return _read(cause, family, signs, world)
    return Hearsay(Cause.UNKNOWN, Culprit(), 0.3, False, True, tuple(early))


def _is_after_a_cut(late: list[Sign], early: Sequence[Sign], signs: Sequence[Sign], world: World) -> bool:
    """Time ran out once somebody had missed a node whose own kernel calls its link down: that says less."""
    down = {sign.node: sign.at for sign in signs if sign.is_a("link.ethernet_down")}
    missed = [
        sign.at
        for sign in early
        if (node := world.node_at(sign.captured.get("peer", ""))) in down
        and abs(sign.at - down[node]) <= CLOCKS_APART
    ]
    timeouts = [sign.at for sign in late if sign.cause is Cause.NCCL_TIMEOUT]
    return bool(missed and timeouts) and min(missed) <= min(timeouts)


def _misled(symptoms: list[Sign], signs: Sequence[Sign], world: World) -> Hearsay | None:
    """Nodes that chose an address at which no other can reach them, and somebody who could not."""
    chosen = {sign.node: sign for sign in signs if sign.is_a("nccl.bridge_chosen", "gloo.loopback")}
    if not chosen or len(world.nodes) < 2:
        return None
    addresses = (
        "127.0.0.1",
        *(one.captured["address"] for one in chosen.values() if "address" in one.captured),
    )
    tried = tuple(sign for sign in symptoms if any(address in sign.text for address in addresses))
    if not tried:
        return None
    where = of_node(next(iter(chosen)), world) if len(chosen) == 1 else Culprit()
    return Hearsay(Cause.NCCL_CONFIG, where, 0.75, False, False, (*chosen.values(), *tried), "misled")


def _first_words(symptoms: list[Sign]) -> list[Sign]:
    """What each node said first, by its own clock."""
    began: dict[str, datetime] = {}
    for sign in symptoms:
        began[sign.node] = min(sign.at, began.get(sign.node, sign.at))
    first = min(began.values())
    return [
        sign
        for sign in symptoms
        if sign.at - began[sign.node] <= _FIRST_WORDS and began[sign.node] - first <= CLOCKS_APART
    ]


def _read(cause: Cause, family: list[Sign], signs: Sequence[Sign], world: World) -> Hearsay:
    told = tuple(family)
    if cause is Cause.NCCL_TIMEOUT:
        return _timeout(signs, told, world)
    if cause is Cause.NETWORK_IB:
        node, reporters = _voted(family, world)
        sure = len(reporters) > 1
        confidence = 0.75 if sure else 0.45
        where = of_node(node, world) if node else Culprit()
        return Hearsay(cause, where, confidence, bool(node) and sure, True, told, "named" if node else "")
    if cause is Cause.RENDEZVOUS_FAILURE:
        node = _not_there(signs, world) or _voted(family, world)[0]
        where = of_node(node, world) if node else Culprit()
        return Hearsay(cause, where, 0.7, False, True, told, "named" if node else "")
    if cause is Cause.NETWORK_TCP:
        return _network(family, signs, world)
    if cause is Cause.EXTERNAL_STOP:
        return Hearsay(cause, _first_stopped(family, world), 0.6, False, True, told, "stopped")
    retryable = all(sign.retryable for sign in family)
    stuck = {sign.rank for sign in family if sign.is_a("c10d.hang_in_driver") and sign.rank is not None}
    where = of_ranks(stuck, world) if len(stuck) == 1 and len(world.ranks) > 1 else Culprit()
    return Hearsay(cause, where, 0.4, False, retryable, told)


def _network(family: list[Sign], signs: Sequence[Sign], world: World) -> Hearsay:
    """Connections broke: the node that most name, else the rank that its neighbours on the machine name."""
    told = tuple(family)
    node, reporters = _voted(family, world)
    where = of_node(node, world) if node else Culprit()
    confidence = 0.5 if len(reporters) > 1 else 0.4
    if where == Culprit() and (gone := _local_peer(signs, world)):
        return Hearsay(Cause.NETWORK_TCP, of_ranks(gone, world), 0.5, False, True, told, "named")
    if node and (stopped := _only_stopped(node, signs)):
        launchers = [sign for sign in signs if sign.is_a("elastic.death_signal")]
        where = _first_stopped([*stopped, *launchers], world)
        return Hearsay(Cause.EXTERNAL_STOP, where, 0.6, False, True, stopped, "stopped")
    cut = node is not None and _is_cut_off(node, reporters, family, signs, world)
    return Hearsay(Cause.NETWORK_TCP, where, confidence, cut, True, told, "named" if where.node else "")


def _only_stopped(node: str, signs: Sequence[Sign]) -> tuple[Sign, ...]:
    """Where the lost node itself felt nothing but signals, these are why it is lost: no clock is asked. (A
    batch system also cancels what has failed already.)"""
    own = [sign for sign in signs if sign.node == node and sign.role is Role.SYMPTOM]
    stops = [sign for sign in own if sign.is_a(*_STOPS)]
    failed = any(sign.is_a("exit.") and not sign.is_a("exit.stopped") for sign in signs)
    by = ("elastic.death_signal", "exit.stopped", *(() if failed else ("slurm.cancelled",)))
    return tuple(stops) if any(sign.is_a(*by) for sign in stops) and len(stops) == len(own) else ()


def _local_peer(signs: Sequence[Sign], world: World) -> set[int]:
    """The rank that its neighbours on one machine name as gone, if it said nothing itself."""
    named: set[int | None] = set()
    for sign in signs:
        local = as_int(sign.captured.get("peer_local_rank"))
        if sign.is_a("nccl.local_peer_gone") and local is not None:
            named.add(world.rank_at(sign.pod, sign.node, local))
    spoke = {sign.rank for sign in signs if sign.role is not Role.EVIDENCE}
    gone = {rank for rank in named if rank is not None}
    return gone if len(named) == 1 and not gone & spoke else set()


def _first_stopped(family: list[Sign], world: World) -> Culprit:
    """The signal reached only one node. Of several the order is no proof: their clocks differ. A batch system
    ends a whole job, wherever it says so."""
    if any(sign.is_a("slurm.cancelled") for sign in family):
        return Culprit()
    nodes = {sign.node for sign in family}
    node = nodes.pop() if len(nodes) == 1 else ""
    return of_node(node, world) if node else Culprit()


def _voted(family: Iterable[Sign], world: World) -> tuple[str | None, set[str]]:
    """The node that most nodes name as their lost peer, and who named it; a tie names nobody."""
    votes: dict[str, set[str]] = {}
    for sign in family:
        peer = sign.captured.get("peer")
        node = world.node_at(peer) if peer else None
        if node and node != sign.node:
            votes.setdefault(node, set()).add(sign.node)
    ranked = sorted(votes.items(), key=lambda vote: -len(vote[1]))
    if not ranked:
        return None, set()
    if len(ranked) > 1 and len(ranked[0][1]) <= len(ranked[1][1]):
        return None, set()
    node, reporters = ranked[0]
    speaks = any(sign.node == node for sign in family)
    if speaks and len(reporters) == 1:  # one word against the other
        return None, set()
    return node, reporters


def _is_cut_off(
    node: str, reporters: set[str], family: list[Sign], signs: Sequence[Sign], world: World
) -> bool:
    """Its own link is broken: its kernel says so, or its living ranks reach others as little as they it."""
    if any(sign.is_a("link.ethernet_down") and sign.node == node for sign in signs):
        return True
    own = {
        world.node_at(sign.captured["peer"])
        for sign in family
        if sign.node == node and "peer" in sign.captured
    }
    return len(reporters) > 1 and len(own - {None, node}) > 1


def _not_there(signs: Sequence[Sign], world: World) -> str | None:
    """The one node whose pod did not start, or that alone could not find or reach the meeting point."""
    unstarted = {sign.node for sign in signs if sign.is_a("pod_not_started")}
    if len(unstarted) == 1:
        return unstarted.pop()
    waited = {sign.node for sign in signs if sign.is_a("c10d.rendezvous")}
    for names in (("c10d.rendezvous_unresolved",), ("c10d.store_unreachable",)):
        lost = {sign.node for sign in signs if sign.is_a(*names)}
        peers = {sign.captured.get("peer", "") for sign in signs if sign.is_a(*names)}
        is_here = any(world.node_at(peer) for peer in peers if peer)
        if len(lost) == 1 and waited - lost and not is_here:
            return lost.pop()
    return None


def _timeout(signs: Sequence[Sign], told: tuple[Sign, ...], world: World) -> Hearsay:
    """Collective time-outs: who lags, who called something else, who is missing."""
    if (behind := lagging(signs)) is not None:
        return Hearsay(Cause.NCCL_TIMEOUT, of_ranks([behind], world), 0.85, False, True, told, "lagging")
    if odd := odd_call(signs):
        where = of_ranks(odd, world)
        return Hearsay(Cause.DESYNC, where, 0.7, False, False, told, "mismatch")
    chorus = {sign.rank for sign in told if sign.rank is not None}
    absent = world.ranks - chorus if len(chorus) > 1 else frozenset()  # one voice is no chorus
    if absent and len(chorus) >= _MOST * len(world.ranks):
        return Hearsay(Cause.NCCL_TIMEOUT, of_ranks(absent, world), 0.65, False, True, told, "absent")
    if absent and _whole_nodes(absent, world):
        return Hearsay(Cause.NCCL_TIMEOUT, of_ranks(absent, world), 0.55, False, True, told, "absent")
    return Hearsay(
        Cause.NCCL_TIMEOUT, Culprit(), 0.6, False, True, told, "joined" if chorus >= world.ranks else ""
    )


def _whole_nodes(absent: frozenset[int], world: World) -> bool:
    """All ranks of one node are missing, and none of any other."""
    nodes = {world.pod_of_rank[rank].node for rank in absent if rank in world.pod_of_rank}
    return len(nodes) == 1 and len(world.nodes) > 1 and set(world.ranks_on(next(iter(nodes)))) == absent
