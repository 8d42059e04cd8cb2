"""The sending threads. Few run abreast, and more join as soon as those wait for providers.

A thread for each of a hundred sends would make them compete for the interpreter; while providers answer at
once a handful does as much.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

import structlog

from notifier.errors import kind_and_place

ABREAST = 4  # that have not waited yet
PATIENCE_S = 0.003  # who takes longer waits for his provider

log = structlog.get_logger()


class Crew:
    """Runs what it is given, in order, in at most so many threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tasks: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._may_work = threading.Condition(self._lock)
        self._is_late = threading.Condition(self._lock)
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._since: dict[int, float] = {}  # who is at work, and since when
        self._waiting: set[int] = set()  # those of them who wait for their provider
        self._closed = False
        self._foreman = threading.Thread(target=self._oversee, name="foreman", daemon=True)
        self._foreman.start()

    def submit(self, task: Callable[[], None]) -> None:
        """Returns at once. The task must not raise."""
        with self._lock:
            self._tasks.append(task)
            if self._has_place(0):
                self._call(1)
            elif len(self._tasks) == 1:
                self._is_late.notify()

    def close(self, *, wait: bool) -> None:
        """Begin nothing more; `wait` for what is under way."""
        with self._lock:
            self._closed = True
            self._tasks.clear()
            self._may_work.notify_all()
            self._is_late.notify()
        self._foreman.join()
        for thread in self._threads if wait else ():
            thread.join()

    def _has_place(self, called: int) -> bool:
        return len(self._since) - len(self._waiting) + called < ABREAST

    def _call(self, count: int) -> None:
        """So many more are to look for work."""
        woken = min(count, self._idle)
        self._may_work.notify(woken)
        for _ in range(min(count - woken, self._most - len(self._threads))):
            name = f"sender-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # there are no more to be had: those that are there do it
                return
            self._threads.append(thread)

    def _work(self) -> None:
        me = threading.get_ident()
        while (task := self._next(me)) is not None:
            try:
                task()
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                log.error("task_failed", why=kind_and_place(error))  # noqa: TRY400

    def _next(self, me: int) -> Callable[[], None] | None:
        with self._lock:
            self._since.pop(me, None)
            self._waiting.discard(me)
            while not self._closed:
                if self._tasks and self._has_place(0):
                    self._since[me] = time.monotonic()
                    return self._tasks.popleft()
                if self._tasks:
                    self._is_late.notify()
                self._idle += 1
                self._may_work.wait()
                self._idle -= 1
        return None

    def _oversee(self) -> None:
        """Whoever has worked on one task for a while waits: as many others may begin."""
        with self._lock:
            while not self._closed:
                if not self._tasks:
                    self._is_late.wait()
                    continue
                self._is_late.wait(PATIENCE_S)
                until = time.monotonic() - PATIENCE_S
                self._waiting = {one for one, since in self._since.items() if since <= until}
                free = ABREAST - len(self._since) + len(self._waiting)
                self._call(min(free, len(self._tasks)) if free > 0 else 0)
