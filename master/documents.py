"""Jobs, runs, pods and fault events as the API and the messages show them (CONTRACT 3)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from master.model import FaultEventRow, Job, Node, NodeSignal, Pod, Run
from notifier.clock import rfc3339

_SECRET_NAME = re.compile(r"secret|token|passw|credential|(^|_)key($|_)|_key$|apikey", re.IGNORECASE)
MASK = "***"


def job_facts(job: Job) -> dict[str, Any]:
    """What messages say of a job."""
    return {
        "id": job.id, "name": job.name, "pool": job.pool, "queue": job.queue, "status": job.status,
        "run": job.run, "reason": job.reason, "labels": job.spec.get("labels", {}),
    }  # fmt: skip


def job_document(job: Job, run: Run | None, pods: list[Pod]) -> dict[str, Any]:
    """One job, whole."""
    return {
        **job_line(job),
        "spec": _shown_spec(job.spec),
        "fault_tolerance": job.fault_tolerance,
        "warnings": job.warnings,
        "restarts_used": job.restarts_used,
        "step": run.last_step if run else None,
        "pods": [pod_document(pod) for pod in pods],
    }


def job_line(job: Job) -> dict[str, Any]:
    """One job in a list."""
    return {
        "id": job.id, "name": job.name, "pool": job.pool, "queue": job.queue, "priority": job.priority,
        "status": job.status, "reason": job.reason, "run": job.run,
        "created_at": rfc3339(job.created_at),
        "started_at": rfc3339(job.started_at) if job.started_at else None,
        "finished_at": rfc3339(job.finished_at) if job.finished_at else None,
    }  # fmt: skip


def pod_document(pod: Pod) -> dict[str, Any]:
    return {
        "name": pod.name, "index": pod.index, "run": pod.run, "node": pod.node, "status": pod.status,
        "reason": pod.reason, "exit_code": pod.exit_code,
        "started_at": rfc3339(pod.started_at) if pod.started_at else None,
        "ended_at": rfc3339(pod.ended_at) if pod.ended_at else None,
        "agent_seen_at": rfc3339(pod.agent_seen_at) if pod.agent_seen_at else None,
        "agent_lost": pod.agent_lost_at is not None,
    }  # fmt: skip


def event_document(event: FaultEventRow, language: str | None = None) -> dict[str, Any]:
    """A fault event. Without a language its sentences stay in all of them, for messages."""
    return {
        "id": event.id, "job_id": event.job_id, "run": event.run, "time": rfc3339(event.time),
        "fault_class": event.fault_class, "cause": event.cause,
        "reason": _said(event.reason, language), "advice": _said(event.advice, language),
        "culprit": event.culprit, "confidence": event.confidence, "hardware": event.hardware,
        "retryable": event.retryable, "step": event.step, "evidence": event.evidence,
        "decision": _decision(event.decision, language),
        "detected_at": rfc3339(event.detected_at), "decided_at": rfc3339(event.decided_at),
        "recovered_at": rfc3339(event.recovered_at) if event.recovered_at else None,
        "steps_lost": event.steps_lost, "downtime_s": event.downtime_s,
    }  # fmt: skip


def _decision(decision: Mapping[str, Any], language: str | None) -> dict[str, Any]:
    """`would`: of a job without fault tolerance, what would have been done."""
    would = decision.get("would")
    would = {**would, "why": _said(would["why"], language)} if would else None
    return {**decision, "why": _said(decision["why"], language), "would": would}


def node_document(node: Node, signals: Sequence[NodeSignal] = ()) -> dict[str, Any]:
    """`signals`: what is said of it just now (master/nodesignals.py)."""
    return {
        "name": node.name, "pool": node.pool, "status": node.status, "reason": node.reason,
        "isolated_at": rfc3339(node.isolated_at) if node.isolated_at else None,
        "agent_seen_at": rfc3339(node.agent_seen_at) if node.agent_seen_at else None,
        "signals": [_signal_document(signal) for signal in signals],
    }  # fmt: skip


def _signal_document(signal: NodeSignal) -> dict[str, Any]:
    return {
        "name": signal.name, "source": signal.source, "severity": signal.severity, "text": signal.text,
        "starts_at": rfc3339(signal.starts_at), "last_at": rfc3339(signal.last_at),
    }  # fmt: skip


def _said(words: Mapping[str, str], language: str | None) -> Any:
    return dict(words) if language is None else words.get(language) or words.get("en") or ""


def _shown_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The job's own variables may hold secrets: what is named like one is not shown."""
    envs = {name: MASK if _SECRET_NAME.search(name) else value for name, value in spec["envs"].items()}
    return {**spec, "envs": envs}
