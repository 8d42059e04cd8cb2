"""A log is read once and whole: through rotation, truncation, holes and restarts of the reader."""

import os
from pathlib import Path

import pytest

from agent.follow import KEPT, MAX_BACKLOG, Follower, Position

LOTS = 1 << 30


class Log:
    """A log, its writer and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "pod.log"
        self.now = 0.0
        self.reader = Follower(self.path)

    def write(self, text: str | bytes, path: Path | None = None) -> None:
        with (path or self.path).open("ab") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def read(self, after_s: float = 0.1) -> list[str]:
        self.now += after_s
        lines = self.reader.poll(LOTS, self.now)
        while self.reader.behind:
            lines += self.reader.poll(LOTS, self.now)
        return [line.text for line in lines]

    def restart(self) -> None:
        """Another life of the agent goes on from what this one noted."""
        noted = [vars(place) for place in self.reader.positions()]
        self.reader.close()
        places = [place for entry in noted if (place := Position.parse(entry))]
        assert len(places) == len(noted)
        self.reader = Follower(self.path, places)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_log_may_come_later(log: Log) -> None:
    assert log.read() == []
    log.write("one\n")
    assert log.read() == ["one"]


@pytest.mark.parametrize(("before", "expected"), [("old\n", ["new"]), ("", ["new"]), (None, ["new"])])
def test_a_reader_from_the_end_reads_what_comes_after(
    log: Log, before: str | None, expected: list[str]
) -> None:
    if before is not None:
        log.write(before)
    log.reader = Follower(log.path, at_end=True)
    log.write("new\n")
    assert log.read() == expected


def test_half_a_line_waits_for_its_end(log: Log) -> None:
    log.write("one\ntw")
    assert log.read() == ["one"]
    assert log.reader.partial() == "tw"
    log.write("o\n")
    assert log.read() == ["two"]


def test_rotation_by_rename_loses_nothing_of_either_file(log: Log) -> None:
    log.write("one\n")
    assert log.read() == ["one"]
    log.write("two\nthr")
    log.path.rename(f"{log.path}.1")
    log.write("four\n")
    assert log.read() == ["two", "four"]
    log.write("ee\n", Path(f"{log.path}.1"))  # the writer still has the old file open
    assert log.read() == ["three"]


def test_a_file_rotated_away_between_two_looks_is_read_too(log: Log) -> None:
    log.write("one\n")
    assert log.read() == ["one"]
    log.path.rename(f"{log.path}.2")
    log.write("two\n")
    log.path.rename(f"{log.path}.1")
    log.write("three\n")
    assert log.read() == ["two", "three"]


def test_a_quiet_rotated_file_is_let_go_with_its_last_half_line(log: Log) -> None:
    log.write("one\nlast words")
    log.read()
    log.path.rename(f"{log.path}.1")
    log.write("two\n")
    assert log.read() == ["two"]
    assert log.read(after_s=60) == ["last words"]
    assert len(log.reader.positions()) == 1


def test_a_deleted_and_new_log_is_read_from_its_start(log: Log) -> None:
    log.write("one\n")
    log.read()
    log.path.unlink()
    log.write("two\n")
    assert log.read() == ["two"]


@pytest.mark.parametrize("after", ["short\n", "as long\n", "very much longer than it was\n"])
def test_a_truncated_log_is_read_from_its_start(log: Log, after: str) -> None:
    log.write("seven..\n")
    log.read()
    os.truncate(log.path, 0)
    log.write(after)
    assert log.read() == [after.strip()]


def test_the_half_line_before_a_truncation_does_not_run_into_the_next(log: Log) -> None:
    log.write("one\nhalf of")
    log.read()
    os.truncate(log.path, 0)
    assert log.read() == ["half of"]
    log.write("new\n")
    assert log.read() == ["new"]


def test_the_hole_that_a_truncation_leaves_before_a_writer_is_passed_over(log: Log) -> None:
    with log.path.open("wb", buffering=0) as writer:  # not O_APPEND: it goes on at its old offset
        writer.write(b"x" * 3_000_000 + b"\n")
        assert len(log.read()) == 1
        os.truncate(log.path, 0)
        assert log.read() == []
        writer.write(b"after the hole\n")
        assert log.read() == ["after the hole"]
    assert log.reader.take_skipped() == 0


def test_the_end_can_be_looked_at_before_its_turn(log: Log) -> None:
    log.write(b"x" * 99 + b"\n")
    assert len(log.read()) == 1
    assert log.reader.unread_end() == []
    log.write((b"y" * 99 + b"\n") * 2000 + b"last words")
    log.reader.poll(1, 1.0)
    assert log.reader.unread_end()[-2:] == ["y" * 99, "last words"]
    assert len(log.read()) == 2000


def test_a_reader_too_far_behind_leaves_out_the_middle_and_says_so(log: Log) -> None:
    log.write("first\n")
    assert log.read() == ["first"]
    size = MAX_BACKLOG + 5_000_000
    log.write(b"y" * 99 + b"\n")
    log.write((b"z" * 99 + b"\n") * (size // 100) + b"last\n")
    lines = log.read()
    assert lines[-1] == "last"
    assert log.reader.take_skipped() == (size // 100) * 100 + 105 - KEPT
    assert log.reader.take_skipped() == 0


@pytest.mark.parametrize("half", ["", "hal"])
def test_a_new_life_goes_on_where_the_last_one_stood(log: Log, half: str) -> None:
    log.write(f"one\n{half}")
    assert log.read() == ["one"]
    log.restart()
    log.write("f\ntwo\n")
    assert log.read() == [f"{half}f", "two"]


def test_a_new_life_finds_what_was_rotated_meanwhile(log: Log) -> None:
    log.write("one\n")
    log.read()
    log.write("two\n")
    log.path.rename(f"{log.path}.2")
    log.write("three\n")
    log.path.rename(f"{log.path}.1")
    log.write("four\n")
    log.restart()
    assert log.read() == ["two", "three", "four"]


def test_a_new_life_finds_a_log_that_was_rotated_away_and_not_made_anew(log: Log) -> None:
    log.write("one\n")
    log.read()
    log.write("two\n")
    log.path.rename(f"{log.path}.1")
    log.restart()
    assert log.read() == ["two"]
    log.write("three\n")
    assert log.read() == ["three"]


def test_files_rotated_before_the_first_look_are_read_if_they_are_of_this_run(log: Log) -> None:
    log.write("an earlier run\n", Path(f"{log.path}.9"))
    os.utime(f"{log.path}.9", (1e9, 1e9))
    log.write("one\n", Path(f"{log.path}.1"))
    log.write("two\n")
    log.reader = Follower(log.path, since=1e9 + 5)
    assert log.read() == ["one", "two"]


def test_many_rotated_files_are_all_read_and_few_kept_open(log: Log) -> None:
    log.reader = Follower(log.path, since=0)
    for n in range(20):
        log.write(f"{n}\n", Path(f"{log.path}.{n}"))
        os.utime(f"{log.path}.{n}", (1e9 + n, 1e9 + n))
    log.write("20\n")
    assert log.read() == [str(n) for n in range(21)]
    assert len(log.reader.positions()) <= 4


def test_packed_and_other_files_beside_the_log_are_left_alone(log: Log) -> None:
    log.reader = Follower(log.path, since=0)
    log.write("packed\n", Path(f"{log.path}.1.gz"))
    log.write("another\n", log.path.with_name("pod.logger"))
    log.write("one\n")
    assert log.read() == ["one"]


def test_a_new_life_sees_that_the_log_was_written_anew(log: Log) -> None:
    log.write("the old log\n")
    log.read()
    os.truncate(log.path, 0)
    log.write("the new log, longer\n")
    log.restart()
    assert log.read() == ["the new log, longer"]


def test_line_numbers_go_on_in_a_new_life(log: Log) -> None:
    log.write("one\ntwo\n")
    log.read()
    log.restart()
    log.write("three\n")
    assert [line.number for line in log.reader.poll(LOTS, 1.0)] == [3]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_what_is_no_file_is_not_read(log: Log, make: object) -> None:
    make(log.path)  # type: ignore[operator]
    assert log.read() == []


@pytest.mark.parametrize(
    "entry",
    [{}, {"device": "x"}, {"device": 1, "inode": 2, "offset": 0, "read": None, "number": 1, "print": ""}],
)
def test_a_damaged_note_is_no_position(entry: dict[str, object]) -> None:
    assert Position.parse(entry) is None
