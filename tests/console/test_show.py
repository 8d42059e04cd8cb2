"""How values look on a page."""

from datetime import UTC, datetime

import pytest

from master.console.session import local_path
from master.console.show import Clock, duration, tone
from master.console.words import WORDS, translator

MOMENT = datetime(2026, 11, 28, 19, 12, 41, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"), (0.0124, "12 ms"), (3.44, "3.4 s"), (59.96, "1 m 00 s"),
        (124, "2 m 04 s"), (18600, "5 h 10 m"),
        (266400, "3 d 2 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_times_stand_in_the_operators_zone() -> None:
    clock = Clock("Asia/Shanghai")
    assert clock.full(MOMENT) == "2026-11-29 03:12:41 +08:00"
    assert (clock.short(MOMENT), clock.clock(MOMENT)) == ("11-29 03:12:41", "03:12:41")
    assert clock.full(None) == clock.short(None) == clock.clock(None) == "–"


@pytest.mark.parametrize(
    ("state", "colour"), [("delivered", "ok"), ("failed", "bad"), ("retrying", "warn"), ("merged", "")]
)
def test_colours_follow_the_state(state: str, colour: str) -> None:
    assert tone(state) == colour


def test_every_word_is_there_in_both_languages() -> None:
    for name in WORDS:
        assert translator("en")(name)
        assert translator("zh")(name)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("/jobs/job_1?live=1", "/jobs/job_1?live=1"), ("https://evil.example/", "/"), ("//evil.example", "/"),
        ("/\\evil.example", "/"), ("javascript:alert(1)", "/"), ("", "/"), ("/a\r\nSet-Cookie: x=1", "/"),
        ("/\t/evil.example", "/"),
    ],
)  # fmt: skip
def test_the_way_back_never_leads_elsewhere(asked: str, path: str) -> None:
    assert local_path(asked) == path
