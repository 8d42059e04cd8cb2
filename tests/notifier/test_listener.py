"""What the listener says of a Redis that is away."""

import socket
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from notifier.listener import Listener
from notifier.valkey import Embedded
from tests.notifier.test_doorbell import Heard, until


def test_a_redis_that_is_away_is_said_once_and_its_return_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not a line a second, neither ours nor RQ's."""
    monkeypatch.setattr("notifier.listener.AGAIN_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as nobody, capture_logs() as lines:
        listener = Listener(f"redis://127.0.0.1:{nobody.getsockname()[1]}/0", Heard())
        listener.start()
        for _ in range(5):
            nobody.accept()[0].close()
        listener.stop()
        assert said(lines) == ["bell_not_heard"]
    server, away_and_back = Embedded(tmp_path), ["bell_not_heard", "listening_again"]
    with capture_logs() as lines:
        listener = Listener(server.url, Heard())
        listener.start()
        for times in (1, 2):
            until(lambda times=times: said(lines) == [*away_and_back * (times - 1), "bell_not_heard"])
            server.start()
            until(lambda times=times: said(lines) == away_and_back * times)
            server.stop()
        until(lambda: said(lines) == [*away_and_back * 2, "bell_not_heard"])
        listener.stop()
    assert "connect" not in capfd.readouterr().err


def said(lines: list[Any]) -> list[str]:
    return [line["event"] for line in lines if line["event"] in {"bell_not_heard", "listening_again"}]
