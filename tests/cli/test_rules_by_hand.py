"""`faultcast alert`, `alerts`, `silence`, `oncall` on a real API, as somebody types them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _channels(faultcast: Run) -> None:
    for name in ("ding", "mail"):
        flags = ("--kind", "email", "--to", "ops@example.com", "--smtp-url", "smtp://u:p@127.0.0.1:25")
        code, _, err = faultcast("channel", "create", name, *flags)
        assert code == 0, err


def table(text: str) -> list[list[str]]:
    """Its cells, without the head."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()[1:]]


def test_the_preview_says_who_and_who_not(faultcast: Run, tmp_path: Path) -> None:
    rules = {
        "rules": [
            {"channels": ["ding"], "items": ["jobFT"]},
            {"channels": ["mail"], "match": {"team": "vision"}},
        ],
        "escalation": [{"after_s": 300, "channels": ["mail"], "min_severity": "error"}],
    }
    (tmp_path / "r.json").write_text(json.dumps(rules))
    assert faultcast("alerts", "set", "pool:default", "-f", str(tmp_path / "r.json"))[0] == 0
    code, out, err = faultcast("alerts", "preview", "pool:default", "jobFT")
    why = "no rule matches: rule 2 wants team=vision; step 1 of escalation tells from error up"
    assert (code, err) == (0, "")
    assert table(out) == [["ding", "now", "pending", "-", "-"], ["mail", "-", "not told", "-", why]]
    flags = ("--label", "team=vision", "--severity", "error")
    out = faultcast("alerts", "preview", "pool:default", "jobFT", *flags)[1]
    assert [line[:3] for line in table(out)] == [
        ["ding", "now", "pending"], ["mail", "now", "pending"], ["mail", "after 300 s", "escalate"],
    ]  # fmt: skip
    code, _, err = faultcast("alerts", "preview", "pool:default", "jobFT", "--label", "=x")
    assert (code, "--label" in err) == (2, True)
    code, _, err = faultcast("alerts", "preview", "pool:default", "jobFT", "--label", "x=\udcff")
    assert (code, "--label" in err) == (2, True)


def test_who_has_taken_an_alert_on_is_shown(faultcast: Run) -> None:
    published = faultcast("alert", "publish", "--title", "disk full", "--channel", "ding")[1]
    ident = published.splitlines()[-1].split(":")[0]  # the server logs beside it
    assert "ops" not in faultcast("alert", "list")[1]
    code, _, err = faultcast("alert", "ack", ident, "--comment", "swapping the disk")
    assert code == 0, err
    assert table(faultcast("alert", "list")[1])[0][-1] == "ops"
    code, out, err = faultcast("alert", "get", ident)
    shown = dict(line.split(None, 1) for line in out.splitlines())
    assert (code, shown["acked_by"], shown["ack_comment"]) == (0, "ops", "swapping the disk"), err
    assert shown["deliveries"].startswith("dlv_")
    assert json.loads(faultcast("alert", "get", ident, "--json")[1])["ack_comment"] == "swapping the disk"
    assert faultcast("alert", "get", "alr_none")[0] == 2


def test_silences_by_hand(faultcast: Run) -> None:
    words = ("job=~llm.*", "severity!=critical", "--for", "2h", "--comment", "upgrade")
    code, out, err = faultcast("silence", "create", *words, "--json")
    assert code == 0, err
    made: dict[str, Any] = json.loads(out)
    assert [(one["name"], one["op"], one["value"]) for one in made["matchers"]] == [
        ("job", "=~", "llm.*"), ("severity", "!=", "critical"),
    ]  # fmt: skip
    _, table, _ = faultcast("silence", "list")
    assert "job=~llm.*, severity!=critical" in table
    assert faultcast("silence", "delete", made["id"])[0] == 0
    assert json.loads(faultcast("silence", "list", "--json")[1])["items"][0]["status"] == "expired"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a=b",), "--for"),
        (("a=b", "--for", "2h", "--until", "2027-01-01"), "--for"),
        (("a=b", "--for", "two hours"), "90s, 30m, 2h or 7d"),
        (("a", "--for", "2h"), "NAME=VALUE"),
        (("a=~(", "--for", "2h"), "no valid RE2 pattern"),
    ],
)
def test_a_silence_that_is_none(faultcast: Run, words: tuple[str, ...], said: str) -> None:
    code, _, err = faultcast("silence", "create", *words)
    assert code == 2
    assert said in err


def test_lists_by_hand(faultcast: Run) -> None:
    code, _, err = faultcast("oncall", "create", "day", "--turn", "daily", "--person", "ding")
    assert (code, "--start" in err) == (2, True)
    flags = ("--turn", "daily", "--start", "2026-11-30", "--person", "ding", "--person", "li=mail,ding")
    code, out, err = faultcast("oncall", "create", "day", *flags, "--timezone", "UTC")
    assert (code, out) == (0, f"on-call list day created; now: {out.split()[-1]}\n"), err
    then = json.loads(faultcast("oncall", "get", "day", "--at", "2026-12-01T09:00:00Z", "--json")[1])["now"]
    assert (then["person"], then["channels"]) == ("li", ["mail", "ding"])
    span = ("--from", "2026-12-01T08:00:00Z", "--until", "2026-12-01T10:00:00Z")
    assert faultcast("oncall", "override", "day", "--person", "ding", *span)[0] == 0
    then = json.loads(faultcast("oncall", "get", "day", "--at", "2026-12-01T09:00:00Z", "--json")[1])["now"]
    assert (then["person"], then["override"]) == ("ding", True)
    code, _, err = faultcast("oncall", "override", "day", "--person", "nobody", *span)
    assert (code, "person: is not in people" in err) == (2, True), err
    other = ("--person", "zhao=mail", "--until", "2099-01-01T00:00Z")
    assert faultcast("oncall", "override", "day", *other)[0] == 0
    now = json.loads(faultcast("oncall", "get", "day", "--json")[1])["now"]
    assert (now["person"], now["channels"]) == ("zhao", ["mail"])
    assert "day" in faultcast("oncall", "list")[1]
    assert faultcast("oncall", "delete", "day")[0] == 0
    assert faultcast("oncall", "get", "day")[0] == 2
