"""The protocol between agents and the master: `POST /api/v1/agent/reports`, an agent token, JSON.

A report is a batch of observations in the order in which they were made. `seq` grows by one for each
report of one agent's life (`boot`), so that the master drops what it has seen. Who speaks is decided by
the token alone; nothing in the body can claim another pod or node. Times are RFC 3339 UTC by the agent's
clock, `sent_at` lets the master see the skew. The agent has no pydantic on its side of the wire:
dataclasses here, validation by the master.
"""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

VERSION = 1
MAX_OBSERVATIONS = 500
MAX_TEXT = 8192  # characters of one line; longer ones are cut in the middle
MAX_STEP_DIGITS = 12  # as many as agent/steps.py reads in a log
MAX_CONDITIONS = 64  # of one node at once, of each sort; as many events
FEW_CPU = 0.02  # of one core: less is no work, but the threads of a runtime that look after their sockets
MAX_MESSAGE = 2000  # characters of a condition or event of Kubernetes


class Kind(StrEnum):
    """What an observation tells. `data` of each:

    agent_started: {"version": str, "pid", "node_agent": bool}
    heartbeat: {"ranks": {"<rank>": RankState}, "log_at": time of the newest log line | null,
        "conditions": [Condition], node agents only: all that stand, where there is news of them
        "kubernetes": {"conditions": [NodeCondition] of the node, all of them, where there is news of them,
        "events": [Event] new warnings about it}, node agents only}
        Condition: {"name", "subject", "severity": "info|warning|error", "text", "since": time}
        NodeCondition: {"type", "status": "True|False|Unknown", "reason", "message", "since": time}
        Event: {"component", "reason", "message", "at": time}
        RankState: {"pid", "state": "R|S|D|T|Z|X|t", "cpu_ticks", "io_bytes", "voluntary_switches",
        "still_s": for how long nothing of it moved, "step": int|null, "step_at": time|null,
        "children": int}; ticks and bytes include all below it
    process_started: {"pid", "cmd"}                    (rank set)
    process_exited: {"pid", "exit_code": int|null, "signal": int|null, "last_lines": [str]}   (rank set)
    log_match: {"signature", "captured": {}, "line", "file", "line_no": int|null, "context": [str]}
    progress: {"step", "steps_per_s": float|null}      (rank set or null for the pod)
    stacks: {"pid", "frames": ["func (file:line)", …innermost first], "error": str|null,
        "gil": bool|null, "state", "io_bytes", "switches" (the main thread's voluntary ones) at that moment,
        "flight": [group] (agent/flight.py),
        "threads": [{"name", "frames", "active", "gil"}] besides the main one,
        "children": [{"pid", "cmd", "frames", "error"}]}     (rank set; null where no process was found)
    kernel_line: {"signature", "captured": {}, "line"}                                (node agents only)
        a line of the kernel's log, or what the agent found out itself (agent/findings.py) in that form
    dropped: {"what", "count"}                         what the agent had to leave out
    """

    AGENT_STARTED = "agent_started"
    HEARTBEAT = "heartbeat"
    PROCESS_STARTED = "process_started"
    PROCESS_EXITED = "process_exited"
    LOG_MATCH = "log_match"
    PROGRESS = "progress"
    STACKS = "stacks"
    KERNEL_LINE = "kernel_line"
    DROPPED = "dropped"


URGENT = frozenset({Kind.PROCESS_EXITED, Kind.LOG_MATCH, Kind.STACKS, Kind.KERNEL_LINE})


@dataclass(frozen=True)
class Observation:
    """One thing a probe saw. `at`: RFC 3339 UTC. `rank`: the global rank, or null."""

    kind: Kind
    at: str
    rank: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What an agent posts. `boot` is random per agent process; `seq` starts at 1."""

    boot: str
    seq: int
    sent_at: str
    observations: tuple[Observation, ...]
    version: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Reply:
    """The master's answer: `ack` the seq now stored; `want` what the agent is asked to do:
    {"stacks": true} collects and reports every rank's stack at once; {"patterns": ["literal", "re:…"]}
    the job's own fault patterns, reported as log_match with signature `custom`."""

    ack: int
    want: dict[str, Any] = field(default_factory=dict)
