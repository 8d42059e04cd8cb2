"""Which of many signs is the cause, and whom it names. Rules, in order of weight:

the runtime's word on pods and nodes, then the machine's own evidence, then what a process did wrong by
itself, then unexplained ends; the earliest within a class. What others felt (peers gone, time-outs,
signals sent by launchers) decides only where nothing else is left, and then by whom it names.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from agent.signatures import Role, own_words
from master.casefile import Cause
from master.diagnosis.signs import Sign

# A pod that goes away long after the first error is being cleared up, it is not the cause.
_PLATFORM_SLACK = timedelta(seconds=5)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_SAME_MOMENT = timedelta(milliseconds=300)
# What one node suffers, all its ranks print within so short a time; later ones follow from the first.
_SAME_INCIDENT = timedelta(seconds=60)
CLOCKS_APART = timedelta(minutes=5)  # so far nodes' clocks may differ (FAULTS 3.2: order is no proof)

PLATFORM, MACHINE, PROCESS, UNCLEAR = range(4)
_PLATFORM_NAMES = ("pod_", "node_lost")
_UNCLEAR_NAMES = ("exit.code", "exit.aborted", "crash.aborted", "cuda.other", "cuda.library",
                  "cuda.rocm_exception", "dataloader.gone", "xid.action", "nccl.cuda_")  # fmt: skip
# What a program usually did to its device: its own words tell it better.
_APPLICATION = ("xid.13", "xid.31", "xid.32", "xid.69")
_OF_ONE_MACHINE = (Cause.GPU_HARDWARE, Cause.NVLINK_FABRIC)
_GENERIC_NAMES = ("python.exception", "python.path", "exit.")


@dataclass(frozen=True)
class Root:
    """The winning cause: `lead` tells it best, `signs` are all that tell it."""

    lead: Sign
    signs: tuple[Sign, ...]
    tier: int

    @property
    def cause(self) -> Cause:
        return self.lead.cause or Cause.UNKNOWN

    @property
    def hardware(self) -> bool:
        return any(sign.hardware for sign in self.signs)

    @property
    def retryable(self) -> bool:
        return all(sign.retryable for sign in self.signs)


def tier(sign: Sign) -> int:
    """How much a culprit's sign weighs; less is more."""
    if sign.is_a(*_PLATFORM_NAMES) and not sign.is_a("pod_oom_killed"):
        return PLATFORM
    if sign.is_a(*_UNCLEAR_NAMES) or sign.name in _APPLICATION:
        return UNCLEAR
    if sign.hardware or sign.is_a("memory.killed", "pod_oom_killed", "crash.kernel"):
        return MACHINE
    return PROCESS


def root_of(signs: Sequence[Sign]) -> Root | None:
    """The cause among the culprits' signs, or None where there are only symptoms."""
    culprits = [sign for sign in _consequences_apart(signs) if sign.role is Role.CULPRIT]
    culprits = _without_clearing_up(_without_the_announced(culprits))
    if not culprits:
        return None
    best = min(tier(sign) for sign in culprits)
    rivals = _by_host_evidence([sign for sign in culprits if tier(sign) == best])
    lead = _lead(rivals)
    same = [sign for sign in culprits if _tells_the_same(sign, lead) and _is_of_one_time(sign, lead)]
    return Root(lead, tuple(same), best)


def with_others(root: Root, aside: Sequence[Sign], everywhere: frozenset[str]) -> Root:
    """With what all other nodes said in the same words: by their clocks it may have come before training's
    last step, and was left aside as dealt with. What is said `everywhere` is no single node's fault."""
    nodes = {sign.node for sign in root.signs}
    said = _own_words(root.lead)
    more = tuple(
        sign
        for sign in aside
        if (sign.name, sign.cause, sign.role) == (root.lead.name, root.cause, Role.CULPRIT)
        and sign.node not in nodes
        and abs(sign.at - root.lead.at) <= CLOCKS_APART
        and _own_words(sign) == said
    )
    said_by_all = nodes | {sign.node for sign in more} >= everywhere and not root.lead.is_a("exit.", "xid.")
    return replace(root, signs=(*root.signs, *more)) if said_by_all else root


def _own_words(sign: Sign) -> str:
    return _NUMBERS.sub("#", own_words(sign.text, "kernel" if sign.trusted else "log"))


def _by_host_evidence(rivals: list[Sign]) -> list[Sign]:
    """What a machine itself shows, near in time, beats what pods say of machines (FAULTS 3.2, rule 2)."""
    first = min(sign.at for sign in rivals)
    host = [sign for sign in rivals if sign.hardware and sign.trusted and sign.at - first <= _SAME_INCIDENT]
    return host or rivals


def _is_of_one_time(sign: Sign, lead: Sign) -> bool:
    apart = _SAME_INCIDENT if sign.node == lead.node or lead.is_a("exit.") else CLOCKS_APART
    return abs(sign.at - lead.at) <= apart


def _lead(rivals: list[Sign]) -> Sign:
    """The earliest; among those of one moment the one that says most."""
    first = min(sign.at for sign in rivals)
    together = [sign for sign in rivals if sign.at - first <= _SAME_MOMENT]
    return min(together, key=lambda sign: (sign.is_a(*_GENERIC_NAMES), sign.at))


def _tells_the_same(sign: Sign, lead: Sign) -> bool:
    if sign is lead:
        return True
    if lead.is_a("exit."):  # later ends follow from the first
        return sign.name == lead.name and sign.at - lead.at <= timedelta(seconds=1)
    if lead.is_a(*_PLATFORM_NAMES):
        return sign.name == lead.name or (sign.node == lead.node and sign.is_a("pod_not_started"))
    if sign.cause in _OF_ONE_MACHINE and sign.trusted and lead.trusted and sign.node != lead.node:
        return False  # by its own kernel's word: another machine, another fault
    return sign.cause is lead.cause and not sign.is_a("exit.")


def _without_the_announced(culprits: list[Sign]) -> list[Sign]:
    """A node that goes away after its cloud's notice is not broken."""
    notices = {sign.node: sign.at for sign in culprits if sign.captured.get("reason") == "notice"}
    return [
        sign
        for sign in culprits
        if sign.name != "node_lost" or sign.node not in notices or sign.at < notices[sign.node]
    ]


def _without_clearing_up(culprits: list[Sign]) -> list[Sign]:
    others = [sign.at for sign in culprits if tier(sign) != PLATFORM]
    if not others:
        return culprits
    limit = min(others) + _PLATFORM_SLACK
    return [
        sign for sign in culprits if tier(sign) != PLATFORM or sign.at <= limit or sign.name == "node_lost"
    ]


def _consequences_apart(signs: Sequence[Sign]) -> list[Sign]:
    """A rank whose peers went away first may raise anything: its own generic exceptions follow from that."""
    hurt: set[tuple[int | None, str | None, str]] = set()
    kept = []
    for sign in signs:
        writer = (sign.rank, sign.pod, sign.node)
        if sign.role is Role.SYMPTOM and not sign.is_a("exit."):
            hurt.add(writer)
        if writer in hurt and sign.role is Role.CULPRIT and sign.is_a("python.exception"):
            continue
        kept.append(sign)
    return kept
