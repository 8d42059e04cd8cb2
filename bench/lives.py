"""The lives of healthy but uneven jobs (bench/bumpy.py), phase by phase and without an end."""

from collections.abc import Callable, Iterator, Sequence

from bench.bumpy import (
    BACKWARD,
    BARRIER,
    BUILD,
    C10D,
    EVAL_AT,
    FORK,
    HOUR,
    IMPORTS,
    INDEX,
    INIT,
    LOAD,
    LOADER,
    LOUD,
    MAIN,
    METRIC,
    QUIET,
    SAVE,
    STEP,
    UNNAMED_AT,
    Act,
    Frames,
    Job,
    Phase,
    still,
)


def training(job: Job) -> Act:
    """What a rank is seen at within a step."""
    own = ("forward (model.py:{n})", "_call_impl (torch/nn/modules/module.py:1786)", *STEP)
    rest = 1 - job.waits
    places: tuple[tuple[float, Frames], ...]
    if job.gpu:
        places = (
            (job.waits, STEP),
            (rest * 0.5, own),
            (rest * 0.4, (*BACKWARD, *STEP)),
            (rest * 0.1, LOADER),
        )
    else:
        places = ((job.waits, (*BACKWARD, *STEP)), (rest * 0.8, own), (rest * 0.2, LOADER))
    reads = 0 if job.mapped else int(min(LOUD, 3_000_000 / job.step))
    return Act(places, io=reads + job.trickle, state="R" if job.gpu else "S", wakes=not job.spins)


def waiting(job: Job, frames: Frames = (*BARRIER, *MAIN)) -> Act:
    """For the others: an NCCL barrier spins, a gloo one sleeps."""
    return still(frames, cpu=job.gpu, io=job.trickle, state="R" if job.gpu else "S")


def phases(job: Job) -> Iterator[Phase]:
    """The job's life, without an end."""
    yield from start(job)
    due = {"save": job.save_every, "eval": job.eval_every, "epoch": job.epoch}
    due["bump"] = job.rng.expovariate(job.bumps / HOUR)
    made, act = 0.0, training(job)
    if job.warm:
        yield from warming_up(job, act)
    while True:
        name = min(due, key=lambda key: due[key])
        yield Phase("train", max(0.1, due[name] - made), (act,) * job.world)
        made = due[name]
        yield from {"save": saving, "eval": evaluation, "epoch": new_epoch, "bump": bump}[name](job)
        again = {"save": job.save_every, "eval": job.eval_every, "epoch": job.epoch}
        due[name] += again.get(name) or job.rng.expovariate(job.bumps / HOUR)


def start(job: Job) -> Iterator[Phase]:
    rng, everyone = job.rng, job.world
    yield Phase("imports", rng.uniform(5, 60), (still(IMPORTS, io=LOUD),) * everyone)
    late = rng.randrange(everyone)
    load = Act(((1.0, LOAD),), io=LOUD if rng.random() < 0.8 else 0, state="D" if rng.random() < 0.2 else "R")
    yield Phase("load", rng.uniform(5, 300), (load,) * everyone)
    yield Phase("init", rng.uniform(1, 90), _one(job, late, load, waiting(job, INIT)))
    if job.built:
        build = Act(((1.0, BUILD),), io=QUIET, state="R")
        yield Phase("build", job.built, (build,) * everyone)


def warming_up(job: Job, act: Act) -> Iterator[Phase]:
    """After the first steps: kernels are tuned, a new shape is compiled, groups meet, an index is built."""
    rng, everyone = job.rng, job.world
    yield Phase("train", job.step * rng.uniform(1.5, 9), (act,) * everyone)
    tuned = still(STEP, state="R", gil=rng.random() < 0.5)
    build = Act(((1.0, BUILD),), io=QUIET, state="R")
    meet = waiting(job, (*C10D, *STEP))
    index = Act(((1.0, INDEX),), io=500_000 if rng.random() < 0.5 else job.trickle, state="R")
    length, acts = rng.choice(
        (
            (rng.uniform(2, 40), (tuned,) * everyone),
            (rng.uniform(10, 400), (build,) * everyone),
            (rng.uniform(2, 15), (meet,) * everyone),
            (rng.uniform(5, 200), _one(job, 0, index, waiting(job))),
        )
    )
    yield Phase("warm", length, acts)


def _one(job: Job, rank: int, act: Act, others: Act) -> tuple[Act, ...]:
    return tuple(act if n == rank else others for n in range(job.world))


def saving(job: Job) -> Iterator[Phase]:
    length = job.save_s * job.rng.lognormvariate(0, 0.3)
    write = still(SAVE, io=LOUD, state=job.rng.choice("SD"), cpu=True)
    if job.save_by == "all":
        yield Phase("save", length, (write,) * job.world)
    elif job.save_by == "first":
        yield Phase("save", length, _one(job, 0, write, waiting(job)))
    else:  # the storage stalls now and then: no byte for up to a minute and a half
        stall = min(length / 3, job.rng.uniform(5, 90))
        stalled = still(SAVE, io=job.trickle, state="D", cpu=False)
        for act, part in ((write, (length - stall) / 2), (stalled, stall), (write, (length - stall) / 2)):
            yield Phase("save", part, _one(job, 0, act, waiting(job)))


def evaluation(job: Job) -> Iterator[Phase]:
    rng, length = job.rng, job.eval_s * job.rng.lognormvariate(0, 0.2)
    # two in ten call it by a name that tells nothing
    place = EVAL_AT if job.named else UNNAMED_AT
    other = ("forward (model.py:{n})", "_call_impl (torch/nn/modules/module.py:1786)", *place)
    logs = rng.uniform(5, 60) if job.eval_logs else None
    io = job.trickle if job.mapped else 500_000
    act = Act(
        ((job.waits, place), (1 - job.waits, other)), io=io, state="R", logs_every=logs, wakes=not job.spins
    )
    if job.eval_by == "all":
        yield Phase("eval", length, (act,) * job.world)
    else:
        yield Phase("eval", length, _one(job, 0, act, waiting(job)))
    if rng.random() < 0.3:  # figures by one long call into C
        yield Phase(
            "figures",
            rng.uniform(2, 45),
            _one(job, 0, still(METRIC, state="R", gil=job.rng.random() < 0.7), waiting(job)),
        )


def new_epoch(job: Job) -> Iterator[Phase]:
    fork = Act(
        ((0.6, FORK), (0.4, ("_worker_start (torch/utils/data/dataloader.py:{n})", *MAIN))), io=200_000
    )
    yield Phase("epoch", job.rng.uniform(2, 60), (fork,) * job.world)
    first = still(LOADER, io=LOUD if not job.mapped else job.trickle, cpu=True)
    yield Phase("epoch", job.rng.uniform(1, 60), (first,) * job.world)


def bump(job: Job) -> Iterator[Phase]:
    yield from job.rng.choices(BUMPS, (6, 3, 3, 3, 2, 1))[0](job)


def data_stall(job: Job) -> Iterator[Phase]:
    """The loader's children wait for slow storage; three times of four some bytes come."""
    rng = job.rng
    moves = rng.random() < 0.75
    act = still(LOADER, io=rng.randrange(400_000, 4_000_000) if moves else job.trickle, cpu=moves)
    length = rng.uniform(3, 240 if moves else 100)
    everyone = rng.random() < 0.5
    yield Phase(
        "data",
        length,
        (act,) * job.world
        if everyone
        else _one(job, rng.randrange(job.world), act, waiting(job, STEP if job.gpu else (*BACKWARD, *STEP))),
    )


def collected(job: Job) -> Iterator[Phase]:
    """Garbage collection, a lock, a short call into C: one rank stands, the others wait."""
    act = still(("train_step (train.py:49)", *MAIN), state="R", gil=True)
    yield Phase(
        "gc", job.rng.uniform(0.5, 12), _one(job, job.rng.randrange(job.world), act, waiting(job, STEP))
    )


def straggling(job: Job) -> Iterator[Phase]:
    yield Phase("train", job.rng.uniform(60, 600), (training(job),) * job.world, pace=job.rng.uniform(1.5, 4))


def preempted(job: Job) -> Iterator[Phase]:
    """Somebody else has the CPUs."""
    yield Phase("train", job.rng.uniform(20, 240), (training(job),) * job.world, pace=job.rng.uniform(3, 8))


def uploading(job: Job) -> Iterator[Phase]:
    """Rank 0 tells a service, which is slow to answer."""
    read = ("recv_into (socket.py:718)", "send (requests/adapters.py:644)", "log (wandb/sdk.py:88)", *MAIN)
    act = still(read, cpu=False, io=job.trickle)
    yield Phase("upload", job.rng.uniform(2, 60), _one(job, 0, act, waiting(job)))


def debugged(job: Job) -> Iterator[Phase]:
    """A person looks into one rank with a debugger."""
    act = still(STEP, cpu=False, state="t", gil=job.rng.random() < 0.2)
    yield Phase(
        "debug", job.rng.uniform(20, 1200), _one(job, job.rng.randrange(job.world), act, waiting(job, STEP))
    )


BUMPS: Sequence[Callable[[Job], Iterator[Phase]]] = (
    data_stall,
    collected,
    straggling,
    preempted,
    uploading,
    debugged,
)
