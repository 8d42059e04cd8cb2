"""Real torchrun jobs under a real agent."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

TRAIN = """
import os, sys, time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

dist.init_process_group("gloo")
rank = dist.get_rank()
loader = DataLoader(list(range(10 ** 6)), batch_size=4, num_workers=1)
for step, batch in enumerate(loader):
    dist.all_reduce(torch.ones(4))
    if rank == 0:
        print(f"step {step} loss {float(batch.sum()):.1f}", flush=True)
    time.sleep(0.05)
"""
LIGHT = """
import os, time
rank = int(os.environ["RANK"])
for step in range(10 ** 6):
    print(f"step {step}", flush=True)
    time.sleep(0.05)
    if rank == 1 and step == 20:
        raise ValueError("bad batch on rank 1")
"""


def torchrun(pod: Any, script: str, *flags: str, nproc: int = 2) -> int:
    path: Path = pod.folder / "train.py"
    path.write_text(script)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={nproc}", *flags, str(path)]
    env = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
        "GLOO_SOCKET_IFNAME": "lo",
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    main: int = pod.run(*command, nproc=nproc, env=env)
    return main


def pid_of(master: Any, rank: int) -> int:
    started = master.wait_for("process_started", lambda one: one["rank"] == rank, within_s=40)
    return int(started["data"]["pid"])


def test_a_ddp_job_is_seen_hung_and_killed_rank_by_rank(pod: Any, master: Any) -> None:
    torchrun(pod, TRAIN, "--standalone")
    pod.watch()
    first, second = pid_of(master, 0), pid_of(master, 1)
    master.wait_for("progress", lambda one: one["data"]["step"] > 3, within_s=60)

    def with_their_data_workers(beat: dict[str, Any]) -> bool:
        ranks = beat["data"]["ranks"]
        return len(ranks) == 2 and all(state["children"] == 1 for state in ranks.values())

    beat = master.wait_for("heartbeat", with_their_data_workers)["data"]["ranks"]
    assert {rank: state["pid"] for rank, state in beat.items()} == {"0": first, "1": second}

    os.kill(second, signal.SIGSTOP)
    master.wait_for("heartbeat", lambda one: one["data"]["ranks"].get("1", {}).get("state") == "T")
    master.want = {"stacks": True}
    waiting = master.wait_for("stacks", lambda one: one["rank"] == 0)["data"]
    master.want = {}
    assert any("all_reduce" in frame for frame in waiting["frames"])
    assert any("_worker_loop" in frame for child in waiting["children"] for frame in child["frames"])

    os.kill(second, signal.SIGKILL)
    killed = master.wait_for("process_exited", lambda one: one["rank"] == 1)
    assert (killed["data"]["pid"], killed["data"]["signal"]) == (second, 9)
    victim = master.wait_for("process_exited", lambda one: one["rank"] == 0)
    assert victim["at"] > killed["at"]
    assert victim["data"]["pid"] == first


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(("--standalone", "--redirects=3", "--log-dir={folder}/logs"), id="redirects"),
        pytest.param(("--standalone", "--tee=3", "--log-dir={folder}/logs"), id="tee"),
    ],
)
def test_a_ranks_lines_are_its_own(pod: Any, master: Any, flags: tuple[str, ...]) -> None:
    torchrun(pod, LIGHT, *(flag.format(folder=pod.folder) for flag in flags))
    pod.watch()
    culprit = master.wait_for("process_exited", lambda one: one["rank"] == 1, within_s=40)
    assert culprit["data"]["exit_code"] == 1
    assert any(line.endswith("ValueError: bad batch on rank 1") for line in culprit["data"]["last_lines"])
    match = master.wait_for("log_match", lambda one: "bad batch" in one["data"]["line"])
    assert match["rank"] == 1
    assert {one["rank"] for one in master.observations("progress")} == {0, 1}
