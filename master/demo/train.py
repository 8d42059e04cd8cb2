"""The demo's training job: data-parallel regression on CPU with gloo, checkpoints, a line a step.

Nothing in it knows of Faultcast, but for two conveniences any job may use: it writes its step number into
FAULTCAST_PROGRESS where that is set, and SIGUSR1 makes it spin for ever (a bug to be caught).
"""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

STEPS = int(os.environ.get("DEMO_STEPS", "300"))
STEP_S = float(os.environ.get("DEMO_STEP_S", "0.05"))
CHECKPOINT_EVERY = 20
CHECKPOINT = Path(os.environ["DEMO_CHECKPOINTS"]) / "last.pt"


def main() -> None:
    """Train from the last checkpoint to STEPS and leave."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    step = resume(model, optimizer)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    print(f"[rank{rank}]: training from step {step} with {world} ranks", flush=True)
    while step < STEPS:
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
    path = os.environ.get("FAULTCAST_PROGRESS")
    if path:
        Path(path).write_text(f"{step}\n")


def spin(_signal: int, _frame: object) -> None:
    """The injected bug: an endless loop in one rank, while the others wait in all_reduce."""
    while True:
        pass


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, spin)
    main()
