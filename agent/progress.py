"""How far training is: from its log, or from the file into which it may write its step number."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from agent.clock import rfc3339, stamp, utcnow
from agent.steps import GLOBAL, Mark, Rhythm
from agent.wire import MAX_STEP_DIGITS, Kind, Observation

_FILE_MAX = 4096
_MAX_VOICES = 4096  # a log may claim any number of ranks


@dataclass
class _Voice:
    rhythm: Rhythm
    at: str = ""  # when the last step was seen
    fresh: bool = False  # not yet reported


class Progress:
    """Rhythms by rank; `None` is the pod as a whole, where lines name no rank."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._voices: dict[int | None, _Voice] = {}
        self._facts: tuple[int, int, int] | None = None
        self._from_file = False
        self.first = False  # a step was seen after none, or after a restart: worth a report at once

    def from_line(self, rank: int | None, mark: Mark, now: float) -> None:
        """A step told by a log line; the file, once written, is believed alone."""
        if not self._from_file:
            self._note(rank, mark, now)

    def poll_file(self, rank: int | None, now: float) -> None:
        """Look whether training has written its step; `rank`: whose file it is, if the pod has but one."""
        if self.path is None:
            return
        with contextlib.suppress(OSError, ValueError):
            facts = self.path.stat()
            marks = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
            if marks == self._facts:
                return
            self._facts = marks
            step = _last_number(self.path)
            if step is None:
                return
            if not self._from_file:
                self._voices.clear()
                self._from_file = True
            self._note(rank, Mark(GLOBAL, step, None), now)

    def restart(self, rank: int) -> None:
        """A new process of the rank: it may begin again at an earlier step."""
        self._voices.pop(rank, None)
        self._voices.pop(None, None)

    def of(self, rank: int) -> tuple[int | None, str | None]:
        """The rank's last step and when it was seen."""
        voice = self._voices.get(rank)
        return (voice.rhythm.step, voice.at or None) if voice else (None, None)

    def take(self) -> list[Observation]:
        """Steps not yet reported, at most one a rank."""
        self.first = False
        found = []
        for rank, voice in self._voices.items():
            if voice.fresh:
                voice.fresh = False
                data = {"step": voice.rhythm.step, "steps_per_s": voice.rhythm.rate()}
                found.append(Observation(Kind.PROGRESS, voice.at or stamp(), rank, data))
        return found

    def _note(self, rank: int | None, mark: Mark, now: float) -> None:
        voice = self._voices.get(rank)
        if voice is None:
            if len(self._voices) >= _MAX_VOICES:
                return
            voice = self._voices[rank] = _Voice(Rhythm())
        began = voice.rhythm.step is None
        if voice.rhythm.note(mark, now):
            voice.at, voice.fresh = rfc3339(utcnow()), True
            self.first = self.first or began


def _last_number(path: Path) -> int | None:
    """The step in the file: its last line that is a number."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        text = os.pread(fd, _FILE_MAX, max(0, size - _FILE_MAX))
    finally:
        os.close(fd)
    for line in reversed(text.splitlines()):
        word = line.strip()
        if word.isascii() and word.isdigit() and len(word) <= MAX_STEP_DIGITS:
            return int(word)
    return None
