"""A data-parallel job of real PyTorch on gloo: checkpoints, a line a step, and a bug on demand.

Trains until a file `enough` is there. SIGUSR1 makes a rank spin for ever while the others wait in all_reduce.
"""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

FOLDER = Path(os.environ["TRAINING_FOLDER"])
CHECKPOINT = FOLDER / "last.pt"
EVERY = 20


def spin(_signal: int, _frame: object) -> None:
    while True:
        pass


def resume(weights: torch.Tensor) -> int:
    if not CHECKPOINT.exists():
        return 0
    kept = torch.load(CHECKPOINT, weights_only=True)
    weights.copy_(kept["weights"])
    return int(kept["step"])


def save(weights: torch.Tensor, step: int) -> None:
    draft = CHECKPOINT.with_suffix(".new")
    torch.save({"weights": weights, "step": step}, draft)
    draft.replace(CHECKPOINT)


def main() -> None:
    signal.signal(signal.SIGUSR1, spin)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.zeros(64)
    step = resume(weights)
    while True:
        gradient = torch.randn(64)
        dist.all_reduce(gradient)
        enough = torch.tensor([int((FOLDER / "enough").exists())])
        dist.all_reduce(enough)
        if enough.item():
            break
        weights -= 0.01 * gradient
        step += 1
        print(f"[rank{rank}]: step {step} | loss {float(weights.norm()):.4f}", flush=True)  # noqa: T201  its log
        if step % EVERY == 0 and rank == 0:
            save(weights, step)
        time.sleep(0.05)
    print(f"[rank{rank}]: finished", flush=True)  # noqa: T201  its log
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
