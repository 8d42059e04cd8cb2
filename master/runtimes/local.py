"""The local runtime: virtual nodes of this machine; a pod is a supervisor process and its agent.

All that is known of a pod lies in `<data dir>/jobs/<job>/run-<n>/pod-<i>/`, so that a new master finds it.
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from master.cli.errors import REFUSED, CommandError
from master.runtimes.agents import Agents
from master.runtimes.base import (
    ELSEWHERE,
    AgentAccess,
    LogPiece,
    Phase,
    PodRef,
    PodSpec,
    PodState,
    RuntimeFailure,
)
from master.runtimes.podfiles import PodFiles
from master.runtimes.supervisor import kill_all
from master.runtimes.watch import ExitWatch
from notifier.settings import Settings

SUPERVISOR = Path(__file__).with_name("supervisor.py")
POD_MARK = "FAULTCAST_POD_ID"
PLACE = "place"
START_WITHIN_S = 30
KILL_WITHIN_S = 10
# A pod sees nothing of the master's own environment but this: above all none of its secrets.
INHERITED = (
    "CUDA_VISIBLE_DEVICES", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LOGNAME", "NVIDIA_VISIBLE_DEVICES",
    "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
)  # fmt: skip


def check_runtime(settings: Settings) -> None:
    """Refuses a runtime that is none yet, before anything is started."""
    if settings.runtime != "local":
        raise CommandError(f"FAULTCAST_RUNTIME: {settings.runtime} is not supported yet; set local", REFUSED)


class LocalRuntime:
    """Pods as processes of this machine, on `count` virtual nodes."""

    name: ClassVar[str] = "local"

    def __init__(self, data_dir: Path, count: int, *, python: str = sys.executable) -> None:
        self._data_dir = data_dir.resolve()
        self._count = count
        self._python = python
        self._agents = Agents(python)
        self._watch: ExitWatch | None = None
        self._clean: set[str] = set()  # pods of which nothing is left: that does not change again

    def nodes(self) -> tuple[str, ...]:
        return tuple(f"node-{n}" for n in range(1, self._count + 1))

    @property
    def place(self) -> str:
        """The data dir, by a name that it keeps: all that is known of a pod lies there."""
        path = self._data_dir / PLACE
        if not path.exists():
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_name(f"{PLACE}.{os.getpid()}")
            draft.write_text(secrets.token_hex(8), encoding="ascii")
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # the first one names it
            draft.unlink()
        return path.read_text(encoding="ascii")

    def rendezvous(self) -> tuple[str, int]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return "127.0.0.1", int(probe.getsockname()[1])

    def environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        places = [*os.environ.get("PATH", os.defpath).split(os.pathsep), str(Path(self._python).parent)]
        # All pods are on this machine: gloo need not find out by which address the host's name is reached.
        return {**kept, "PATH": os.pathsep.join(places), "GLOO_SOCKET_IFNAME": "lo"}

    def start_pod(self, spec: PodSpec) -> Mapping[str, Any]:
        files = self._files(spec.ref)
        if not files.begun():
            work = files.folder.parents[1] / "work"
            work.mkdir(parents=True, exist_ok=True)
            files.write_spec(spec, {**spec.env, POD_MARK: spec.ref.pod_id}, cwd=work)
            command = [self._python, "-I", "-S", str(SUPERVISOR), str(files.folder)]
            try:
                subprocess.run(command, check=True, timeout=START_WITHIN_S, stdin=subprocess.DEVNULL)
            except (OSError, subprocess.SubprocessError) as error:
                raise RuntimeFailure(f"the supervisor of {spec.name} did not start: {error}") from error
        self._watch_over(files)
        return {"folder": str(files.folder)}

    def stop_pod(self, ref: PodRef, grace: timedelta) -> None:
        files = self._files(ref)
        files.ask_to_stop(grace.total_seconds())
        if files.supervisor() is None:
            self._end_leftovers(ref)

    def delete_pod(self, ref: PodRef) -> None:
        files = self._files(ref)
        files.mark_deleted()
        files.kill_supervisor()
        self._end_leftovers(ref)

    def poll(self, ref: PodRef) -> PodState:
        files = self._files(ref)
        self._watch_over(files)
        state = files.read()
        is_over = state.phase in (Phase.EXITED, Phase.GONE)
        return PodState(
            phase=state.phase,
            exit_code=state.exit_code,
            signal=state.signal,
            reason=state.reason,
            ended_at=state.ended_at,
            clean=is_over and self._is_clean(ref, files),
            agent_alive=self._agents.alive(files.folder),
        )

    def ensure_agent(self, ref: PodRef, access: AgentAccess) -> bool:
        folder = self._files(ref).folder
        return self._agents.ensure(folder, access, {"FAULTCAST_POD_DIR": str(folder)})

    def ensure_node_agent(self, node: str, access: AgentAccess) -> bool:
        folder = self._data_dir / "nodes" / node
        folder.mkdir(parents=True, exist_ok=True)
        kernel_log = folder / "kernel.log"
        kernel_log.touch()
        env = {
            "FAULTCAST_NODE": node,
            "FAULTCAST_KERNEL_LOG": str(kernel_log),
            "FAULTCAST_AGENT_DIR": str(folder / "agent"),
            "FAULTCAST_VIRTUAL_NODE": str(int(self._count > 1)),  # GPUs, links and disks are no one node's
        }
        return self._agents.ensure(folder, access, env, "--node")

    def stop_agent(self, ref: PodRef) -> None:
        self._agents.stop(self._files(ref).folder)

    def logs(self, ref: PodRef, offset: int | None, limit: int) -> LogPiece:
        return self._files(ref).log_piece(offset, limit)

    def purge(self, job_id: str) -> None:
        shutil.rmtree(self._data_dir / "jobs" / job_id, ignore_errors=True)

    def watch(self, wake: Callable[[], None]) -> None:
        self._watch = ExitWatch(wake)

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def shutdown(self) -> None:
        folders = [path.parent for path in self._data_dir.glob("jobs/*/run-*/pod-*/spec.json")]
        pods = [files for folder in folders if (files := PodFiles(folder)).supervisor() is not None]
        for files in pods:
            files.ask_to_stop(2.0)
        nodes = list(self._data_dir.glob("nodes/*"))
        deadline = time.monotonic() + KILL_WITHIN_S
        while any(files.supervisor() for files in pods) and time.monotonic() < deadline:
            time.sleep(0.02)
        for folder in (*folders, *nodes):
            self._agents.kill(folder)

    def _files(self, ref: PodRef) -> PodFiles:
        if ref.place not in ("", self.place):
            raise RuntimeFailure(ELSEWHERE)
        return PodFiles(self._data_dir / "jobs" / ref.job_id / f"run-{ref.run}" / f"pod-{ref.index}")

    def _watch_over(self, files: PodFiles) -> None:
        if self._watch is not None and (pid := files.supervisor()) is not None:
            self._watch.add(pid)

    def _is_clean(self, ref: PodRef, files: PodFiles) -> bool:
        if (
            ref.pod_id not in self._clean
            and files.supervisor() is None
            and not files.leftovers(POD_MARK, ref.pod_id)
        ):
            self._clean.add(ref.pod_id)
        return ref.pod_id in self._clean

    def _end_leftovers(self, ref: PodRef) -> None:
        """End what a killed supervisor could not: it is found by the mark in its environment."""
        files = self._files(ref)
        if not kill_all(lambda: files.leftovers(POD_MARK, ref.pod_id), within_s=KILL_WITHIN_S):
            raise RuntimeFailure(f"processes of pod {ref.pod_id} do not end")
