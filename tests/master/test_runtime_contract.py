"""What every runtime must do. A new runtime is one more row in `HOSTS`; the cases are below."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from master.runtimes.base import AgentAccess, Phase, PodRef, PodSpec, Runtime, RuntimeFailure
from master.runtimes.local import LocalRuntime
from tests.master.virtual import VirtualRuntime

ANSWER_S = 20
NOW = timedelta(0)


@dataclass
class Host:
    """A runtime, and how a test makes things happen in its pods."""

    runtime: Runtime
    again: Callable[[], Runtime]  # the same runtime as a new master finds it
    end: Callable[[PodRef, int], None]  # the pod's own process ends with that code
    started: list[PodRef] = field(default_factory=list)

    def start(self, index: int = 0, run: int = 0) -> PodRef:
        ref = ref_of(index, run)
        script = (
            f"echo up; while [ ! -e exit-{run}-{index} ]; do sleep 0.02; done; exit $(cat exit-{run}-{index})"
        )
        env = {"PATH": os.environ["PATH"]}
        self.runtime.start_pod(PodSpec(ref, f"job-{index}", ("/bin/sh", "-c", script), env))
        self.started.append(ref)
        return ref


def ref_of(index: int = 0, run: int = 0) -> PodRef:
    return PodRef(f"pod_{run}{index}", "job_x", run, index, "node-1")


def local(folder: Path) -> Host:
    def end(ref: PodRef, code: int) -> None:
        draft = folder / "jobs/job_x/work" / "draft"
        draft.write_text(str(code))
        draft.replace(draft.with_name(f"exit-{ref.run}-{ref.index}"))

    return Host(LocalRuntime(folder, 2), lambda: LocalRuntime(folder, 2), end)


def virtual(_folder: Path) -> Host:
    runtime = VirtualRuntime(2)
    return Host(runtime, lambda: runtime, lambda ref, code: runtime.exit(ref.pod_id, code=code))


HOSTS = {"local": local, "virtual": virtual}


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    host = HOSTS[request.param](tmp_path)
    yield host
    for ref in host.started:
        host.runtime.delete_pod(ref)
    host.runtime.shutdown()
    host.runtime.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + ANSWER_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


ACCESS = AgentAccess("http://127.0.0.1:9", lambda: "fct_none")


def test_unknown_pod_is_pending(host: Host) -> None:
    assert host.runtime.poll(ref_of()).phase is Phase.PENDING


def test_started_pod_runs(host: Host) -> None:
    ref = host.start()
    state = host.runtime.poll(ref)
    assert (state.phase, state.clean) == (Phase.RUNNING, False)


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_is_told(host: Host, code: int) -> None:
    ref = host.start()
    host.end(ref, code)
    until(lambda: host.runtime.poll(ref).clean)
    state = host.runtime.poll(ref)
    assert (state.phase, state.exit_code) == (Phase.EXITED, code)


def test_pods_of_two_runs_are_two_pods(host: Host) -> None:
    first, second = host.start(run=0), host.start(run=1)
    host.end(first, 1)
    until(lambda: host.runtime.poll(first).phase is Phase.EXITED)
    assert host.runtime.poll(second).phase is Phase.RUNNING


def test_starting_again_changes_nothing(host: Host) -> None:
    ref = host.start()
    host.start()
    host.end(ref, 5)
    until(lambda: host.runtime.poll(ref).clean)
    host.start()
    assert host.runtime.poll(ref).exit_code == 5


def test_stop_ends_a_pod_and_may_be_asked_again(host: Host) -> None:
    ref = host.start()
    host.runtime.stop_pod(ref, NOW)
    host.runtime.stop_pod(ref, NOW)
    until(lambda: host.runtime.poll(ref).clean)
    host.runtime.stop_pod(ref, NOW)
    assert host.runtime.poll(ref).phase is Phase.EXITED


def test_stopping_a_pod_that_was_never_started_keeps_it_from_starting(host: Host) -> None:
    host.runtime.stop_pod(ref_of(), NOW)
    ref = host.start()
    state = host.runtime.poll(ref)
    assert (state.phase, state.reason, state.clean) == (Phase.GONE, "Stopped", True)


def test_stopping_keeps_the_exit_code_of_a_pod_that_had_ended(host: Host) -> None:
    ref = host.start()
    host.end(ref, 7)
    until(lambda: host.runtime.poll(ref).phase is Phase.EXITED)
    host.runtime.stop_pod(ref, NOW)
    until(lambda: host.runtime.poll(ref).clean)
    assert host.runtime.poll(ref).exit_code == 7


def test_deleted_pod_is_gone_and_clean(host: Host) -> None:
    ref = host.start()
    host.runtime.delete_pod(ref)
    until(lambda: host.runtime.poll(ref).clean)
    state = host.runtime.poll(ref)
    assert (state.phase, state.reason) == (Phase.GONE, "Deleted")


def test_a_new_master_sees_the_same(host: Host) -> None:
    running, ended = host.start(0), host.start(1)
    host.end(ended, 2)
    until(lambda: host.runtime.poll(ended).clean)
    again = host.again()
    assert again.poll(running).phase is Phase.RUNNING
    assert again.poll(ended).exit_code == 2


def test_whoever_watches_is_woken(host: Host) -> None:
    woken: list[int] = []
    host.runtime.watch(lambda: woken.append(1))
    ref = host.start()
    host.runtime.poll(ref)
    host.end(ref, 0)
    until(lambda: woken)


def test_agent_lives_beside_its_pod(host: Host) -> None:
    ref = host.start()
    assert not host.runtime.poll(ref).agent_alive
    host.runtime.ensure_agent(ref, ACCESS)
    assert host.runtime.poll(ref).agent_alive
    until(lambda: host.runtime.stop_agent(ref) or not host.runtime.poll(ref).agent_alive)
    assert host.runtime.poll(ref).phase is Phase.RUNNING


def test_a_living_agent_gets_no_second_token(host: Host) -> None:
    ref = host.start()
    access = AgentAccess("http://127.0.0.1:9", asked := iter(["fct_1", "fct_2"]).__next__)
    for is_new in (True, False, False):
        assert host.runtime.ensure_agent(ref, access) is is_new
        assert host.runtime.ensure_node_agent("node-1", access) is is_new
    with pytest.raises(StopIteration):
        asked()


def test_an_agent_that_knows_the_master_by_another_address_is_replaced(host: Host) -> None:
    """Whoever starts the master anew elsewhere; by a master that did not start the agent itself."""
    ref = host.start()
    moved = replace(ACCESS, server="http://127.0.0.1:10")
    for runtime, access, is_new in (
        (host.runtime, ACCESS, True),
        (host.again(), ACCESS, False),
        (host.again(), moved, True),
        (host.again(), moved, False),
    ):
        assert runtime.ensure_agent(ref, access) is is_new
        assert runtime.ensure_node_agent("node-1", access) is is_new
        assert runtime.poll(ref).agent_alive


def test_what_lies_beside_a_pod_is_for_our_own_eyes(tmp_path: Path) -> None:
    """Its environment may hold the user's secrets."""
    host = local(tmp_path)
    ref = host.start()
    host.runtime.ensure_agent(ref, ACCESS)
    (folder,) = tmp_path.glob("jobs/*/run-0/pod-0")
    modes = {name: (folder / name).stat().st_mode & 0o777 for name in ("spec.json", "begun", "agent.json")}
    assert (folder.stat().st_mode & 0o777, set(modes.values())) == (0o700, {0o600}), modes
    host.runtime.delete_pod(ref)
    host.runtime.shutdown()


def test_log_is_read_in_pieces(host: Host) -> None:
    ref = host.start()
    if isinstance(host.runtime, VirtualRuntime):
        host.runtime.log = "up\n"
    until(lambda: host.runtime.logs(ref, 0, 100).text == "up\n")
    first = host.runtime.logs(ref, 0, 1)
    rest = host.runtime.logs(ref, first.next_offset, 100)
    assert (first.text, rest.text, rest.next_offset) == ("u", "p\n", 3)
    assert host.runtime.logs(ref, None, 2).text == "p\n"
    assert host.runtime.logs(ref, 10_000, 5).text == ""


def test_shutdown_leaves_nothing(host: Host) -> None:
    ref = host.start()
    host.runtime.ensure_agent(ref, ACCESS)
    host.runtime.shutdown()
    state = host.runtime.poll(ref)
    assert (state.phase, state.clean, state.agent_alive) == (Phase.EXITED, True, False)


def test_purge_forgets_a_job(host: Host, tmp_path: Path) -> None:
    ref = host.start()
    host.runtime.stop_pod(ref, NOW)
    until(lambda: host.runtime.poll(ref).clean)
    host.runtime.purge("job_x")
    assert not (tmp_path / "jobs" / "job_x").exists()
    host.runtime.purge("job_x")


def test_rendezvous_is_another_each_time(host: Host) -> None:
    assert len({host.runtime.rendezvous() for _ in range(5)}) > 1


def test_a_pod_of_another_place_is_neither_seen_nor_touched(host: Host) -> None:
    host.start()
    elsewhere = replace(ref_of(), place="another")
    for ask in (
        lambda: host.runtime.poll(elsewhere),
        lambda: host.runtime.stop_pod(elsewhere, NOW),
        lambda: host.runtime.delete_pod(elsewhere),
        lambda: host.runtime.logs(elsewhere, None, 10),
        lambda: host.runtime.start_pod(PodSpec(elsewhere, "x", ("true",), {})),
    ):
        with pytest.raises(RuntimeFailure, match="another data dir"):
            ask()
    assert host.runtime.poll(replace(ref_of(), place=host.runtime.place)).phase is not Phase.EXITED


def test_a_place_is_the_same_for_every_master_of_a_data_dir_and_no_other(tmp_path: Path) -> None:
    here, again = LocalRuntime(tmp_path / "a", 1).place, LocalRuntime(tmp_path / "a", 1).place
    assert here == again
    assert LocalRuntime(tmp_path / "b", 1).place != here
