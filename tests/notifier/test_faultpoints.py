"""Fault points: named, counted, and nothing when unset."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from notifier import faultpoints
from notifier.faultpoints import FaultPoint, InjectedError


def test_unset_is_nothing() -> None:
    for name in faultpoints.POINTS:
        faultpoints.hit(name)


def test_acts_at_the_nth_time_and_only_then() -> None:
    point = FaultPoint("claimed:2:raise")
    point.hit("claimed")
    point.hit("intent_written")
    with pytest.raises(InjectedError):
        point.hit("claimed")
    point.hit("claimed")


def test_waits_until_its_file_is_gone(tmp_path: Path) -> None:
    gate, point = tmp_path / "gate", FaultPoint(f"claimed:1:wait:{tmp_path / 'gate'}")
    waiting = threading.Thread(target=point.hit, args=("claimed",))
    waiting.start()
    while not gate.exists():
        time.sleep(0.001)
    assert waiting.is_alive()
    gate.unlink()
    waiting.join(10)
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    "form",
    ["", "claimed", "nowhere:1:kill", "claimed:0:kill", "claimed:x:kill", "claimed:1:hop", "claimed:1:wait"],
)
def test_a_wrong_form_says_what_is_right(form: str) -> None:
    with pytest.raises(ValueError, match="NAME:NTH:ACTION"):
        FaultPoint(form)


def test_kill_is_sudden() -> None:
    code = "from notifier import faultpoints; faultpoints.hit('claimed'); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"FAULTCAST_FAULTPOINT": "claimed:1:kill", "PYTHONPATH": "."},
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (-9, b"")
