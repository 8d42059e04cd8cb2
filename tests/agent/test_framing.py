"""Whose line it is, by the prefixes of launchers and libraries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.framing import RankMap, frame
from agent.ranks import Worker

# the second pod of two, four ranks each; rank 6's DataLoader child is pid 707
SECOND_POD = RankMap(
    pod_rank=1,
    nproc=4,
    workers={rank: Worker(rank, rank - 4, 700 + rank - 4, 1) for rank in (4, 5, 6, 7)},
    pids={700: 4, 701: 5, 702: 6, 703: 7, 707: 6},
)


@pytest.mark.parametrize(
    ("line", "rank", "body"),
    [
        pytest.param("[rank6]: Traceback", 6, "Traceback", id="global"),
        pytest.param("[rank6]:   File x", 6, "  File x", id="indentation-stays"),
        pytest.param("[default2]:step 3", 6, "step 3", id="torchelastic-tee"),
        pytest.param("[2]:step 3", 6, "step 3", id="local-number"),
        pytest.param("[6]:step 3", 6, "step 3", id="global-number"),
        pytest.param("[1,6]<stderr>:oops", 6, "oops", id="mpirun"),
        pytest.param("(RayWorkerWrapper pid=707) oops", 6, "oops", id="ray-pid"),
        pytest.param("(RayWorkerWrapper rank=6, pid=1, ip=192.0.2.1) oops", 6, "oops", id="ray-rank"),
        pytest.param("host-a:702:911 [2] NCCL WARN x", 6, "host-a:702:911 [2] NCCL WARN x", id="nccl-pid"),
        pytest.param(
            "[E ProcessGroupNCCL.cpp:414] [Rank 6] Watchdog caught",
            6,
            "[E ProcessGroupNCCL.cpp:414] [Rank 6] Watchdog caught",
            id="old-c10d",
        ),
        pytest.param("[rank6]:[E1 PG.cpp:6] [Rank 5] x", 6, "[E1 PG.cpp:6] [Rank 5] x", id="c10d-prefixed"),
        pytest.param("[rank1]: of another pod", None, "of another pod", id="another-pods"),
        pytest.param("[9]:whatever", None, "whatever", id="no-such-rank"),
        pytest.param("step 3", None, "step 3", id="no-prefix"),
        pytest.param("[2] epoch", None, "[2] epoch", id="a-list-number-is-no-prefix"),
    ],
)
def test_a_lines_rank(line: str, rank: int | None, body: str) -> None:
    framed = frame(line)
    assert (SECOND_POD.resolve(framed), framed.body) == (rank, body)


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("/tmp/torchelastic/run_x/attempt_0/2/stderr.log", 6),
        ("/logs/rank5.log", 5),
        ("/logs/rank_0007.txt", 7),
        ("/logs/rank1.log", None),
        ("/logs/frank/pod.log", None),
    ],
)
def test_a_files_rank(path: str, rank: int | None) -> None:
    assert SECOND_POD.of_path(path) == rank


@pytest.mark.parametrize(
    ("known", "rank"),
    [
        pytest.param(RankMap(pod_rank=3, nproc=1), 3, id="one-a-pod"),
        pytest.param(RankMap(3, 1, {5: Worker(5, 0, 9, 1)}), 5, id="as-rendezvous-ordered-it"),
        pytest.param(RankMap(pod_rank=3, nproc=2), None, id="two-a-pod"),
        pytest.param(RankMap(3, 2, {6: Worker(6, 0, 9, 1)}), None, id="one-of-two-known"),
    ],
)
def test_the_only_rank_of_a_pod(known: RankMap, rank: int | None) -> None:
    assert known.only() == rank


@given(st.text(max_size=120))
def test_any_line_has_a_body(line: str) -> None:
    assert line.endswith(frame(line).body)
