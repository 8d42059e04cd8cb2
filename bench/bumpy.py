"""Jobs whose training is healthy but uneven, and what is seen of each rank at each thing it does.

What a sidecar would see: steps and lines, each rank's state, CPU and bytes, its Python stack. Frames
are as py-spy gives them: what blocks in C (`loss.item()`, an NCCL kernel) shows the line that called it.
"""

import math
import random
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
INDEX = ("add (index.py:{n})", "build_index (index.py:30)", *MAIN)
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
    warm: bool = False  # one more thing is made ready after the first steps

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
    job.warm = random.Random(-seed - 2).random() < 0.4  # noqa: S311
    job.save_s = min(job.save_s, job.save_every / 3)
    job.eval_s = min(job.eval_s, job.eval_every / 2)
    return job
