"""The demo's training job: data-parallel regression on CPU with gloo, checkpoints, a line a step.

Nothing in it knows of Faultcast, but for two conveniences any job may use: it writes its step number into
FAULTCAST_PROGRESS where that is set, and it breaks itself when a file `inject.<rank>` beside that one says so
(`faultcast inject`, master/inject/inside.py).
"""

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

STEPS = int(os.environ.get("DEMO_STEPS", "300"))
STEP_S = float(os.environ.get("DEMO_STEP_S", "0.05"))
CHECKPOINT_EVERY = 20
CHECKPOINT = Path(os.environ["DEMO_CHECKPOINTS"]) / "last.pt"
COLLECTIVE_S = float(os.environ.get("DEMO_COLLECTIVE_S", "1800"))  # gloo's own default
PROGRESS = os.environ.get("FAULTCAST_PROGRESS")


def main() -> None:
    """Train from the last checkpoint to STEPS and leave."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=COLLECTIVE_S))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    step = resume(model, optimizer)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    print(f"[rank{rank}]: training from step {step} with {world} ranks", flush=True)
    while step < STEPS:
        wish = asked_for(rank)
        if wish is not None:
            MISHAPS.get(wish["fault"], nothing)(model, wish.get("seconds"))
        loss = train_step(model, optimizer, world)
        step += 1
        print(f"[rank{rank}]: step {step} | loss {loss:.4f}", flush=True)
        tell_progress(step)
        if step % CHECKPOINT_EVERY == 0 and rank == 0:
            save(model, optimizer, step)
    dist.barrier()
    print(f"[rank{rank}]: finished at step {step}", flush=True)
    dist.destroy_process_group()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, world: int) -> float:
    """One step of data-parallel SGD: gradients are averaged over the ranks by all_reduce."""
    features = torch.randn(64, 32)
    target = features.sum(dim=1, keepdim=True).sin()
    loss = nn.functional.mse_loss(model(features), target)
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    for parameter in model.parameters():
        gradient = parameter.grad
        if gradient is not None:
            dist.all_reduce(gradient)
            gradient /= world
    optimizer.step()
    time.sleep(STEP_S)  # stands for the work of a larger model
    return float(loss)


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the last checkpoint, if there is one; the step it was written at."""
    if not CHECKPOINT.exists():
        return 0
    saved = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def save(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint whole or not at all."""
    CHECKPOINT.parent.mkdir(parents=True, exist_ok=True)
    draft = CHECKPOINT.with_suffix(".new")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, draft)
    draft.replace(CHECKPOINT)


def tell_progress(step: int) -> None:
    if PROGRESS:
        Path(PROGRESS).write_text(f"{step}\n")


def asked_for(rank: int) -> dict[str, Any] | None:
    """What `faultcast inject` asks this rank for, once: {"fault", "seconds"}."""
    path = Path(PROGRESS).with_name(f"inject.{rank}") if PROGRESS else None
    if path is None or not path.exists():
        return None
    wish: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return wish


def nothing(_model: nn.Module, _seconds: float | None) -> None:
    """A fault that this script does not know."""


def fail(_model: nn.Module, _seconds: float | None) -> None:
    raise ValueError("injected: batch 17 has labels out of range")


def spin(_model: nn.Module, _seconds: float | None) -> None:
    """An endless loop in one rank, while the others wait in all_reduce."""
    while True:
        pass


def skip_a_collective(model: nn.Module, _seconds: float | None) -> None:
    """Takes part in the step's first all_reduce and leaves out the second: what follows no longer fits."""
    gradients = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for number, gradient in enumerate(gradients):
        if number != 1:
            dist.all_reduce(gradient)


def stall_a_checkpoint(model: nn.Module, seconds: float | None) -> None:
    """Writes to storage that does not answer: for ever, or for some seconds."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    if seconds is not None:
        threading.Timer(seconds, drain, (reading,)).start()
    with open(writing, "wb", buffering=0) as storage:  # noqa: PTH123  a descriptor, not a path
        torch.save({"model": model.state_dict()}, storage)


def drain(reading: int) -> None:
    """The storage answers again."""
    while os.read(reading, 1 << 16):
        pass


def compile_for_long(model: nn.Module, seconds: float | None) -> None:
    """A compiler at work, again and again: nothing is wrong, but no step is made."""
    end = time.monotonic() + (seconds or 20)
    while time.monotonic() < end:
        torch.compiler.reset()
        torch.compile(model, backend="eager")(torch.randn(64, 32))


MISHAPS: dict[str, Callable[[nn.Module, float | None], None]] = {
    "exception": fail,
    "rank_spins": spin,
    "collective_skipped": skip_a_collective,
    "checkpoint_stalls": stall_a_checkpoint,
    "long_compile": compile_for_long,
}


if __name__ == "__main__":
    main()
