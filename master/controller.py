"""The master's heart: one thread that looks after every live job of a pool, woken by whatever happens."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy import Select, or_, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session
from structlog.contextvars import bound_contextvars

from master import agentcare, cases, endings, headway, judgement, news, nodecare, pools, recovery
from master.hands import Hands
from master.leader import Leadership, NotLeader
from master.lifecycle import FINAL, JobStatus, is_final
from master.model import Job, Pod, Recovery, Run
from master.podcare import RECOVERY_GRACE, STOP_GRACE, end, start_pending, status_of, watch
from master.runs import is_over, pods_of
from master.runtimes.base import ELSEWHERE, Runtime, RuntimeFailure
from notifier.api.deps import Services
from notifier.clock import utcnow

LOOK_EVERY_S = 0.5
REST_S = 0.02  # between two looks, however often woken
STALLED = timedelta(seconds=3)  # whoever did not look for so long did not hear either
LISTEN_FIRST = timedelta(seconds=8)  # agents that found no master try again within 6 s


log = structlog.get_logger()


@dataclass(frozen=True)
class Present:
    """What the rows say of one job now."""

    job: Job
    run: Run | None
    pods: Sequence[Pod]  # of this run
    leftovers: Sequence[Pod]  # of runs that are over, not closed yet
    recovery: Recovery | None


class Controller:
    """Created with the server's services; `start` it, `stop` it, `wake` it from any thread.

    `server`: the address under which this pool's agents reach the master.
    """

    def __init__(
        self, services: Services, runtime: Runtime, *, server: str, pool: str = pools.DEFAULT
    ) -> None:
        self.runtime = runtime
        leadership = Leadership(services.store, pool)
        # Whatever was written may let the next step be taken: look again at once.
        self._hands = Hands(services.store, services.bell, runtime, leadership, self.wake, server)
        self._pool = pool
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._round_at = time.monotonic()
        self._trouble: dict[tuple[str, str], str] = {}
        self._looked_at: datetime | None = None
        self._listening_since: datetime | None = None

    def start(self) -> None:
        with self._hands.store.write() as session:
            for name in pools.bootstrap(session, self.runtime.nodes()):
                news.close_node(session, name, utcnow())
        self.runtime.watch(self.wake)
        self._thread = threading.Thread(target=self._live, name="controller", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let another master go on at once; pods and agents live on."""
        self._ending.set()
        self.wake()
        if self._thread is not None:
            self._thread.join()
        self.runtime.close()

    def wake(self) -> None:
        """Something happened: look at once."""
        self._woken.set()

    def silent_s(self) -> float | None:
        """How long ago it last began to look; None: it was not started."""
        return None if self._thread is None else time.monotonic() - self._round_at

    def tick(self, now: datetime) -> None:
        """One look at everything."""
        if not self._hands.leadership.take():
            self._looked_at = None
            return
        self._note_hearing(now)
        with self._hands.store.read() as session:
            jobs = session.scalars(_live_jobs(self._pool)).all()
        for job_id in jobs:
            self._guarded("job", job_id, partial(self._care, job_id, now))
        self._guarded("nodes", self._pool, partial(nodecare.look, self._hands, self._pool, now))

    def _live(self) -> None:
        while not self._ending.is_set():
            self._woken.wait(LOOK_EVERY_S)
            self._woken.clear()
            self._round_at = time.monotonic()
            self._guarded("pool", self._pool, lambda: self.tick(utcnow()))
            self._ending.wait(REST_S)
        self._guarded("pool", self._pool, self._hands.leadership.give_up)

    def _guarded(self, what: str, name: str, work: Callable[[], None]) -> None:
        """A border: what goes wrong with one job neither stops the others nor the master."""
        try:
            work()
        except NotLeader:
            log.warning("not_leader_any_more", pool=self._pool)
        except RuntimeFailure as error:
            if self._is_news(what, name, str(error)):
                log.warning("runtime_failed", what=what, name=name, why=str(error))
            endings.note_reason(self._hands, name, str(error))
        except (DBAPIError, PoolTimeoutError) as error:
            log.warning("database_failed", what=what, name=name, why=type(error).__name__)
        except BaseException as error:
            if self._is_news(what, name, type(error).__name__):
                log.exception("care_failed", what=what, name=name)
        else:
            self._trouble.pop((what, name), None)

    def _is_news(self, what: str, name: str, why: str) -> bool:
        """Whether that was said already of this one: it is looked after twice a second."""
        known = self._trouble.get((what, name))
        self._trouble[what, name] = why
        return known != why

    def _note_hearing(self, now: datetime) -> None:
        """Silence of agents counts from here: while nobody looked, nobody listened."""
        stalled = self._looked_at is None or now - self._looked_at > STALLED
        if stalled or self._listening_since is None:
            self._listening_since = now + LISTEN_FIRST
        self._looked_at = now

    def _care(self, job_id: str, now: datetime) -> None:
        with self._hands.store.read() as session:
            present = _present(session, job_id)
        if present is None:
            return
        with bound_contextvars(**_names(present)):
            self._look_after(present, now)

    def _look_after(self, present: Present, now: datetime) -> None:
        job, hands = present.job, self._hands
        grace = STOP_GRACE if job.stop_requested else RECOVERY_GRACE
        is_clean = end(hands, present.leftovers, grace, now)
        if job.status == JobStatus.STOPPING:
            if is_clean:
                endings.stopped(hands, job, now)
        elif is_final(job):
            if is_clean and present.run is not None and present.run.ended_at is None:
                endings.run_ended(hands, job, now)
            if job.delete_requested and not present.leftovers:
                endings.purge(hands, job)
        elif present.run is None:
            recovery.begin_run(hands, job, 0, now)
        elif present.recovery is not None and present.recovery.stage != "starting":
            recovery.advance(hands, job, present.recovery, now, is_clean=is_clean)
        else:
            self._care_for_run(present, present.run, now)

    def _care_for_run(self, present: Present, run: Run, now: datetime) -> None:
        """One step of what is due; whatever it writes wakes us for the next one."""
        hands, job, pods = self._hands, present.job, present.pods
        if start_pending(hands, job, pods, now):
            return
        if present.recovery is not None:
            recovery.advance(hands, job, present.recovery, now, is_clean=True)
            return
        states = watch(hands, job, pods, now)
        if job.reason == ELSEWHERE:
            endings.note_reason(hands, job.id, "")
        if any(pod.status != status_of(states[pod.id]) for pod in pods):
            return
        with hands.store.read() as session:
            look = headway.read(session, job, run, pods)
            case = cases.load(session, job, run, pods, since=hands.passed_over.get((job.id, run.n)))
        if headway.note(hands, look, now) or look.all_succeeded:
            return
        event = judgement.judge(hands, job, run, case, now)
        if event is None and self._listening_since is not None:
            agentcare.look(hands, job, pods, states, agentcare.Heard(now, self._listening_since))


def _names(present: Present) -> dict[str, str]:
    """What each line of the log says while a job is looked after: what is mended names its fault."""
    named = {"job": present.job.id}
    return named if present.recovery is None else {**named, "incident": present.recovery.event_id}


def _live_jobs(pool: str) -> Select[str]:
    """Whose state may still change by itself, or of which something is left."""
    unclosed = select(Pod.job_id).where(Pod.closed_at.is_(None))
    return (
        select(Job.id)
        .where(Job.pool == pool)
        .where(or_(Job.status.not_in(FINAL), Job.delete_requested.is_(True), Job.id.in_(unclosed)))
        .order_by(Job.id)
    )


def _present(session: Session, job_id: str) -> Present | None:
    job = session.get(Job, job_id)
    if job is None:
        return None
    run = session.get(Run, (job.id, job.run))
    pods = pods_of(session, job.id, job.run)
    unclosed = select(Pod).where(Pod.job_id == job.id, Pod.closed_at.is_(None)).order_by(Pod.run, Pod.index)
    is_over_now = run is None or is_over(run) or is_final(job)
    leftovers = [pod for pod in session.scalars(unclosed) if is_over_now or pod.run < job.run]
    carried_out = recovery.open_recovery(session, job) if job.status == JobStatus.RESTARTING else None
    return Present(job, run, pods, leftovers, carried_out)
