"""Sees that each pod has an agent that speaks. A silent one is told of and replaced, training left alone."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from master import news
from master.hands import Hands
from master.lifecycle import PodStatus, is_final
from master.model import Job, Pod
from master.podcare import ensure_agent
from master.runs import ref
from master.runtimes.base import Phase, PodState

SILENT = timedelta(seconds=6)  # agents speak every second
HOPELESS = timedelta(seconds=20)
DEAD = "its process ended"


def look(hands: Hands, job: Job, pods: Iterable[Pod], states: Mapping[str, PodState], heard: "Heard") -> None:
    """Raise what is lost, start what is dead, resolve what is back."""
    for pod in pods:
        state = states.get(pod.id)
        if state is None or state.phase is not Phase.RUNNING or pod.status != PodStatus.RUNNING:
            continue
        silent_for = heard.silence(pod)
        if state.agent_alive and silent_for > SILENT and ensure_agent(hands, job, pod, heard.now):
            continue  # it looked for us at an address that we have no more
        is_lost = not state.agent_alive or silent_for > SILENT
        if is_lost and pod.agent_lost_at is None:
            why = f"silent for {silent_for.total_seconds():.0f} s" if state.agent_alive else DEAD
            _raise(hands, job, pod, why, heard.now)
        if not state.agent_alive:
            ensure_agent(hands, job, pod, heard.now)
        elif silent_for > HOPELESS:
            hands.runtime.stop_agent(ref(pod))
        elif _is_back(pod):
            _resolve(hands, job, pod, heard.now)


class Heard:
    """Since when silence counts: not while nobody listened."""

    def __init__(self, now: datetime, listening_since: datetime) -> None:
        self.now = now
        self._since = listening_since

    def silence(self, pod: Pod) -> timedelta:
        told = [at for at in (pod.agent_seen_at, pod.agent_started_at, self._since) if at is not None]
        return self.now - max(told)


def _is_back(pod: Pod) -> bool:
    if pod.agent_lost_at is None or pod.agent_seen_at is None:
        return False
    return pod.agent_seen_at > pod.agent_lost_at


def _raise(hands: Hands, job: Job, pod: Pod, why: str, now: datetime) -> None:
    with hands.write() as session:
        known, row = session.get_one(Job, job.id), session.get_one(Pod, pod.id, with_for_update=True)
        if row.agent_lost_at is not None or is_final(known):
            return
        row.agent_lost_at = now
        news.tell_agent_lost(session, known, row, why, now)


def _resolve(hands: Hands, job: Job, pod: Pod, now: datetime) -> None:
    with hands.write() as session:
        row = session.get_one(Pod, pod.id, with_for_update=True)
        row.agent_lost_at = None
        news.tell_agent_back(session, session.get_one(Job, job.id), row, now)
