"""A machine on which something has run out."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_more_threads(name: str) -> Iterator[list[str]]:
    """None of that name (a pattern) can be started, as where a container's limit of processes is reached.
    Gives those that were not."""
    start, refused = threading.Thread.start, list[str]()

    def tried(thread: threading.Thread) -> None:
        if re.fullmatch(name, thread.name):
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", tried)
        yield refused
