"""What our processes log of exceptions: their kind and place, never their words."""

import importlib
import json
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


HOSTILE = "it ends\n2026-01-01 [error    ] made up\r\x1b[2K\u2028"


def _own_words() -> None:
    structlog.get_logger().info("pod_started", pod=HOSTILE, names=[HOSTILE])


def _foreign_words() -> None:
    logging.getLogger("some.library").warning("got %s", HOSTILE)


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize("say", [_own_words, _foreign_words])
def test_what_others_wrote_makes_no_line_of_its_own(
    say: Callable[[], None], form: Literal["console", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(form)
    say()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("\n")
    assert len(said.splitlines()) == 1
    assert "\x1b[2K" not in said


def test_what_is_bound_to_a_thread_is_in_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json")
    with structlog.contextvars.bound_contextvars(incident="evt_1"):
        structlog.get_logger().info("told", attempt=2)
        logging.getLogger("some.library").warning("hm")
    structlog.get_logger().debug("not wanted")
    ours, theirs = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (ours["event"], ours["incident"], ours["attempt"], ours["level"]) == ("told", "evt_1", 2, "info")
    assert (theirs["event"], theirs["incident"]) == ("hm", "evt_1")


def test_a_line_without_colours_is_what_structlog_makes_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    values = {
        "job": "job_1",
        "why": 'it\'s "full"',
        "n": 2,
        "none": None,
        "sum": "a=b",
        "ids": ["x", "y z"],
        "em": "",
    }
    logs.configure("console")
    structlog.get_logger().warning("not_told", **values)
    said = capsys.readouterr().err.rstrip("\n")
    stamp = said.partition(" ")[0]
    event = {"timestamp": stamp, "level": "warning", "event": "not_told", **values}
    assert said == structlog.dev.ConsoleRenderer(colors=False)(None, "", event)


def test_no_value_writes_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("console")
    structlog.get_logger().info("told", channel="a\x1b[2K\u2028b")
    assert capsys.readouterr().err.endswith(r"channel='a\x1b[2K\u2028b'" + "\n")


def test_what_rq_says_of_a_redis_that_is_away_is_said_by_our_own_lines_alone() -> None:
    """Whatever is imported first: a line a second would hide all others."""
    importlib.import_module("notifier.listener")
    logs.configure("console")
    assert not logging.getLogger("rq.worker").isEnabledFor(logging.ERROR)
