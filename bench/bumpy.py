"""Jobs whose training is healthy but uneven, second by second, and the ways in which they really hang.

What a sidecar would see of them: steps and lines, each rank's state, CPU and bytes, its Python stack. Frames
are as py-spy gives them: what blocks in C (`loss.item()`, an NCCL kernel) shows the line that called it.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Frames = tuple[str, ...]
HOUR = 3600.0
LOUD, QUIET = 40_000_000, 12_000  # bytes in a heartbeat's window: a writer, a thread that tells figures

MAIN = ("main (train.py:210)", "<module> (train.py:240)")
DIST, WRAPPER = "torch/distributed/distributed_c10d.py", "wrapper (torch/distributed/c10d_logger.py:83)"
C10D = (f"all_reduce ({DIST}:2806)", WRAPPER)
BARRIER = (f"barrier ({DIST}:4722)", WRAPPER)
GATHER = (f"all_gather ({DIST}:3800)", WRAPPER)
BACKWARD = ("_engine_run_backward (torch/autograd/graph.py:865)", "backward (torch/autograd/__init__.py:354)")
STEP = ("train_step (train.py:57)", *MAIN)
LOADER = (
    "select (selectors.py:415)",
    "wait (multiprocessing/connection.py:948)",
    "poll (multiprocessing/connection.py:257)",
    "get (multiprocessing/queues.py:113)",
    "_try_get_data (torch/utils/data/dataloader.py:1275)",
    *MAIN,
)
SAVE = ("save (torch/serialization.py:850)", "save_checkpoint (train.py:120)", *MAIN)
EVAL_AT = ("evaluate (evaluate.py:41)", "main (train.py:214)", *MAIN[1:])
UNNAMED_AT = ("run_epoch (train.py:141)", "main (train.py:214)", *MAIN[1:])
METRIC = ("compute_map (metrics.py:77)", "evaluate (evaluate.py:60)", *MAIN)
BUILD = ("_make (torch/_inductor/codecache.py:{n})", "compile_fx (torch/_inductor/compile_fx.py:{n})", *STEP)
INIT = (
    "_create_c10d_store (torch/distributed/rendezvous.py:198)",
    f"init_process_group ({DIST}:1770)",
    *MAIN,
)
IMPORTS = ("_call_with_frames_removed (<frozen importlib._bootstrap>:241)", "<module> (models.py:{n})", *MAIN)
LOAD = ("load_file (safetensors/torch.py:{n})", "load (model.py:30)", *MAIN)
FORK = ("_launch (multiprocessing/popen_fork.py:71)", "__init__ (torch/utils/data/dataloader.py:1160)", *MAIN)


@dataclass(frozen=True)
class Act:
    """What one rank does: places with their weights; `{n}` in a frame is another line each time."""

    places: tuple[tuple[float, Frames], ...]
    cpu: bool = True
    io: int = 0
    state: str = "S"
    logs_every: float | None = None
    gil: bool = False
    wakes: bool = False  # the main thread's voluntary switches grow

    def stack(self, rng: random.Random) -> Frames:
        (frames,) = rng.choices([place for _, place in self.places], [weight for weight, _ in self.places])
        return tuple(frame.replace("{n}", str(rng.randrange(1, 900))) for frame in frames)


def still(frames: Frames, **facts: object) -> Act:
    return Act(((1.0, frames),), **facts)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Phase:
    """`acts`: by rank. Steps are made in a phase named `train` only, `pace` times slower than usual."""

    name: str
    length: float
    acts: tuple[Act, ...]
    pace: float = 1.0


@dataclass
class Job:
    """One job's habits, drawn once."""

    rng: random.Random
    world: int = 1
    per_pod: int = 1
    gpu: bool = True
    step: float = 1.0
    spread: float = 0.3
    told_by: str = "log"  # log | file | lines without steps | nothing
    every: int = 1
    waits: float = 0.8  # share of a step in which the host waits for the device
    mapped: bool = False  # data is mapped into memory: no bytes are read by calls
    chatty: bool = False  # a thread tells figures to a service
    readable: bool = True  # py-spy may read
    built: float = 0.0
    save_every: float = HOUR
    save_s: float = 30.0
    save_by: str = "first"
    eval_every: float = HOUR
    eval_s: float = 300.0
    eval_by: str = "all"
    eval_logs: bool = True
    named: bool = True
    spins: bool = False  # a main thread that waits for nothing but its device
    epoch: float = HOUR
    bumps: float = 1.0  # an hour

    @property
    def trickle(self) -> int:
        return QUIET if self.chatty else 0


def draw(seed: int) -> Job:
    """A job like those that people run: from a small one on CPUs to a pod of eight GPUs times sixteen."""
    rng = random.Random(seed)  # noqa: S311  the same job in every run
    world = rng.choice((1, 1, 2, 4, 8, 8, 16))
    told = rng.choices(("log", "file", "lines", "nothing"), (70, 15, 8, 7))[0]
    job = Job(
        rng,
        world,
        per_pod=max(1, world // rng.choice((1, 2, 4))),
        gpu=rng.random() < 0.75,
        step=math.exp(rng.uniform(math.log(0.05), math.log(20.0))),
        spread=rng.uniform(0.05, 0.5),
        told_by=told,
        waits=rng.uniform(0.3, 0.95),
        mapped=rng.random() < 0.4,
        chatty=rng.random() < 0.3,
        readable=rng.random() < 0.95,
        built=rng.choice((0.0, 0.0, rng.uniform(20, 1800))),
        save_every=rng.uniform(300, 3600),
        save_s=math.exp(rng.uniform(math.log(5), math.log(1200))),
        save_by=rng.choice(("first", "all", "slow")),
        eval_every=rng.uniform(900, 7200),
        eval_s=math.exp(rng.uniform(math.log(60), math.log(3600))),
        eval_by=rng.choice(("all", "all", "first")),
        eval_logs=rng.random() < 0.5,
        epoch=rng.uniform(1200, 7200),
        bumps=rng.uniform(0.2, 2.0),
    )
    job.named = random.Random(-seed).random() < 0.8  # noqa: S311
    job.spins = random.Random(-seed - 1).random() < 0.05  # noqa: S311
    # nobody logs less than once in a few minutes who logs at all
    job.every = rng.choice([n for n in (1, 10, 50, 100, 500) if n * job.step < 240] or [1])
    job.save_s = min(job.save_s, job.save_every / 3)
    job.eval_s = min(job.eval_s, job.eval_every / 2)
    return job


def training(job: Job) -> Act:
    """What a rank is seen at within a step."""
    own = ("forward (model.py:{n})", "_call_impl (torch/nn/modules/module.py:1786)", *STEP)
    rest = 1 - job.waits
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
