"""`faultcast job timeline`: a job's life as tables that people read."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from master.cli.output import moment, note, print_table, say, seconds

_RUNS = ("RUN", "STARTED", "FIRST STEP", "STEPS", "ENDED", "WHY")
_FAULTS = (
    "TIME", "RUN", "CLASS", "CAUSE", "CULPRIT", "ACTION", "DETECTED", "DECIDED", "TRAINING AGAIN",
    "STEPS LOST",
)  # fmt: skip


def print_timeline(document: Mapping[str, Any]) -> None:
    """Runs, then faults with how long after each it was detected, decided on and over."""
    ratio = document["effective_ratio"]
    share = "-" if ratio is None else f"{100 * ratio:.1f} %"
    lived = seconds(document["wall_s"])
    say(f"{document['job_id']} {document['status']}: {lived}, effective training {share}")
    print_table(_RUNS, [_run(run) for run in document["runs"]])
    if not document["faults"]:
        note("no fault events")
        return
    say("")
    print_table(_FAULTS, [_fault(fault) for fault in document["faults"]])


def _run(run: Mapping[str, Any]) -> list[Any]:
    steps = "-" if run["first_step"] is None else f"{run['first_step']}-{run['last_step']}"
    times = [moment(run[name]) for name in ("started_at", "first_step_at")]
    return [run["n"], *times, steps, moment(run["ended_at"]), run["end_reason"]]


def _fault(fault: Mapping[str, Any]) -> list[Any]:
    culprit = fault["culprit"]
    named = [f"{key} {culprit[key]}" for key in ("rank", "pod", "node") if culprit.get(key) is not None]
    after = [_after(fault, name) for name in ("detected_at", "decided_at", "recovered_at")]
    return [
        moment(fault["time"]), fault["run"], fault["fault_class"], fault["cause"], ", ".join(named),
        action_of(fault), *after, fault["steps_lost"],
    ]  # fmt: skip


def action_of(event: Mapping[str, Any]) -> str:
    """What was done; of a job without fault tolerance also what would have been."""
    decision = event.get("decision") or {}
    would = (decision.get("would") or {}).get("action")
    done = str(decision.get("action") or "-")
    return f"{done} (would: {would})" if would and would != done else done


def _after(fault: Mapping[str, Any], name: str) -> str:
    if not fault[name]:
        return "-"
    waited = datetime.fromisoformat(fault[name]) - datetime.fromisoformat(fault["time"])
    return f"+{seconds(max(0.0, waited.total_seconds()))}"
