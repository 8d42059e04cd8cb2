"""Keeps the parts of `faultcast up` alive: starts them, starts them again when they die, ends them all."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

PR_SET_PDEATHSIG = 1
FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 10.0
LIVED_WELL_S = 30.0  # whoever lived so long starts with a clean slate

log = structlog.get_logger()


@dataclass(frozen=True)
class Program:
    """One part and the descriptors that it inherits."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    pass_fds: Sequence[int] = ()


@dataclass
class _Part:
    program: Program
    process: "subprocess.Popen[bytes]"
    started: float
    deaths: int = 0
    restart_at: float | None = None


class Keeper:
    """Used from one thread, the one that must live as long as the parts (they die with it)."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def start(self, program: Program) -> None:
        self._parts.append(_Part(program, _spawn(program), time.monotonic()))

    def exit_code(self, name: str) -> int | None:
        """How the part of that name ended, or None while it runs."""
        return next(part.process.poll() for part in self._parts if part.program.name == name)

    def look_after(self) -> None:
        """Start again whoever died, after a wait that grows with each death."""
        now = time.monotonic()
        for part in self._parts:
            if part.process.poll() is None:
                continue
            if part.restart_at is None:
                part.deaths = part.deaths + 1 if now - part.started < LIVED_WELL_S else 1
                part.restart_at = now + wait_after(part.deaths)
                log.warning("part_died", part=part.program.name, exit_code=part.process.returncode)
            if now >= part.restart_at:
                part.process = _spawn(part.program)
                part.started, part.restart_at = time.monotonic(), None
                log.info("part_started_again", part=part.program.name, pid=part.process.pid)

    def stop(self, within_s: float) -> None:
        """TERM to all at once, KILL to whoever is still there after `within_s`."""
        running = [part.process for part in self._parts if part.process.poll() is None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        deadline = time.monotonic() + within_s
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("part_killed", pid=process.pid)
                process.kill()
                process.wait()


def wait_after(deaths: int) -> float:
    """Seconds before the next start of a part that died so many times in quick succession."""
    return float(min(FIRST_WAIT_S * 2 ** (deaths - 1), LONGEST_WAIT_S))


def die_with(parent: int | None) -> None:
    """Asks the kernel for SIGTERM when `parent` dies; ends at once if it is dead already."""
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != parent:
        sys.exit(0)


def faultcast(*arguments: str) -> tuple[str, ...]:
    """The command line of our own program."""
    # -P: a folder `agent` or `channels` in the working directory must not take the place of ours.
    return (sys.executable, "-P", "-m", "master.cli", *arguments)


def _spawn(program: Program) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        program.command,
        env=dict(program.env),
        pass_fds=tuple(program.pass_fds),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),  # our stdout is for the line that says `ready`
        start_new_session=True,  # Ctrl-C is for us: we end the parts in their order
    )
