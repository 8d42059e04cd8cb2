"""What a signature is and what a match tells. Data only."""

from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """What a line of this form says about whoever wrote it."""

    CULPRIT = "culprit"  # the fault began here
    SYMPTOM = "symptom"  # felt a fault that began elsewhere
    EVIDENCE = "evidence"  # proves nothing alone, weighs beside others
    BENIGN = "benign"  # looks like a fault to a keyword, is none: never reported


class Trigger(StrEnum):
    """When a line alone is reason enough to call a fault."""

    AT_ONCE = "at_once"
    IF_STUCK = "if_stuck"  # a process ended, or nobody made a step since
    NEVER = "never"


class Isolate(StrEnum):
    NEVER = "never"
    ALWAYS = "always"
    HOST_EVIDENCE = "host_evidence"  # only beside Xid, ECC or link evidence, or when it returns on that node


@dataclass(frozen=True)
class Signature:
    """One known line form. `pattern` (RE2) covers the line's whole body: its framing is taken off, and so is
    `SomeError: ` where that helps. `cause` is a name of the fault event's `cause`, empty where the line
    names none. `source`: where the form is known from."""

    id: str
    pattern: str
    cause: str
    role: Role
    source: str
    kernel: bool = False
    trigger: Trigger = Trigger.IF_STUCK
    hardware: bool = False
    retryable: bool = True
    isolate: Isolate = Isolate.NEVER
    origins: frozenset[str] = frozenset()  # framings in which it counts; empty: any
    levels: str = ""  # level letters at which it counts; empty: any but I and D, which are narration


@dataclass(frozen=True)
class Match:
    """A line that fits. `captured` holds what the form names (peer, seq, device, pid, exitcode, local_rank
    …) and, where the framing names the writer, `line_rank` (global), `line_host`, `line_pid`."""

    signature: str
    cause: str
    role: Role
    line: str
    captured: dict[str, str] = field(default_factory=dict)
