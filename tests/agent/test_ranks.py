"""Which process is which rank."""

import pytest

from agent.ranks import Member, PodShape, assign, is_launcher

SUPERVISOR, MAIN = 10, 20
TRAIN = ("python", "-u", "train.py")
TORCHRUN = ("/usr/bin/python3", "/usr/bin/torchrun", "--nproc-per-node=2", "train.py")
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)")


def process(
    pid: int,
    argv: tuple[str, ...],
    ppid: int = MAIN,
    rank: int | None = None,
    local: int | None = None,
    age_s: float = 60.0,
) -> Member:
    return Member(pid, ppid, pid, argv, rank, local, age_s)


def main(*argv: str, age_s: float = 60.0) -> Member:
    return process(MAIN, argv, ppid=SUPERVISOR, age_s=age_s)


def ranks(*members: Member, rank: int = 0, nproc: int = 1, python_only: bool = False) -> dict[int, int]:
    """Rank → pid."""
    everyone = [process(SUPERVISOR, ("python", "supervisor.py"), ppid=1), *members]
    shape = PodShape(rank, nproc, MAIN, SUPERVISOR)
    return {rank: worker.pid for rank, worker in assign(everyone, shape, python_only=python_only).items()}


def test_a_plain_python_program_is_the_pods_rank() -> None:
    assert ranks(main(*TRAIN), process(30, TRAIN), process(31, TRAIN, ppid=30), rank=3) == {3: MAIN}


def test_a_program_below_shells_is_the_rank_not_they() -> None:
    assert ranks(main("bash", "-c", "x"), process(30, ("sh", "run.sh")), process(31, TRAIN, ppid=30)) == {
        0: 31
    }


def test_workers_of_torchrun_are_ranks_and_their_children_are_not() -> None:
    assert ranks(
        main(*TORCHRUN),
        process(30, TRAIN, rank=4, local=0),
        process(31, TRAIN, rank=5, local=1),
        process(40, TRAIN, ppid=30, rank=4, local=0),  # a DataLoader worker
        process(41, ("python", "-c", "resource_tracker"), ppid=31, rank=5, local=1),
        rank=2,
        nproc=2,
    ) == {4: 30, 5: 31}


def test_a_worker_started_through_a_shell_is_the_program_below() -> None:
    shell = process(30, ("bash", "train.sh"), rank=0, local=0)
    assert ranks(main(*TORCHRUN), shell, process(31, TRAIN, ppid=30, rank=0, local=0)) == {0: 31}


def test_a_worker_adopted_by_the_supervisor_is_still_found() -> None:
    assert ranks(process(30, TRAIN, ppid=SUPERVISOR, rank=1, local=1), nproc=2) == {1: 30}


def test_of_two_generations_the_newer_is_the_rank() -> None:
    assert ranks(
        main(*TORCHRUN), process(30, TRAIN, rank=0, local=0), process(50, TRAIN, rank=0, local=0)
    ) == {0: 50}


def test_a_launcher_without_workers_yet_is_no_rank() -> None:
    assert ranks(main(*TORCHRUN), nproc=2) == {}


def test_a_shell_is_no_rank_while_its_launcher_has_no_workers() -> None:
    assert ranks(main("/bin/sh", "-c", "torchrun x"), process(30, TORCHRUN)) == {}


def test_a_child_that_is_not_its_own_program_yet_is_no_rank() -> None:
    assert ranks(process(MAIN, ("python", "supervisor.py"), ppid=SUPERVISOR, age_s=0.0)) == {}


def test_workers_of_spawn_are_ranks_in_the_order_of_their_start() -> None:
    assert ranks(main(*TRAIN), process(31, SPAWNED), process(32, SPAWNED), rank=1, nproc=2) == {2: 31, 3: 32}


def test_workers_of_spawn_that_are_not_all_there_yet_are_not_guessed() -> None:
    assert ranks(main(*TRAIN), process(31, SPAWNED), rank=1, nproc=2) == {}


def test_a_shells_passing_commands_are_no_rank() -> None:
    sleep = process(30, ("sleep", "1"), age_s=0.5)
    assert ranks(main("sh", "-c", "while true; do sleep 1; done"), sleep) == {0: MAIN}


def test_what_runs_after_training_is_no_rank() -> None:
    upload = process(30, ("./upload",), age_s=60)
    assert ranks(main("sh", "-c", "x"), upload, python_only=True) == {}
    assert ranks(main("sh", "-c", "x"), python_only=True) == {}


def test_a_young_shell_is_not_yet_a_rank() -> None:
    assert ranks(main("sh", "-c", "exec python train.py", age_s=0.2)) == {}


def test_a_program_of_another_language_is_a_rank_once_it_has_settled() -> None:
    assert ranks(main("sh", "-c", "x"), process(30, ("./trainer",), age_s=5)) == {0: 30}


def test_the_python_program_beside_others_is_the_rank() -> None:
    assert ranks(main("sh", "-c", "x"), process(30, ("tail", "-f", "x")), process(31, TRAIN)) == {0: 31}


def test_a_zombie_without_command_line_is_no_rank() -> None:
    assert ranks(main("sh", "-c", "x"), process(30, ())) == {0: MAIN}


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("bash -c x", True),
        ("-bash", True),
        ("torchrun train.py", True),
        ("/venv/bin/python3.11 /venv/bin/torchrun train.py", True),
        ("python -m torch.distributed.run train.py", True),
        ("python -u -W ignore -m torch.distributed.launch train.py", True),
        ("python /venv/bin/accelerate launch train.py", True),
        ("deepspeed train.py", True),
        ("timeout 60 python train.py", True),
        ("python train.py", False),
        ("python -m my.trainer --module torch.distributed.run", False),
        ("python -c 'import torch.distributed.run'", False),
        ("./trainer", False),
        ("", False),
    ],
)
def test_launchers(command: str, launcher: bool) -> None:
    assert is_launcher(tuple(command.split())) is launcher
