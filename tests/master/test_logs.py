"""What our processes log of exceptions: their kind and place, never their words."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
import structlog

from master import logs

SECRET = "hunter2-of-a-robot"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, hook = logging.getLogger(), threading.excepthook
    kept = root.handlers[:], root.level
    yield
    root.handlers[:], threading.excepthook = kept[0], hook
    root.setLevel(kept[1])
    structlog.reset_defaults()


def _fail() -> None:
    try:
        {}[SECRET]
    except KeyError as error:
        raise ValueError(f"bad value {SECRET}") from error


def _by_structlog() -> None:
    try:
        _fail()
    except ValueError:
        structlog.get_logger().exception("care_failed", name="job_1")


def _by_a_library() -> None:
    try:
        _fail()
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")


def _by_an_error_handed_over() -> None:
    try:
        _fail()
    except ValueError as error:
        structlog.get_logger().error("console_failed", exc_info=error)


def _by_a_thread() -> None:
    thread = threading.Thread(target=_fail, name="sender")
    thread.start()
    thread.join()


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize("fail", [_by_structlog, _by_a_library, _by_an_error_handed_over, _by_a_thread])
def test_an_exception_is_logged_by_kind_and_place(
    fail: Callable[[], None], form: Literal["console", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(form)
    fail()
    said = capsys.readouterr().err
    assert SECRET not in said
    assert "ValueError of KeyError" in said
    assert "in _fail" in said
