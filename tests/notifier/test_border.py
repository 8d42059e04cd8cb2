"""An error of ours: one answer, one line in the log without its words, and none of it in the server's own."""

import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from structlog.testing import capture_logs
from structlog.typing import EventDict

from notifier.api.refusals import answers_problems
from tests.serving import served

CANARY = "hunter2"


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()
    answers_problems(app)

    @app.get("/wrong")
    def wrong() -> None:
        raise RuntimeError(CANARY) from ValueError(CANARY)

    @app.get("/leaves")
    def leaves() -> None:
        raise SystemExit(CANARY)

    @app.get("/half")
    def half() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"half"
            raise RuntimeError(CANARY)

        return StreamingResponse(pieces())

    return app


def only(lines: list[EventDict]) -> EventDict:
    (line,) = [line for line in lines if line["log_level"] == "error"]
    return line


def test_it_is_answered_and_logged_once_without_its_words(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    with capture_logs() as lines, caplog.at_level(logging.INFO), served(app) as url:
        answer = httpx.get(f"{url}/wrong")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    line = only(lines)
    assert (line["event"], line["error"], line["path"]) == ("request_failed", "RuntimeError", "/wrong")
    assert "in wrong" in line["where"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert CANARY not in caplog.text + str(lines) + answer.text


def test_an_answer_that_has_begun_breaks_off(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    lost = pytest.raises(httpx.RemoteProtocolError)
    with capture_logs() as lines, caplog.at_level(logging.INFO), served(app) as url, lost:
        httpx.get(f"{url}/half")
    assert only(lines)["event"] == "request_failed"
    assert CANARY not in caplog.text + str(lines)


def test_no_request_ends_the_server(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    """An adapter of others may raise what is meant to end a process."""
    with capture_logs() as lines, caplog.at_level(logging.INFO), served(app) as url:
        answers = [httpx.get(f"{url}/leaves") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [500, 500]
    assert {line["error"] for line in lines} == {"SystemExit"}
    assert CANARY not in caplog.text + str(lines)
