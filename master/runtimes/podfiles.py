"""The files of one local pod: written by the master and by its supervisor, read by whoever comes later."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from master.runtimes.base import LogPiece, Phase, PodSpec, PodState
from master.runtimes.supervisor import (
    SIGKILL,
    SIGTERM,
    Process,
    boot_id,
    descendants,
    process,
    processes,
    send,
    write_whole,
)


def read_document(path: Path) -> dict[str, Any] | None:
    """A document that was written whole; None when it is not there."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return document if isinstance(document, dict) else None


def living(identity: Mapping[str, Any] | None) -> int | None:
    """The pid of the process that was noted so, if it is the same one and still runs."""
    if identity is None or identity.get("boot") != boot_id():
        return None
    pid = int(identity["pid"])
    seen = process(pid)
    return pid if seen and seen.started == identity["start"] and seen.state not in "ZX" else None


@dataclass(frozen=True)
class PodFiles:
    """`folder` is the pod's own: `spec.json`, `begun`, `pod.json`, `exit.json`, `stop`, `deleted`, …"""

    folder: Path

    def begun(self) -> bool:
        return (self.folder / "begun").exists()

    def write_spec(self, spec: PodSpec, env: Mapping[str, str], cwd: Path) -> None:
        """What the supervisor reads. Its environment may hold the user's secrets: mode 0600 in 0700."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        progress = self.folder / "progress"
        document = {
            "pod_id": spec.ref.pod_id,
            "command": list(spec.command),
            "env": {**env, "FAULTCAST_PROGRESS": str(progress)},
            "cwd": str(cwd),
            "log": str(self.log),
            "progress": str(progress),
            "rank": spec.ref.index,
            "nproc": spec.nproc,
            "world_size": spec.world_size,
        }
        write_whole(self.folder / "spec.json", document)

    @property
    def log(self) -> Path:
        return self.folder / "pod.log"

    def supervisor(self) -> int | None:
        """The living supervisor's pid."""
        return living(read_document(self.folder / "begun"))

    def read(self) -> PodState:
        """What the files tell, but for what only a look at processes can."""
        if (self.folder / "deleted").exists():
            return PodState(Phase.GONE, reason="Deleted")
        if ended := read_document(self.folder / "exit.json"):
            return PodState(
                Phase.EXITED,
                exit_code=ended["exit_code"],
                signal=ended["signal"],
                reason="Stopped" if ended["stopped"] else "",
                ended_at=datetime.fromisoformat(ended["at"]),
            )
        if not self.begun():
            stopped = (self.folder / "stop").exists()
            return PodState(Phase.GONE, reason="Stopped") if stopped else PodState(Phase.PENDING)
        if self.supervisor() is None:
            # Its last word may have come between the two looks.
            has_ended = (self.folder / "exit.json").exists()
            return self.read() if has_ended else PodState(Phase.GONE, reason="Lost")
        running = (self.folder / "pod.json").exists()
        return PodState(Phase.RUNNING if running else Phase.PENDING)

    def ask_to_stop(self, grace_s: float) -> None:
        """The file is the word that counts (a supervisor that starts later finds it); TERM only hurries."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / "stop"
        if not path.exists():
            draft = path.with_suffix(".new")
            draft.write_text(f"{grace_s}\n", encoding="ascii")
            draft.replace(path)
            if (pid := self.supervisor()) is not None:
                send(pid, SIGTERM)

    def mark_deleted(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "deleted").touch()

    def kill_supervisor(self) -> None:
        if (pid := self.supervisor()) is not None:
            send(pid, SIGKILL)

    def leftovers(self, mark: str, pod_id: str) -> list[Process]:
        """Living processes that bear the pod's mark, or write into its log, and all below them."""
        wanted, log = f"{mark}={pod_id}".encode(), str(self.log)
        marked = [one for one in processes() if one.state not in "ZX" and _belongs(one.pid, wanted, log)]
        return marked + descendants(one.pid for one in marked)

    def log_piece(self, offset: int | None, limit: int) -> LogPiece:
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                start = max(0, size - limit) if offset is None else min(max(0, offset), size)
                file.seek(start)
                data = file.read(limit)
        except FileNotFoundError:
            return LogPiece(0, 0, "")
        return LogPiece(start, start + len(data), data.decode(errors="replace"))


def _belongs(pid: int, mark: bytes, log: str) -> bool:
    folder = Path(f"/proc/{pid}")
    try:
        if mark in (folder / "environ").read_bytes().split(b"\0"):
            return True
        return any(str((folder / "fd" / name).readlink()) == log for name in ("1", "2"))
    except OSError:
        return False  # gone meanwhile, or another user's
