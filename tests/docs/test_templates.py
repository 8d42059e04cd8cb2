"""The page on templates names the facts that there are, and no others."""

import re
from pathlib import Path

import pytest

from notifier.samples import DIGEST, sample_facts
from notifier.usertemplates import check_template

ROOT = Path(__file__).parents[2]
BUILT_IN = {"headline", "head", "tail", "intro"}  # pieces of the built-in words, not promised to anybody


@pytest.mark.parametrize("page", ["templates.md", "templates.zh.md"])
def test_the_table_is_the_facts(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {name for facts in sample_facts(DIGEST, "en") for name in facts} - BUILT_IN


@pytest.mark.parametrize("page", ["templates.md", "channels.md", "channels.zh.md"])
def test_what_it_shows_can_be_saved(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    shown = re.findall(r"--(?:text|title) '(.*?)'", text) + re.findall(r"--param '(?:\w+=)?(.*?)'", text)
    assert shown
    assert [check_template(one) for one in shown] == [None] * len(shown)
