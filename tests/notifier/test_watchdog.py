"""The dead-man's switch: called while all is well, and only then."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from channels.transport import Network
from notifier.watchdog import Watchdog

LIMIT_S = 20.0


class Outside:
    """Somebody who counts our calls."""

    def __init__(self) -> None:
        self.calls = 0
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outside.calls += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/ping"

    def await_calls(self, count: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while self.calls < count:
            assert time.monotonic() < deadline, "nobody called"
            time.sleep(0.01)


@contextmanager
def listening() -> Iterator[Outside]:
    outside = Outside()
    thread = threading.Thread(target=outside.server.serve_forever, args=(0.02,))
    thread.start()
    yield outside
    outside.server.shutdown()
    thread.join()
    outside.server.server_close()


@pytest.fixture
def outside() -> Iterator[Outside]:
    with listening() as outside:
        yield outside


class Health:
    """What is faulty now, and how often somebody looked."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.looks = 0

    def __call__(self) -> Sequence[str]:
        self.looks += 1
        return self.faults

    def await_looks(self, count: int) -> None:
        deadline, wanted = time.monotonic() + LIMIT_S, self.looks + count
        while self.looks < wanted:
            assert time.monotonic() < deadline, "nobody looked"
            time.sleep(0.01)


def test_calls_go_on_while_all_is_well_and_stop_when_not(outside: Outside) -> None:
    health = Health()
    watchdog = Watchdog(outside.url, Network(), health, every_s=0.02)
    watchdog.start()
    outside.await_calls(2)
    health.faults = ["workers"]
    health.await_looks(2)  # the call of a look before is over by now
    calls = outside.calls
    health.await_looks(3)
    assert outside.calls == calls
    health.faults = []
    outside.await_calls(calls + 1)
    watchdog.stop()


def test_an_address_that_does_not_answer_is_tried_again(outside: Outside) -> None:
    health = Health()
    watchdog = Watchdog("http://127.0.0.1:1/", Network(), health, every_s=0.02)
    watchdog.start()
    health.await_looks(3)
    watchdog.stop()


def test_without_an_address_nobody_looks() -> None:
    health = Health()
    watchdog = Watchdog(None, Network(), health, every_s=0.001)
    watchdog.start()
    watchdog.stop()
    assert health.looks == 0
