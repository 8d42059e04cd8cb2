"""Real hangs, as each rank of a job then looks (bench/healthy.py)."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.bumpy import BACKWARD, C10D, EVAL_AT, GATHER, LOADER, MAIN, SAVE, STEP, Act, Frames, Job, still

SPIN = ("spin (model.py:98)", "forward (model.py:90)", *STEP)
LOCK = ("acquire_all (cache.py:31)", "forward (model.py:90)", *STEP)
READ = ("recv_into (socket.py:718)", "get (store_client.py:44)", "forward (model.py:90)", *STEP)
RETRY = (
    (3.0, ("sleep_between (retry.py:20)", "call (retry.py:31)", *STEP)),
    (1.0, ("connect (retry.py:12)", "call (retry.py:33)", *STEP)),
)


@dataclass(frozen=True)
class Broken:
    """`culprits`: ranks that a person would name, none where the evidence cannot decide. `left`: ranks whose
    process ended well."""

    acts: tuple[Act, ...]
    culprits: frozenset[int] = frozenset()
    left: frozenset[int] = frozenset()
    logs_every: float | None = None


def _victims(job: Job) -> list[Act]:
    """Ranks that wait for one that does not come: most of them at one place, not all."""
    if job.gpu:  # the kernel spins; the host stands in the next call that needs a result
        places: list[Frames] = [STEP, (*BACKWARD, *STEP), ("clip (optim.py:20)", *STEP)]
    else:
        places = [(*BACKWARD, *STEP), (*C10D, *STEP)]
    usual = 0 if job.rng.random() < 0.7 else 1
    chosen = [usual if job.rng.random() < 0.9 else job.rng.randrange(len(places)) for _ in range(job.world)]
    if job.rng.random() < 0.5:
        chosen = [usual] * job.world
    spins = {"cpu": True, "state": "R"} if job.gpu else {"cpu": False, "state": "S"}
    return [still(places[n], io=job.trickle, **spins) for n in chosen]


def _odd(job: Job, act: Act, others: list[Act] | None = None) -> Broken:
    rank = job.rng.randrange(job.world)
    wait = others or _victims(job)
    logs = job.rng.uniform(5, 60) if job.rng.random() < 0.2 else None
    return Broken(
        tuple(act if n == rank else wait[n] for n in range(job.world)), frozenset({rank}), logs_every=logs
    )


def spins(job: Job) -> Broken:
    return _odd(job, still(SPIN, state="R", io=job.trickle, gil=True))


def locked(job: Job) -> Broken:
    return _odd(job, still(LOCK, cpu=False, io=job.trickle))


def reads(job: Job) -> Broken:
    return _odd(job, still(READ, cpu=False, io=job.trickle))


def no_data(job: Job) -> Broken:
    return _odd(job, still(LOADER, cpu=False, io=job.trickle))


def tries_again(job: Job) -> Broken:
    return _odd(job, Act(RETRY, cpu=False, io=job.trickle))


def other_call(job: Job) -> Broken:
    """One rank called another collective than all others."""
    odd = still((*GATHER, *STEP), cpu=job.gpu, io=job.trickle, state="R" if job.gpu else "S")
    return _odd(job, odd)


def left_evaluation(job: Job) -> Broken:
    """Uneven data: one rank is back in training, the others still evaluate."""
    others = still((*GATHER, *EVAL_AT), cpu=job.gpu, io=job.trickle, state="R" if job.gpu else "S")
    return _odd(job, _victims(job)[0], [others] * job.world)


def network(job: Job) -> Broken:
    """Everybody came and nothing goes on: the stacks name nobody."""
    return Broken(tuple(_victims(job)))


def stopped(job: Job) -> Broken:
    return _odd(job, still(STEP, cpu=False, state="T"))


def kernel(job: Job) -> Broken:
    return _odd(job, still(STEP, cpu=False, state="D"))


def storage(job: Job) -> Broken:
    """The checkpoint's storage is gone for good."""
    wait = still(("barrier (torch/distributed/distributed_c10d.py:4722)", *MAIN), cpu=job.gpu,
                 state="R" if job.gpu else "S", io=job.trickle)  # fmt: skip
    broken = _odd(job, still(SAVE, cpu=False, state="S", io=job.trickle), [wait] * job.world)
    return Broken(broken.acts, broken.culprits)


def left(job: Job) -> Broken:
    """One pod is done and ended well, the others wait for it."""
    if job.world // job.per_pod < 2:
        return network(job)
    pod = job.rng.randrange(job.world // job.per_pod)
    ranks = frozenset(range(pod * job.per_pod, (pod + 1) * job.per_pod))
    return Broken(tuple(_victims(job)), ranks, ranks)


KINDS: dict[str, Callable[[Job], Broken]] = {
    "a loop": spins, "a lock": locked, "a service": reads, "no data": no_data, "tries for ever": tries_again,
    "another collective": other_call, "evaluation left early": left_evaluation, "network": network,
    "stopped": stopped, "kernel": kernel, "storage": storage, "a pod left": left,
}  # fmt: skip
