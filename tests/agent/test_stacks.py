"""py-spy's answers, good and bad."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent.stacks import Collector, Target, dump, parse, program
from agent.wire import Observation


def frame(name: str, line: int = 1) -> dict[str, Any]:
    return {"name": name, "filename": "/x/train.py", "short_filename": "train.py", "line": line}


def thread(name: str | None, *frames: dict[str, Any], gil: bool = False) -> dict[str, Any]:
    return {"thread_name": name, "frames": list(frames), "active": True, "owns_gil": gil}


def test_the_main_threads_frames_come_first_the_others_beside() -> None:
    stack = parse(
        json.dumps([thread("loader", frame("fetch")), thread("MainThread", frame("step", 7), frame("main"))])
    )
    assert stack.frames == ("step (train.py:7)", "main (train.py:1)")
    assert [one["name"] for one in stack.threads] == ["loader"]


def test_a_process_without_a_main_thread_shows_its_last() -> None:
    assert parse(json.dumps([thread(None, frame("a")), thread(None, frame("b"))])).frames == (
        "b (train.py:1)",
    )


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[1]", '[{"frames": [{}]}]', '[{"frames": 5}]', "[" * 100_000]
)
def test_an_answer_that_cannot_be_read_is_an_error(text: str) -> None:
    stack = parse(text)
    assert stack.frames == ()
    assert stack.error


def test_what_is_reported_is_bounded() -> None:
    many = [thread(f"t{n}", *[frame("x" * 1000)] * 100) for n in range(40)]
    stack = parse(json.dumps(many))
    assert len(json.dumps([stack.frames, stack.threads])) < 512 << 10


def spy(folder: Path, script: str) -> str:
    """A program in py-spy's place."""
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_dump_that_hangs_is_given_up(tmp_path: Path) -> None:
    began = time.monotonic()
    assert (
        dump(spy(tmp_path, "exec sleep 30"), os.getpid(), cap_s=0.3).error == "py-spy gave no answer in 0.3 s"
    )
    assert time.monotonic() - began < 2


def test_a_dump_that_fails_says_why_without_its_own_stack(tmp_path: Path) -> None:
    script = "printf 'Error: Failed to suspend\\n  process\\nStack backtrace:\\n 0: x' >&2; exit 1"
    assert dump(spy(tmp_path, script), os.getpid()).error == "Error: Failed to suspend process"


def test_a_torn_stack_is_read_again(tmp_path: Path) -> None:
    answer = json.dumps([thread("MainThread", frame("step"))])
    script = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; exit 1; }}; echo '{answer}'"
    assert dump(spy(tmp_path, script), os.getpid()).frames == ("step (train.py:1)",)


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "did not start" in (dump(str(tmp_path / "nothing"), os.getpid()).error or "")


def test_py_spy_comes_with_the_agent() -> None:
    assert program() is not None


def test_many_ranks_are_collected_beside_one_another(until: Any) -> None:
    collected: list[list[Observation]] = []
    collector = Collector(collected.append)
    collector.begin([Target(rank, os.getpid()) for rank in range(9)])
    until(lambda: collected, "the stacks")
    assert [one.rank for one in collected[0]] == list(range(9))
    assert all(one.data["error"] is None for one in collected[0])
