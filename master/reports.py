"""What an agent may post (agent/wire.py), parsed and bounded. Text stays data, never acted upon."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from agent.wire import MAX_CONDITIONS, MAX_MESSAGE, MAX_OBSERVATIONS, MAX_STEP_DIGITS, MAX_TEXT, VERSION, Kind
from notifier.documents import Document, GivenMoment

MAX_RANK = 1 << 24
MAX_NUMBER = 1 << 62
_LINE = Field(max_length=2 * MAX_TEXT)

Line = Annotated[str, _LINE]
Word = Annotated[str, Field(max_length=512)]
_PLAIN = AfterValidator(lambda text: text.replace("\0", ""))  # PostgreSQL keeps no NUL in a text
Plain = Annotated[Word, _PLAIN]
Number = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Step = Annotated[int, Field(ge=0, lt=10**MAX_STEP_DIGITS)]
Pid = Annotated[int, Field(ge=0, le=1 << 31)]
Frames = Annotated[tuple[Word, ...], Field(max_length=256)]
Captured = Annotated[dict[Word, Line], Field(max_length=64)]


class _Data(BaseModel):
    """An agent that is newer than the master may tell more: what is not known here is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class AgentStarted(_Data):
    version: Word = ""
    pid: Pid | None = None
    node_agent: bool = False


class RankState(_Data):
    pid: Pid
    state: Annotated[str, Field(max_length=1)]
    cpu_ticks: Number = 0
    io_bytes: Number = 0
    voluntary_switches: Number = 0
    still_s: Annotated[float, Field(ge=0, le=1e9)] | None = None
    step: Step | None = None
    step_at: GivenMoment | None = None
    children: Number = 0


def _ranks(value: object) -> object:
    """JSON's keys are texts; a rank is a number."""
    if not isinstance(value, dict):
        return value
    for key in value:
        if not (isinstance(key, str) and key.isascii() and key.isdigit() and int(key[:10]) < MAX_RANK):
            raise ValueError("the keys are global ranks, whole numbers")
    return {int(key[:10]): state for key, state in value.items()}


class Condition(_Data):
    """What stands on a node for a while."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    subject: Plain = ""
    severity: Literal["info", "warning", "error"] = "warning"
    text: Plain
    since: GivenMoment | None = None


class _KubernetesWord(_Data):
    reason: Plain = ""
    message: Annotated[str, Field(max_length=MAX_MESSAGE), _PLAIN] = ""


class NodeCondition(_KubernetesWord):
    """One of a `v1.Node`; `since`: of its last transition."""

    type: Plain
    status: Literal["True", "False", "Unknown"]
    since: GivenMoment


class NodeEvent(_KubernetesWord):
    """A `v1.Event` of type Warning about the node."""

    component: Plain = ""
    at: GivenMoment


class Kubernetes(_Data):
    """`conditions`: all of the node's, where there is news of them; `events`: new ones."""

    conditions: Annotated[tuple[NodeCondition, ...], Field(max_length=MAX_CONDITIONS)] | None = None
    events: Annotated[tuple[NodeEvent, ...], Field(max_length=MAX_CONDITIONS)] = ()


class Heartbeat(_Data):
    """`conditions`: all that stand on a node, where there is news of them; `kubernetes`: its word on it."""

    ranks: Annotated[dict[int, RankState], BeforeValidator(_ranks), Field(max_length=4096)] = {}
    log_at: GivenMoment | None = None
    conditions: Annotated[tuple[Condition, ...], Field(max_length=MAX_CONDITIONS)] | None = None
    kubernetes: Kubernetes | None = None


class ProcessStarted(_Data):
    pid: Pid
    cmd: Line = ""


class ProcessExited(_Data):
    pid: Pid | None = None
    exit_code: Annotated[int, Field(ge=-(1 << 31), le=1 << 31)] | None = None
    signal: Annotated[int, Field(ge=0, le=128)] | None = None
    last_lines: Annotated[tuple[Line, ...], Field(max_length=100)] = ()


class LogMatch(_Data):
    signature: Word
    captured: Captured = {}
    line: Line
    file: Annotated[str, Field(max_length=4096)] = ""
    line_no: Number | None = None
    context: Annotated[tuple[Line, ...], Field(max_length=100)] = ()


class Progress(_Data):
    step: Step
    steps_per_s: Annotated[float, Field(ge=0, le=1e9)] | None = None


class Thread(_Data):
    name: Word = ""
    frames: Frames = ()
    active: bool = False
    gil: bool = False


class Child(_Data):
    pid: Pid
    cmd: Line = ""
    frames: Frames = ()
    error: Line | None = None


class Call(_Data):
    number: Number
    op: Word = ""
    sizes: Word = ""


class Group(_Data):
    """How far a rank is in one process group, by PyTorch's flight recorder."""

    group: Word
    ranks: Annotated[tuple[Annotated[int, Field(ge=0, le=MAX_RANK)], ...], Field(max_length=4096)] = ()
    enqueued: Number
    completed: Number = 0
    calls: Annotated[tuple[Call, ...], Field(max_length=8)] = ()


class Stacks(_Data):
    pid: Pid | None = None
    frames: Frames = ()
    error: Line | None = None
    gil: bool | None = None
    state: Annotated[str, Field(max_length=1)] | None = None
    io_bytes: Number | None = None
    switches: Number | None = None
    flight: Annotated[tuple[Group, ...], Field(max_length=64)] = ()
    threads: Annotated[tuple[Thread, ...], Field(max_length=64)] = ()
    children: Annotated[tuple[Child, ...], Field(max_length=64)] = ()


class KernelLine(_Data):
    signature: Word
    captured: Captured = {}
    line: Line


class Dropped(_Data):
    what: Word
    count: Number


class _Seen(BaseModel):
    """One thing a probe saw; `data` is what its `kind` says (agent/wire.py)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    at: GivenMoment
    rank: Annotated[int, Field(ge=0, lt=MAX_RANK, strict=True)] | None = None


class SawStart(_Seen):
    kind: Literal[Kind.AGENT_STARTED]
    data: AgentStarted = AgentStarted()


class SawHeartbeat(_Seen):
    kind: Literal[Kind.HEARTBEAT]
    data: Heartbeat = Heartbeat()


class SawProcess(_Seen):
    kind: Literal[Kind.PROCESS_STARTED]
    data: ProcessStarted


class SawExit(_Seen):
    kind: Literal[Kind.PROCESS_EXITED]
    data: ProcessExited = ProcessExited()


class SawLine(_Seen):
    kind: Literal[Kind.LOG_MATCH]
    data: LogMatch


class SawProgress(_Seen):
    kind: Literal[Kind.PROGRESS]
    data: Progress


class SawStacks(_Seen):
    kind: Literal[Kind.STACKS]
    data: Stacks = Stacks()


class SawKernelLine(_Seen):
    kind: Literal[Kind.KERNEL_LINE]
    data: KernelLine


class SawDropped(_Seen):
    kind: Literal[Kind.DROPPED]
    data: Dropped


Saw = Annotated[
    SawStart
    | SawHeartbeat
    | SawProcess
    | SawExit
    | SawLine
    | SawProgress
    | SawStacks
    | SawKernelLine
    | SawDropped,
    Field(discriminator="kind"),
]


class ReportBody(BaseModel):
    """A batch of observations. Who speaks is told by the token alone: nothing here names a pod or job."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    boot: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    seq: Annotated[int, Field(ge=1, le=1 << 53, strict=True)]
    sent_at: GivenMoment
    observations: Annotated[tuple[Saw, ...], Field(max_length=MAX_OBSERVATIONS)]
    version: Annotated[int, Field(ge=1, le=VERSION, strict=True)] = VERSION


class ReplyDocument(Document):
    """`ack`: the report that is stored now; `want`: what the agent is asked to do (agent/wire.py)."""

    ack: int
    want: dict[str, Any]
