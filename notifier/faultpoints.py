"""Named points at which a test may break this process: `FAULTCAST_FAULTPOINT=name:nth:kill|raise|stall|wait`.

Costs one comparison when unset. `nth` counts the times that this process passes the point, 1 first;
`stall` is 30 s, or as given: `name:nth:stall:7`. `name:nth:wait:FILE` makes FILE and goes on when it is gone:
meanwhile a test may break whatever this process stands on.
"""

import os
import signal
import threading
import time
from pathlib import Path

VARIABLE = "FAULTCAST_FAULTPOINT"
POINTS = (
    "accepted",  # the alert is written, not committed
    "committed",  # committed, not yet answered
    "rung",  # inside the bell's job
    "claimed",  # the lease is ours
    "intent_written",  # nothing has left yet
    "bytes_sent",  # the provider has it, its answer is not read
    "answer_read",  # the answer is read, not written
    "outcome_written",  # committed
    "acknowledged",  # nothing is left to do for this delivery
    "following_up",  # a reminder or escalation is written, not committed
    "followed_up",  # committed
    "receipt_read",  # the provider said what became of it, that is not written
)
RECOVERY_POINTS = (  # the master's, in the order of a recovery
    "decided",  # judged, nothing is written
    "recorded",  # fault event, job, recovery and alert are committed
    "recovery_stopped",  # nothing of the run is left, its stage is not written
    "run_begun",  # the next run and its pods are rows
    "pod_started",  # a pod runs, its row says Pending
    "agent_started",  # so does its agent
    "recovery_started",  # all pods are started, the stage is not written
    "recovered",  # training goes on, and that is committed
)
ACTIONS = ("kill", "raise", "stall", "wait")
STALL_S = 30.0
LOOK_S = 0.01


class InjectedError(RuntimeError):
    """What `raise` raises."""


class FaultPoint:
    """One armed point of this process."""

    def __init__(self, form: str) -> None:
        name, nth, action, given = (*form.split(":", 3), "", "", "")[:4]
        numbers = (nth, "1" if action == "wait" else given or "1")
        known = name in POINTS + RECOVERY_POINTS and action in ACTIONS and (given or action != "wait")
        if not known or not all(n.isdecimal() and int(n) for n in numbers):
            raise ValueError(
                f"{VARIABLE}={form!r}: give NAME:NTH:ACTION, NAME of {', '.join(POINTS + RECOVERY_POINTS)}, "
                f"ACTION of {', '.join(ACTIONS)}"
            )
        self.name = name
        self._nth, self._action, self._given = int(nth), action, given
        self._passed = 0
        self._lock = threading.Lock()

    def hit(self, name: str) -> None:
        if name != self.name:
            return
        with self._lock:
            self._passed += 1
            is_due = self._passed == self._nth
        if is_due:
            self._act()

    def _act(self) -> None:
        if self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._action == "raise":
            raise InjectedError(self.name)
        if self._action == "stall":
            time.sleep(float(self._given or STALL_S))
        if self._action == "wait":
            gate = Path(self._given)
            gate.touch()
            while gate.exists():
                time.sleep(LOOK_S)


_armed = FaultPoint(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None


def hit(name: str) -> None:
    """Says that the process passes this point."""
    if _armed is not None:
        _armed.hit(name)


def is_armed(name: str) -> bool:
    """Whether this process is to break at that point."""
    return _armed is not None and _armed.name == name
