"""The main job as a newcomer types it: one command, a real PyTorch job, five faults, every message told."""

import json
import signal
import subprocess
import sys

import psutil
import pytest

from tests.conftest import wait_for

FAULTS = {
    "rank_killed": "process_exit",
    "rank_stopped": "heartbeat_lost",
    "rank_spins": "hang",
    "gpu_lost": "error_log",
    "pod_deleted": "pod_lost",
}
STEPS_IN_ORDER = ("detected_s", "decided_s", "first_message_s", "training_again_s")
WITHIN_S = 420  # on a machine busy with other tests


@pytest.mark.e2e
@pytest.mark.timeout(WITHIN_S + 60)
def test_the_demo_keeps_every_promise() -> None:
    command = [sys.executable, "-m", "master.cli", "demo", "--seed", "7"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-2000:]
    balance = json.loads(ended.stdout.strip().splitlines()[-1])
    assert {one["injected"]: one["fault_class"] for one in balance["faults"]} == FAULTS
    for fault in balance["faults"]:
        moments = [fault[name] for name in STEPS_IN_ORDER]
        assert moments == sorted(moments)
        assert moments[0] >= 0
    # four channels: begun, finished, and each fault with its recovery; a text of the node, calls of two hangs
    assert balance["promised"] == balance["delivered"] == 4 * (2 + 2 * len(FAULTS)) + 2 + 2 * 2
    assert balance["trained"] is True
    assert "Traceback" not in ended.stderr


@pytest.mark.e2e
def test_whoever_ends_it_ends_all_it_started() -> None:
    command = [sys.executable, "-m", "master.cli", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        started = ""
        while "token: " not in started:
            started = demo.stdout.readline()
        folder = started.split("token: ")[1].rpartition("/")[0]
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGTERM)
        said, _ = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "interrupted" in said
    wait_for(lambda: not any(one.is_running() for one in children))
    assert not [one for one in psutil.process_iter(["cmdline"]) if folder in str(one.info["cmdline"])]
