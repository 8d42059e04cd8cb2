"""Agents as processes beside the pods: each in a session of its own, outliving the master."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

from master.runtimes.base import AgentAccess, RuntimeFailure
from master.runtimes.podfiles import living, read_document
from master.runtimes.supervisor import (
    SIGKILL,
    SIGTERM,
    identity,
    kill_all,
    process,
    processes,
    send,
    write_whole,
)

NOTE = "agent.json"
FOLDER_MARK = "FAULTCAST_AGENT_FOLDER"
STOP_GRACE_S = 3.0
KILL_WITHIN_S = 5.0
INHERITED = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV")


class Agents:
    """Starts, finds and ends `python -m agent`, one per folder."""

    def __init__(self, python: str) -> None:
        self._python = python
        self._stopping: dict[Path, float] = {}  # folder → when its agent was told to end

    def alive(self, folder: Path) -> bool:
        return self._pid(folder) is not None

    def ensure(self, folder: Path, access: AgentAccess, env: Mapping[str, str], *flags: str) -> bool:
        """Start the folder's agent unless one lives that knows this server; says whether it did."""
        if self.alive(folder) and _server_of(folder) == access.server:
            return False
        self._end(folder)
        token = folder / "agent.token"
        _write_private(token, access.new_token())
        kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
        told = {
            "FAULTCAST_SERVER": access.server,
            "FAULTCAST_AGENT_TOKEN_FILE": str(token),
            FOLDER_MARK: str(folder),
        }
        pid = self._spawn(folder, {**kept, **env, **told}, flags)
        write_whole(folder / NOTE, {**identity(pid), "server": access.server})
        return True

    def stop(self, folder: Path) -> None:
        """TERM, and KILL when asked again after a grace."""
        pid = self._pid(folder)
        if pid is None:
            self._stopping.pop(folder, None)
            return
        told_at = self._stopping.setdefault(folder, time.monotonic())
        send(pid, SIGKILL if time.monotonic() - told_at > STOP_GRACE_S else SIGTERM)

    def kill(self, folder: Path) -> None:
        if (pid := self._pid(folder)) is not None:
            send(pid, SIGKILL)

    def _pid(self, folder: Path) -> int | None:
        note = read_document(folder / NOTE)
        if note is None:
            return None
        _reap(int(note["pid"]))
        return living(note)

    def _spawn(self, folder: Path, env: Mapping[str, str], flags: tuple[str, ...]) -> int:
        log = os.open(folder / "agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, log, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        command = [self._python, "-P", "-m", "agent", *flags]
        try:
            return os.posix_spawn(self._python, command, dict(env), file_actions=actions, setsid=True)
        except OSError as error:
            raise RuntimeFailure(f"the agent of {folder} did not start: {error.strerror}") from error
        finally:
            os.close(log)

    def _end(self, folder: Path) -> None:
        """Also one that nobody knows of: its master died between starting and noting it."""
        mark = f"{FOLDER_MARK}={folder}".encode()
        kill_all(
            lambda: [one for one in processes() if one.state not in "ZX" and _marked(one.pid, mark)],
            KILL_WITHIN_S,
        )


def _server_of(folder: Path) -> object:
    return (read_document(folder / NOTE) or {}).get("server")


def _marked(pid: int, mark: bytes) -> bool:
    try:
        return mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _reap(pid: int) -> None:
    """Collect it if it is a dead child of ours; a new master's agents are nobody's children here."""
    seen = process(pid)
    if seen is not None and seen.state == "Z" and seen.parent == os.getpid():
        os.waitpid(pid, os.WNOHANG)


def _write_private(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    with os.fdopen(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
    draft.replace(path)
