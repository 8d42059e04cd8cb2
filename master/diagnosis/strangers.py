"""A machine is shared: its kernel also tells of processes that are none of this run's."""

import re
import signal
from collections.abc import Sequence

from agent.signatures import Role
from agent.wire import Kind
from master.casefile import CaseFile
from master.diagnosis.arbitration import CLOCKS_APART
from master.diagnosis.exits import End
from master.diagnosis.signs import Sign
from master.diagnosis.world import World, as_int, captured_of

# `python3.11`, torch's `pt_main_thread` and `pt_data_worker`, launchers in Python
_PYTHON = re.compile(r"(?:python|pypy|pt_|torchrun|accelerate|deepspeed|ray|vllm|sglang)", re.IGNORECASE)


# How whoever such a line means has ended.
_DEATHS = {
    "memory.killed": {signal.SIGKILL},
    "pod_oom_killed": {signal.SIGKILL},
    "crash.kernel_segfault": {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT},
}


# What is called well again, and by which sign.
_BACK = {"storage.server": "storage.server_back", "link.down": "link.up", "link.bond_down": "link.up"}


def is_back(sign: Sign, signs: Sequence[Sign], case: CaseFile) -> bool:
    """A server that the same machine later calls well again: whoever was hurt by it tells so himself. A link,
    once all is over and nobody felt it. A container beside training that was started again: training itself
    is not, by its pod."""
    well = _BACK.get(sign.name)
    if any(one.name == well and one.node == sign.node and one.at >= sign.at for one in signs):
        return not sign.is_a("link.") or (case.after_the_fact and not _felt(sign, signs, case))
    return "container" in sign.captured and any(
        seen.kind == "container_started"
        and (seen.node, seen.data.get("container")) == (sign.node, sign.captured["container"])
        and seen.at >= sign.at
        for seen in case.seen
    )


def _felt(sign: Sign, signs: Sequence[Sign], case: CaseFile) -> bool:
    felt = [one.at for one in signs if one.role is Role.SYMPTOM]
    felt += [seen.at for seen in case.seen if seen.kind in ("heartbeat_missing", "no_progress")]
    return any(abs(at - sign.at) <= CLOCKS_APART for at in felt)


def of_strangers(sign: Sign, signs: Sequence[Sign], ends: Sequence[End], world: World) -> bool:
    """Whether the kernel killed, or caught, somebody else (a neighbour, a file system's own server), as far
    as what ended here tells.

    Process numbers decide only where they are known: a pod's own may differ from its kernel's.
    """
    if sign.name not in _DEATHS or as_int(sign.captured.get("pid")) in world.rank_of_pid:
        return False
    if sign.is_a("pod_") and not world.case.after_the_fact:  # the runtime tells of our own pods alone
        return False
    here = [end for end in ends if end.node == sign.node]
    if any(one.is_a("dataloader.", "memory.host", "pod_oom") for one in signs if _beside(one, sign)):
        return False
    if not here:
        return _all_live(sign.node, world)
    name = sign.captured.get("name", "")
    if name and not _PYTHON.match(name) and _runs_python(sign.node, world):
        return True
    is_explained = any(
        one.role is Role.CULPRIT and one.is_a("python.", "storage.") for one in signs if _beside(one, sign)
    )
    return is_explained and not any(end.signal in _DEATHS[sign.name] for end in here)


def _all_live(node: str, world: World) -> bool:
    """Each of our ranks there, by its newest heartbeat: whoever was killed was somebody else. (Of logs that
    lie on disk nobody knows.)"""
    views = [view for view in world.case.ranks if view.node == node]
    live = all(view.state not in ("gone", "Z", "X") for view in views)
    return bool(views) and live and not world.case.after_the_fact


def _beside(one: Sign, sign: Sign) -> bool:
    return one.node == sign.node and one is not sign


def _runs_python(node: str, world: World) -> bool:
    """All training processes there that were told of."""
    commands = [
        str(seen.data.get("cmd") or "")
        for seen in world.case.seen
        if seen.kind == Kind.PROCESS_STARTED and seen.node == node
    ]
    commands += [  # torchrun's word on what it had started
        binary
        for seen in world.case.seen
        if seen.kind == Kind.LOG_MATCH and seen.node == node and (binary := captured_of(seen).get("binary"))
    ]
    return bool(commands) and all(_PYTHON.match(one.split(" ")[0].rpartition("/")[2]) for one in commands)
