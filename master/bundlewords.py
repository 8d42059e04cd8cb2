"""How Kubernetes, schedulers and agents word what became of pods, nodes and ranks, in written-down cases."""

import re
from dataclasses import dataclass, field
from typing import Any

from agent.signatures import Scanner
from agent.wire import Kind

_POD = re.compile(r"\bpod[/ ]([a-z0-9][\w.-]*)")
# Evicted for what the pod itself used, not for a neighbour or the node (kubelet's eviction message).
_OWN_USE = re.compile(
    r"(?i)which exceeds its request|exceed(?:s|ed)? (?:its|the|local) .*(?:limit|request)|"
    r"has larger consumption|Usage of EmptyDir volume"
)
_USING = re.compile(r"was using (\d+(?:\.\d+)?)([a-zA-Z]*), request is (\d+(?:\.\d+)?)([a-zA-Z]*)")
_UNITS = {unit: 1024 ** (at // 2 + 1) if unit.endswith("i") else 1000 ** (at // 2 + 1)
          for at, unit in enumerate(("Ki", "k", "Mi", "M", "Gi", "G", "Ti", "T"))}  # fmt: skip
# Kueue and Volcano move a whole job at once: no pod of it is at fault.
_WHOLE_JOB = re.compile(r"\b(?:workload|podgroup|pytorchjob|jobset|vcjob)/")
# Clouds tell minutes before they take a machine back.
_NOTICE = re.compile(r"(?i)\bnode/\S+ .*\b(?:spot|preempt\w*|interrupted|reclaimed)\b")
_ACTOR = re.compile(r"\buser=(\S+)|\bby user[= ](\S+)|deleted by (\S+)")
_PLATFORM = {
    "job_succeeded": r"\b(?:job|pytorchjob|jobset|mpijob)\b.*\b(?:Succeeded|Completed?)\b",
    "pod_completed": r"reason=Completed\b|terminated.*exitCode=0\b|exit ?code[=: ]0\b",
    # before preemption: the scheduler tells with it that nobody could be preempted
    "pod_not_scheduled": r"FailedScheduling|\bUnschedulable\b",
    "pod_preempted": (
        r"\bpreempt(?:ed|ing|ion)?\b|Spot ?Interruption|Spot ITN|"
        r"instance (?:will be|is being) (?:interrupted|reclaimed)|TERMINATE_ON_HOST_MAINTENANCE"
    ),
    "pod_evicted": r"\bEvict(?:ed|ing|ion)\b|low on resource:|TaintManagerEviction|imminent node shutdown",
    "pod_oom_killed": r"OOMKilled",
    "node_lost": (
        r"Ready=(?:Unknown|False)|NodeNotReady|NodeStatusUnknown|Kubelet stopped posting|"
        r"node\.kubernetes\.io/(?:unreachable|not-ready)|\bnode\b.*\b(?:is down|unreachable|rebooted)\b"
    ),
    # kubelet found fewer healthy devices than it had promised
    "pod_devices_lost": (
        r"UnexpectedAdmissionError.*(?:healthy devices|devices unavailable)|cannot allocate unhealthy devices"
    ),
    "pod_not_started": (
        r"ImagePullBackOff|ErrImagePull|Failed to pull image|FailedMount|FailedAttachVolume|"
        r"FailedCreatePodSandBox|CreateContainer(?:Config)?Error|"
        r"InvalidImageName|status=Pending|StartError|UnexpectedAdmissionError"
    ),
    "pod_deadline": r"DeadlineExceeded\b.*longer than|longer than .*\bDeadlineExceeded\b",
    "node_ready": r"\bReady=True\b",
    "pod_deleted": r"verb=delete\b|\bdeleted?\b.*\bpods?\b|\bpods?\b.*\b(?:was )?deleted\b",
}
_PATTERNS = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in _PLATFORM.items()}
_DETAIL = re.compile(
    r"reason=(\w+)|(ImagePullBackOff|ErrImagePull|FailedMount|NodeNotReady|low on resource: [\w-]+)"
)
_EXIT = re.compile(r"(?i)(?:exit(?:ed)?(?: with)?[ _]?code[=: ]|exitCode=|Error exit )(\d{1,3})\b")

_MISSING = re.compile(r"(?i)heartbeat (?:missing|lost|overdue|timed? ?out)|no heartbeat")
_BEAT = re.compile(r"(?i)heartbeat ok")
_BLOCKED = re.compile(r"(?i)(?:blocked|waiting) in (\w+)")
_EVENT = re.compile(r"^(?:Normal|Warning) \w+ \S+ ")
_CUSTOM = re.compile(
    r"custom (?:log )?pattern(?: matched)?:? [\"'](?P<pattern>.+?)[\"'](?: |:|$)(?!(?:did )?not? )"
)
_STATE = re.compile(r"(?:process )?state[ =:]+([RSDTZX])\b")
_IN_WORDS = (("Z", re.compile(r"(?i)\b(?:is|became) (?:a )?(?:zombie|defunct)\b")),
             ("T", re.compile(r"(?i)\b(?:was|is) (?:stopped|suspended) by SIG(?:STOP|TSTP)\b")))  # fmt: skip
_STANDS = re.compile(
    r"(?i)no (?:new )?(?:training )?(?:progress|iteration|step|log)\b.*?\bfor (\d+) ?s|stalled for (\d+)|"
    r"progress (?:missing|overdue)(?: for)? (\d+) ?s"
)
_STACK = re.compile(r"py-spy: .*?: (?P<frames>.+)")
_CUT_SHORT = re.compile(r"\s*<-\s*")
_CONTAINER = re.compile(r"\bcontainer[ =]\"?([a-z0-9][\w.-]*)\"? (?:was )?terminated")
_STARTED = re.compile(r"\bStarted container ([a-z0-9][\w.-]*)")
_DONE = re.compile(r"\b(?:Job)?State=COMPLETED\b.*\bExitCode=0:0\b")
_SCANNER = Scanner()


@dataclass(frozen=True)
class Told:
    """What a line says, as a kind of casefile.Seen."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    pod: str | None = None


def platform_words(text: str) -> Told | None:
    """A line of Kubernetes events, status or audit."""
    named = _POD.search(text)
    pod = named[1] if named else None
    for kind, pattern in _PATTERNS.items():
        if pattern.search(text):
            if kind == "pod_not_scheduled":  # it has no node; whose the event is said to be has another pod
                return Told("pod_not_started", {**_details(kind, text), "whole_job": True}, pod)
            return Told(kind, _details(kind, text), pod)
    if found := _STARTED.search(text):
        return Told("container_started", {"container": found[1]}, pod)
    if found := _EXIT.search(text):
        return Told("pod_exited", {"exit_code": int(found[1]), "signal": None}, pod)
    return _machine_words(text, pod) or (Told("pod_seen", {}, pod) if pod else None)


def _machine_words(text: str, pod: str | None) -> Told | None:
    """Node-problem-detector repeats kernel lines as events; kubelet repeats why a container did not start."""
    kind, match = Kind.KERNEL_LINE, _SCANNER.scan(_EVENT.sub("", text), "kernel")
    if match is None:
        kind, match = Kind.LOG_MATCH, _SCANNER.scan(text)
    if match is None or (kind is Kind.LOG_MATCH and not match.signature.startswith("cuda.container")):
        return None
    return Told(kind, {"signature": match.signature, "captured": match.captured, "line": text}, pod)


def _details(kind: str, text: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if found := _DETAIL.search(text):
        details["reason"] = found[1] or found[2]
    if kind == "pod_evicted":
        details["own_fault"] = bool(_OWN_USE.search(text)) or _used_more(text)
    if kind == "pod_deleted" and (found := _ACTOR.search(text)):
        details["by"] = next(name for name in found.groups() if name)
    if kind == "pod_oom_killed" and (found := _CONTAINER.search(text)):
        details["container"] = found[1]
    if kind == "pod_preempted" and _NOTICE.search(text):
        details["reason"] = "notice"
    if kind in ("pod_preempted", "pod_evicted") and _WHOLE_JOB.search(text):
        details["whole_job"] = True
    return details


def _used_more(text: str) -> bool:
    """More than was asked for: `was using 31Mi, request is 0` (kubelet's eviction message)."""
    found = _USING.search(text)
    if found is None:
        return False
    used, asked = (float(found[at]) * float(_UNITS.get(found[at + 1], 1)) for at in (1, 3))
    return bool(used > asked)


def launcher_words(text: str) -> Told | None:
    """A batch system's last word on a job."""
    return Told("job_succeeded") if _DONE.search(text) else None


def probe_words(text: str) -> Told | None:
    """A line that an agent wrote of a rank or a node."""
    if found := _CUSTOM.search(text):
        data = {"signature": "custom", "captured": {"pattern": found["pattern"]}, "line": text}
        return Told(Kind.LOG_MATCH, {**data, "whole_job": True})  # whoever prints it need not be at fault
    state = found[1] if (found := _STATE.search(text)) else _state_in_words(text)
    return _beat_words(text, {"state": state} if state else {})


def _state_in_words(text: str) -> str | None:
    return next((state for state, form in _IN_WORDS if form.search(text)), None)


def _beat_words(text: str, data: dict[str, Any]) -> Told | None:
    if _MISSING.search(text):
        return Told("heartbeat_missing", data)
    if found := _STACK.search(text):
        return Told(Kind.STACKS, {"frames": _CUT_SHORT.split(found["frames"]), **data})
    if found := _BLOCKED.search(text):
        return Told(Kind.STACKS, {"frames": [f"{found[1]} (distributed_c10d.py)"], **data})
    if found := _STANDS.search(text):
        return Told("no_progress", {"for_s": int(found[1] or found[2] or found[3]), **data})
    if _BEAT.search(text):
        return Told("heartbeat_ok", data)
    return Told("state_seen", data) if data else None
