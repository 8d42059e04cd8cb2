"""Reports on disk: first in, first out, over lives, kills, full disks and the size limit."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.outbox import Outbox
from agent.spool import HEARTBEAT, ORDINARY, URGENT, Spool
from agent.wire import Kind, Observation


def report(n: int, size: int = 0) -> bytes:
    return b'{"n":%d,"x":"%s"}' % (n, b"x" * size)


def drained(spool: Spool) -> list[bytes]:
    found = []
    while (body := spool.peek()) is not None:
        found.append(body)
        spool.done()
    return found


actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 300)),
        st.tuples(st.just("take"), st.integers(1, 8)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=60,
)


@given(actions)
@settings(max_examples=60, deadline=None)
def test_it_is_a_queue_that_outlives_its_reader(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spool, model, number = Spool(Path(folder), segment=512), [], 0
        for action, value in steps:
            if action == "append":
                number += 1
                model.append(report(number, value))
                spool.append(ORDINARY, model[-1])
            elif action == "take":
                for _ in range(value):
                    assert spool.peek() == (model[0] if model else None)
                    spool.done()
                    del model[:1]
            else:
                spool.close()
                spool = Spool(Path(folder), segment=512)
        assert drained(spool) == model
        spool.close()


def test_nothing_is_left_on_disk_of_what_was_taken(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment=100)
    for n in range(50):
        spool.append(ORDINARY, report(n))
    drained(spool)
    assert spool.size == 0
    assert list(tmp_path.glob("*.reports")) == []


def test_beyond_the_limit_heartbeats_go_first_and_are_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=10_000, segment=1_000)
    for n in range(200):
        spool.append(URGENT if n % 10 == 0 else HEARTBEAT, report(n, 80))
    assert spool.size <= 10_000
    kept = drained(spool)
    assert [body for body in kept if b"}" in body and int(body[5:].split(b",")[0]) % 10 == 0] == [
        report(n, 80) for n in range(0, 200, 10)
    ]
    assert spool.take_dropped() == {"heartbeats": 200 - len(kept)}


def test_beyond_the_limit_the_oldest_go_when_all_are_urgent(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=10_000, segment=1_000)
    for n in range(200):
        spool.append(URGENT, report(n, 80))
    kept = drained(spool)
    assert kept == [report(n, 80) for n in range(200 - len(kept), 200)]
    assert spool.take_dropped() == {"reports": 200 - len(kept)}


def test_what_is_under_way_when_room_is_made_is_not_acknowledged_for_another(tmp_path: Path) -> None:
    spool = Spool(tmp_path, limit=2_000, segment=500)
    for n in range(10):
        spool.append(URGENT, report(n, 80))
    assert spool.peek() is not None
    for n in range(10, 30):
        spool.append(URGENT, report(n, 80))
    first = spool.peek()
    spool.done()
    assert first is not None
    assert drained(spool)[-1] == report(29, 80)


@pytest.mark.parametrize("torn", [b'U {"n":3', b"U", b"\0\0\0\0", b"garbage\n", b'U {"n":3,\n'])
def test_a_torn_line_is_passed_over(tmp_path: Path, torn: bytes) -> None:
    spool = Spool(tmp_path)
    spool.append(URGENT, report(1))
    spool.close()
    (segment,) = tmp_path.glob("*.reports")
    with segment.open("ab") as file:
        file.write(torn)
    spool = Spool(tmp_path)
    spool.append(URGENT, report(2))
    assert drained(spool) == [report(1), report(2)]


def test_a_segment_that_others_took_away_does_not_stop_the_rest(tmp_path: Path) -> None:
    spool = Spool(tmp_path, segment=30)
    for n in range(3):
        spool.append(URGENT, report(n))
    min(tmp_path.glob("*.reports")).unlink()
    assert drained(spool) == [report(1), report(2)]


def test_reports_are_the_owners_alone_to_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(URGENT, report(1))
    (segment,) = (tmp_path / "spool").glob("*.reports")
    assert segment.stat().st_mode & 0o077 == 0
    assert (tmp_path / "spool").stat().st_mode & 0o077 == 0


def seen(kind: Kind = Kind.LOG_MATCH, **data: object) -> Observation:
    return Observation(kind, "2026-11-29T03:00:00.000Z", 0, dict(data))


def sequence(outbox: Outbox) -> list[int]:
    found = []
    while (waiting := outbox.peek()) is not None:
        found.append(waiting.seq)
        outbox.done(waiting)
    return found


def test_an_urgent_report_takes_what_is_older_to_disk_with_it(tmp_path: Path) -> None:
    outbox = Outbox(Spool(tmp_path))
    for kind in (Kind.HEARTBEAT, Kind.PROGRESS, Kind.LOG_MATCH, Kind.HEARTBEAT):
        outbox.put([seen(kind)], to_disk=False)
    (segment,) = tmp_path.glob("*.reports")
    assert segment.read_bytes().count(b"\n") == 3
    assert sequence(outbox) == [1, 2, 3, 4]


def test_a_report_that_went_to_disk_while_under_way_is_not_sent_again(tmp_path: Path) -> None:
    outbox = Outbox(Spool(tmp_path))
    outbox.put([seen(Kind.HEARTBEAT)], to_disk=False)
    under_way = outbox.peek()
    assert under_way is not None
    outbox.put([seen()], to_disk=False)
    outbox.done(under_way)
    assert sequence(outbox) == [2]


def test_a_batch_too_big_for_a_report_becomes_several_in_order(tmp_path: Path) -> None:
    outbox = Outbox(Spool(tmp_path))
    outbox.put([seen(line="x" * 8000, n=n) for n in range(400)], to_disk=False)
    bodies: list[bytes] = []
    while (waiting := outbox.peek()) is not None:
        bodies.append(waiting.body)
        outbox.done(waiting)
    assert len(bodies) > 1
    assert max(map(len, bodies)) < 1 << 20
    joined = b"".join(bodies)
    at = [joined.index(b'"n":%d}' % n) for n in range(400)]
    assert at == sorted(at)


def test_foreign_text_in_the_spool_is_no_report(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(URGENT, b'{"not":"ours"}')
    outbox = Outbox(spool)
    outbox.put([seen()], to_disk=True)
    assert sequence(outbox) == [1]


class FullDisk(Spool):
    """A disk that takes nothing until it is mended."""

    full = True

    def append(self, kind: bytes, report: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().append(kind, report)


def test_a_full_disk_loses_nothing_that_memory_can_hold(tmp_path: Path) -> None:
    spool = FullDisk(tmp_path)
    outbox = Outbox(spool)
    for _ in range(100):
        outbox.put([seen()], to_disk=True)
    spool.full = False
    outbox.put([seen()], to_disk=True)
    assert sequence(outbox) == list(range(1, 102))


def test_a_full_disk_and_full_memory_drop_heartbeats_first(tmp_path: Path) -> None:
    outbox = Outbox(FullDisk(tmp_path))
    for n in range(80):
        kind = Kind.HEARTBEAT if n % 2 else Kind.LOG_MATCH
        outbox.put([seen(kind, line="x" * 100_000)], to_disk=True)
    kept = sequence(outbox)
    dropped = outbox.take_dropped()["reports"]
    assert len(kept) + dropped == 80
    assert [seq for seq in kept if seq % 2] == list(range(1, 80, 2))
