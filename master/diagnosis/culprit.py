"""Where a root cause sits: rank, pod, node, as far as the evidence decides and no farther."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from datetime import timedelta

from master.casefile import Cause, Culprit
from master.diagnosis.arbitration import MACHINE, PLATFORM, Root
from master.diagnosis.exits import End
from master.diagnosis.signs import Sign
from master.diagnosis.world import World, as_int

_BESIDE = timedelta(seconds=60)  # a rank shows its dead GPU within so long
_STUCK = frozenset("DTZX")
_NAMED_GPU = re.compile(r"GPU ?(\d{1,3}) GSP")
_ONLOOKER = re.compile(r"name=(?:nvidia-|nv-hostengine|dcgm)")  # asks all devices, belongs to no rank
_FINGERPRINT = re.compile(
    r"Rank (\d{1,6}) is running (?:\w+ )?collective: (\w+\(.*?)(?:, but Rank|Collectives|$)"
)
_TOLD_RANK = re.compile(r"(?i)\brank (\d{1,6})\b")
# A batch system ends a whole job, Ray's driver and a check run elsewhere, of two calls that differ either may
# be wrong: who writes such a line only speaks.
_OF_THE_JOB = ("slurm.preempted", "slurm.time_limit", "slurm.stopped_by", "slurm.node_failure",
               "gpu.rerun_differs", "ray.preempted", "c10d.collective_mismatch")  # fmt: skip
_OF_CUDA = ("cuda.", "nccl.ecc", "nccl.cuda_")  # what a rank says of its device, itself or through NCCL
# Ports and the switch fabric belong to the node, whichever rank met with them first.
_OF_ONE_NODE = ("c10d.port_taken", "cuda.fabric", "cuda.nvlink")
# What every rank of the job does alike is the program's, even where all sit on one node.
_OF_EVERYBODY = (Cause.USER_CODE_ERROR, Cause.STORAGE_ERROR, Cause.NCCL_CONFIG, Cause.CUDA_OOM,
                 Cause.ENV_MISMATCH)  # fmt: skip
# What one process does or meets, unless several say so.
_OF_ONE = (Cause.USER_CODE_ERROR, Cause.STORAGE_ERROR, Cause.CUDA_OOM, Cause.SEGFAULT)
# What all ranks of a node share: who suffered from it first is no culprit.
_OF_THE_NODE = (Cause.NETWORK_IB, Cause.NETWORK_TCP, Cause.NODE_DOWN)


def locate(root: Root, signs: Sequence[Sign], ends: Sequence[End], world: World) -> Culprit:
    """The culprit of a root cause."""
    return _of_image(_located(root, signs, ends, world), root, world)


def _located(root: Root, signs: Sequence[Sign], ends: Sequence[End], world: World) -> Culprit:
    root = _by_host_evidence(root)
    hosts = {world.node_at(sign.captured["at_host"]) for sign in root.signs if "at_host" in sign.captured}
    named = (
        _on_named_device(root, world)
        or _named_ranks(root, world)
        or _odd_device(root, world)
        or _odd_call(root)
        or _named_by_all(root)
    )
    if named:
        return of_ranks(named, world)
    if len(hosts) == 1 and (host := hosts.pop()):
        return of_node(host, world)
    if _is_of_a_node(root) and len({*_nodes(root.signs)}) == 1:
        return of_node(root.lead.node, world)
    if root.tier == PLATFORM:
        return _of_pod(root, world)
    machine = [sign for sign in root.signs if sign.rank is None and sign.source.value != "agent"]
    if machine and (root.tier == MACHINE or root.lead.is_a("xid.")):
        return _on_machine(root, machine, signs, ends, world)
    return _of_the_ended(root, ends, world) or _of_writers(root, world)


def _of_the_ended(root: Root, ends: Sequence[End], world: World) -> Culprit | None:
    """What somebody in a log of several ranks said, where only one of them ended by itself."""
    if root.cause not in _OF_ONE or any(sign.rank is not None or sign.trusted for sign in root.signs):
        return None
    nodes = _nodes(root.signs)
    here = [end for end in ends if end.code and (end.node in nodes or not nodes)]
    ended = {end.rank for end in here if end.rank is not None}
    return of_ranks(ended, world) if len(ended) == len(here) == 1 and not root.lead.is_a("exit.") else None


def _is_of_a_node(root: Root) -> bool:
    by_cause = root.cause in _OF_THE_NODE and root.tier == MACHINE and not root.lead.is_a(*_OF_THE_JOB)
    return by_cause or root.lead.is_a(*_OF_ONE_NODE)


def _by_host_evidence(root: Root) -> Root:
    """What the machine itself shows beats all that pods name in their lines: those may be anything."""
    host = tuple(sign for sign in root.signs if sign.hardware and sign.trusted)
    return replace(root, signs=host) if host and root.tier == MACHINE else root


def of_ranks(ranks: Iterable[int], world: World) -> Culprit:
    """One rank is named as such; several of one pod or node as that; more than that as nobody."""
    several = sorted(set(ranks))
    pods = [world.pod_of_rank[rank] for rank in several if rank in world.pod_of_rank]
    if len(several) == 1 and pods:
        return Culprit(several[0], pods[0].name, pods[0].node)
    names, nodes = {pod.name for pod in pods}, {pod.node for pod in pods}
    if len(nodes) != 1:
        return Culprit()
    return Culprit(None, names.pop() if len(names) == 1 else None, nodes.pop())


def of_node(node: str, world: World) -> Culprit:
    pod = world.only_pod_on(node)
    return Culprit(None, pod.name if pod else None, node)


def _named_ranks(root: Root, world: World) -> set[int]:
    """Ranks that the line itself names: desync reports, barriers, version checks.

    A batch system's tasks are ranks only where they sit on the host that it names with them.
    """
    named: set[int] = set()
    for sign in root.signs:
        known = sign.captured
        listed = known.get("ranks") or known.get("other_rank") or ""
        told = {rank for part in listed.split(",") if (rank := as_int(part.strip())) is not None}
        host = world.node_at(known.get("at_host", ""))
        named |= told if host is None or told <= set(world.ranks_on(host)) else set()
    return named


def _on_named_device(root: Root, world: World) -> set[int]:
    """`obtained on node a, device 3`: devices of a node carry its ranks in order."""
    found = set()
    for sign in root.signs:
        node, device = world.node_at(sign.captured.get("at_host", "")), as_int(sign.captured.get("at_device"))
        if (
            node is not None
            and device is not None
            and (rank := world.rank_at(None, node, device)) is not None
        ):
            found.add(rank)
    return found


def _named_by_all(root: Root) -> set[int]:
    """The one rank that most writers of an exception name, and that itself says something else. A rank may be
    a tensor's or an adapter's: then everybody says the same."""
    said = {
        sign.rank: sign.captured.get("message", "")
        for sign in root.signs
        if sign.rank is not None and sign.is_a("python.exception")
    }
    named = Counter(int(rank) for words in said.values() for rank in {*_TOLD_RANK.findall(words)})
    if len(named) != 1:
        return set()
    rank, votes = named.popitem()
    others = {words for writer, words in said.items() if writer != rank}
    return {rank} if rank in said and said[rank] not in others and 1 < votes > len(said) / 2 else set()


def _of_image(where: Culprit, root: Root, world: World) -> Culprit:
    """Software comes with a pod's image: of several ranks in it none is the culprit."""
    pod = world.pods.get(where.pod or "")
    if root.cause is Cause.ENV_MISMATCH and pod is not None and len(pod.ranks) > 1:
        return Culprit(None, where.pod, where.node)
    return where


def _odd_device(root: Root, world: World) -> set[int]:
    """Of two ranks on one GPU, the one whose own it is not: devices of a pod carry its ranks in order."""
    odd = set()
    for sign in root.signs:
        pod = world.pod_of_rank.get(sign.rank) if sign.rank is not None else None
        device = as_int(sign.captured.get("line_device"))
        if sign.is_a("nccl.duplicate_gpu") and pod is not None and device is not None:
            odd |= {sign.rank} if sorted(pod.ranks).index(sign.rank or 0) != device else set()
    return {rank for rank in odd if rank is not None} if len(odd) == 1 else set()


def _odd_call(root: Root) -> set[int]:
    """Ranks whose collective differs from that of most, by their own reports."""
    calls = {
        int(rank): call
        for sign in root.signs
        if sign.is_a("c10d.collective_mismatch")
        for rank, call in _FINGERPRINT.findall(sign.text)
    }
    usual = Counter(calls.values()).most_common(2)
    if len(usual) < 2 or usual[0][1] <= usual[1][1]:
        return set()
    return {rank for rank, call in calls.items() if call != usual[0][0]}


def _of_pod(root: Root, world: World) -> Culprit:
    pods = {sign.pod for sign in root.signs if sign.pod}
    nodes = {sign.node for sign in root.signs if sign.node}
    if len(pods) == 1:
        view = world.pods.get(next(iter(pods)))
        return Culprit(None, next(iter(pods)), view.node if view else root.lead.node)
    return Culprit(None, None, nodes.pop()) if len(nodes) == 1 else Culprit()


def _of_writers(root: Root, world: World) -> Culprit:
    ranks = {sign.rank for sign in root.signs if sign.rank is not None}
    if root.lead.is_a(*_OF_THE_JOB) or _did_all(ranks, root, world):
        return Culprit()
    rankless = [sign for sign in root.signs if sign.rank is None]
    if ranks and (len(ranks) == 1 or root.lead.rank is None or len({*_nodes(root.signs)}) == 1):
        return of_ranks(ranks, world)
    if not ranks and rankless:
        return Culprit() if _did_all(_ranks_there(rankless, world), root, world) else _of_pod(root, world)
    return Culprit()


def _ranks_there(signs: Iterable[Sign], world: World) -> set[int]:
    """All ranks of the nodes on which it was said."""
    return {rank for node in _nodes(signs) for rank in world.ranks_on(node)}


def _did_all(ranks: Set[int], root: Root, world: World) -> bool:
    by_cause = root.cause in _OF_EVERYBODY or root.lead.is_a("net.outside")
    if not by_cause or root.hardware:
        return False
    return ranks == world.ranks and len(ranks) > 1 if world.ranks else _nodes(root.signs) >= world.nodes


def _nodes(signs: Iterable[Sign]) -> set[str]:
    return {sign.node for sign in signs if sign.node}


def _on_machine(
    root: Root, machine: list[Sign], signs: Sequence[Sign], ends: Sequence[End], world: World
) -> Culprit:
    nodes = {sign.node for sign in machine}
    if len(nodes) != 1:
        return Culprit()
    node = nodes.pop()
    rank = _rank_of_device(root, machine, signs, ends, world)
    if rank is None:
        return of_node(node, world)
    return of_ranks([rank], world)


def _rank_of_device(
    root: Root, machine: list[Sign], signs: Sequence[Sign], ends: Sequence[End], world: World
) -> int | None:
    """The rank on a broken device: by its process, its own CUDA error, the device's number, its end."""
    node = machine[0].node
    here = world.ranks_on(node)
    near = [sign for sign in signs if sign.rank in here and abs(sign.at - root.lead.at) <= _BESIDE]
    ways: tuple[Iterable[int | None], ...] = (
        (world.rank_of_pid.get(as_int(sign.captured.get("pid")) or -1) for sign in machine),
        (sign.rank for sign in near if sign.is_a(*_OF_CUDA) and not sign.is_a("cuda.busy")),
        (_numbered(sign, here) for sign in machine if world.is_whole),
        (end.rank for end in ends if end.node == node and end.signal not in (None, 15)),
        (view.rank for view in world.case.ranks if view.node == node and view.state in _STUCK),
        (_named_local(sign, world) for sign in signs if sign.node == node),
        here if len(here) == 1 and world.is_whole else (),
    )
    for way in ways:
        found = {rank for rank in way if rank is not None and rank in here}
        if len(found) == 1:
            return found.pop()
    return None


def _numbered(sign: Sign, here: Sequence[int]) -> int | None:
    """`… RPC response from GPU4 GSP!`: devices of a node carry its ranks in order where each has one."""
    found = None if _ONLOOKER.search(sign.text) else _NAMED_GPU.search(sign.text)
    number = int(found[1]) if found else -1
    return here[number] if 0 <= number < len(here) and len(here) > 1 else None


def _named_local(sign: Sign, world: World) -> int | None:
    local = as_int(sign.captured.get("peer_local_rank"))
    return None if local is None else world.rank_at(sign.pod, sign.node, local)
