"""Hears of ended processes at once, children or not: one thread over pidfds (Linux 5.3)."""

import os
import select
import threading
from collections.abc import Callable


class ExitWatch:
    """Calls `wake` for every watched process that ends. Safe to use from any thread."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._fds: dict[int, int] = {}  # pid → pidfd
        self._lock = threading.Lock()
        self._poll = select.epoll()
        self._end_reading, self._end_writing = os.pipe()
        self._poll.register(self._end_reading, select.EPOLLIN)
        self._thread = threading.Thread(target=self._listen, name="exit-watch", daemon=True)
        self._thread.start()

    def add(self, pid: int) -> None:
        """Watch it; asking twice is no harm, one that is gone already wakes at once."""
        with self._lock:
            if pid in self._fds:
                return
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                self._wake()
                return
            except OSError:
                return  # an old kernel, or too many files: the next look will tell
            self._fds[pid] = fd
            self._poll.register(fd, select.EPOLLIN)

    def close(self) -> None:
        os.write(self._end_writing, b"x")
        self._thread.join()
        for fd in (*self._fds.values(), self._end_reading, self._end_writing):
            os.close(fd)
        self._poll.close()

    def _listen(self) -> None:
        while True:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._end_reading in ready:
                return
            with self._lock:
                for pid in [pid for pid, fd in self._fds.items() if fd in ready]:
                    fd = self._fds.pop(pid)
                    self._poll.unregister(fd)
                    os.close(fd)
            self._wake()
