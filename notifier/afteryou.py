"""Manners between processes that write to one SQLite file. SQLite has one lock and no queue for it: who waits
sleeps a little and looks again, so that whoever writes much takes it again before anybody has looked.

A lock on a file beside the database says that somebody waits. It only says so: what excludes is SQLite's own
lock, and where there is no such file (read-only, no `flock`) all goes on, less fairly.
"""

import fcntl
import os
import time
import weakref
from contextlib import suppress
from pathlib import Path

SUFFIX = "-turn"
STEP_ASIDE_S = 0.002  # time enough for somebody who waits to look


class AfterYou:
    """One process's. A lock of `flock` is gone with the process, however that ends.

    `database`: the path of its file, if it is in one.
    """

    def __init__(self, database: str | None) -> None:
        self._path = Path(database + SUFFIX) if database else None
        self._file: int | None = None
        self._pid = 0

    def step_aside(self) -> None:
        """Before we look for the lock ourselves: whoever waits for it has waited longer."""
        file = self._opened()
        if file is None:
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(STEP_ASIDE_S)
        except OSError:
            self._file = None
        else:
            fcntl.flock(file, fcntl.LOCK_UN)

    def wait(self) -> None:
        """From now on we are seen to wait."""
        if self._file is not None:
            with suppress(OSError):  # somebody looks at this very moment: when we look again, then
                fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def wait_no_more(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _opened(self) -> int | None:
        if self._pid != os.getpid():  # what a fork brings along is its parent's
            self._pid = os.getpid()
            self._file = None
            if self._path is not None:
                with suppress(OSError):
                    self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
                    weakref.finalize(self, os.close, self._file)
        return self._file
