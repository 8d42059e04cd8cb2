"""A pod of the local runtime: runs one command, outlives the master, leaves no process behind.

    python -I -S supervisor.py <pod dir>

Standard library only and small, for it runs once per pod. It reads `spec.json`, adopts every orphan below it
(a child subreaper), and writes what it knows where a new master finds it: `pod.json` once the command runs,
`exits.jsonl` for each process reaped, `exit.json` when the command ended. SIGTERM or a file `stop` ends it.
"""

import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

SIGKILL, SIGTERM = signal.SIGKILL, signal.SIGTERM
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
AWAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
LOOK_EVERY_S = 1.0  # for the stop file, should its signal have gone astray
MAX_EXITS = 10_000  # lines kept of the exits: a job may spawn helpers for ever
SPAWN_FAILED = 127
KILL_WITHIN_S = 60.0


@dataclass(frozen=True)
class Process:
    """One line of /proc/<pid>/stat."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int


@dataclass
class Pod:
    """What this supervisor knows of its pod."""

    folder: Path
    main: int = 0
    exit_code: int | None = None
    signal: int | None = None
    ended: bool = False
    stopped: bool = False
    exits: int = 0


def process(pid: int) -> Process | None:
    """What /proc says of it; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the command's name may hold anything, parentheses too
    parent, group, session = (int(word) for word in fields[1:4])
    return Process(pid, fields[0], parent, group, session, int(fields[19]))


def processes() -> Iterator[Process]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (seen := process(int(entry.name))):
            yield seen


def descendants(roots: Iterable[int]) -> list[Process]:
    """Every living process below `roots`, whatever its group or session; zombies are no longer living."""
    everyone = list(processes())
    below, found = set(roots), []
    grown = True
    while grown:
        grown = False
        for one in everyone:
            if one.parent in below and one.pid not in below:
                below.add(one.pid)
                found.append(one)
                grown = True
    return [one for one in found if one.state not in "ZX"]


def send(pid: int, number: signal.Signals) -> None:
    """A signal for a process, or for a whole group (`-group`); one that is gone is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_all(alive: Callable[[], list[Process]], within_s: float) -> bool:
    """SIGKILL until `alive` finds nobody. Whole groups at once, so that none forks between look and kill."""
    deadline = time.monotonic() + within_s
    own = {os.getpgrp(), 0, 1}
    while found := alive():
        for group in {one.group for one in found} - own:
            send(-group, SIGKILL)
        for one in found:
            send(one.pid, SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def write_whole(path: Path, document: dict[str, Any]) -> None:
    """The new file or the old one, never half of it, also after a power cut; for our own eyes."""
    draft = path.with_suffix(".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def timestamp() -> str:
    now = datetime.now(UTC)  # noqa: TID251  this file stands alone, without the master's clock
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def identity(pid: int) -> dict[str, Any]:
    """Names a process for good: a pid alone may be another's tomorrow."""
    seen = process(pid)
    return {"pid": pid, "start": seen.started if seen else 0, "boot": boot_id()}


def set_process_option(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) was refused")


def redirect(log: int) -> None:
    """Standard output and error to `log`, nothing on standard input."""
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(source, target)


def start_command(spec: dict[str, Any]) -> int:
    """Fork and execute the command in a session of its own, its output going to the pod's log."""
    log = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        os.close(log)
        return pid
    try:
        os.setsid()
        set_process_option(PR_SET_PDEATHSIG, SIGKILL)  # a killed supervisor takes its command along
        if os.getppid() != supervisor:
            os._exit(SPAWN_FAILED)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
        redirect(log)
        os.chdir(spec["cwd"])
        os.execvpe(spec["command"][0], spec["command"], spec["env"])  # noqa: S606  its command is the job's
    except OSError as error:
        os.write(2, f"faultcast: cannot start {spec['command'][0]!r}: {error.strerror}\n".encode())
    os._exit(SPAWN_FAILED)


def reap(pod: Pod) -> None:
    """Collect every child that ended, adopted ones too, and note how."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        note_exit(pod, {"pid": pid, "exit_code": exit_code, "signal": number, "at": timestamp()})
        if pid == pod.main:
            pod.exit_code, pod.signal, pod.ended = exit_code, number, True


def note_exit(pod: Pod, line: dict[str, Any]) -> None:
    pod.exits += 1
    if pod.exits > MAX_EXITS and line["pid"] != pod.main:
        return
    with (pod.folder / "exits.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def stop_grace(pod: Pod) -> float | None:
    """Seconds of grace, if the pod was asked to stop by its file."""
    try:
        return float((pod.folder / "stop").read_text(encoding="ascii").strip() or 0)
    except FileNotFoundError:
        return None
    except ValueError:
        return 0.0


def end_family(pod: Pod, grace_s: float) -> None:
    """TERM, grace, KILL for every descendant. A stopped process cannot hear TERM: it is killed at once."""
    deadline = time.monotonic() + grace_s
    told: set[int] = set()
    while (living := family(pod)) and time.monotonic() < deadline:
        for one in living:
            if one.state in "Tt":
                send(one.pid, SIGKILL)
            elif one.pid not in told:
                told.add(one.pid)
                send(one.pid, SIGTERM)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
    kill_all(lambda: family(pod), KILL_WITHIN_S)


def family(pod: Pod) -> list[Process]:
    reap(pod)
    return descendants([os.getpid()])


def supervise(pod: Pod) -> None:
    """Until the command ended or a stop was asked for; nothing of it is left afterwards."""
    while not pod.ended:
        heard = signal.sigtimedwait(AWAITED, LOOK_EVERY_S)
        reap(pod)
        asked = stop_grace(pod)
        if asked is None and heard is not None and heard.si_signo != signal.SIGCHLD:
            asked = 10.0
        if asked is not None and not pod.ended:
            pod.stopped = True
            end_family(pod, asked)
    document = {"exit_code": pod.exit_code, "signal": pod.signal, "at": timestamp(), "stopped": pod.stopped}
    write_whole(pod.folder / "exit.json", document)
    kill_all(lambda: family(pod), KILL_WITHIN_S)


def claim(folder: Path) -> int | None:
    """The right to run this pod, once and for all; None when it was run, or stopped before it began."""
    lock = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    if (folder / "begun").exists() or (folder / "stop").exists() or (folder / "deleted").exists():
        return None
    write_whole(folder / "begun", identity(os.getpid()))
    return lock


def run(folder: Path, ready: Callable[[], None]) -> None:
    """The supervisor's life, in the daemon's process."""
    set_process_option(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    lock = claim(folder)  # held by this process alone, for as long as it lives
    if lock is None:
        ready()
        return
    spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    pod = Pod(folder)
    pod.main = start_command(spec)
    known = {key: spec[key] for key in ("pod_id", "log", "progress", "rank", "world_size", "nproc")}
    write_whole(folder / "pod.json", {**identity(os.getpid()), "main_pid": pod.main, **known})
    ready()
    supervise(pod)


def main() -> None:
    """Fork twice, so that nobody waits for the supervisor; the first process ends once the pod runs."""
    folder = Path(sys.argv[1])
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        sys.exit(0 if os.read(reading, 1) else 1)
    os.close(reading)
    os.setsid()
    if os.fork():
        os._exit(0)
    redirect(os.open(folder / "supervisor.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))

    def ready() -> None:
        os.write(writing, b"+")
        os.close(writing)

    run(folder, ready)


if __name__ == "__main__":
    main()
