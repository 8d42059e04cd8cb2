"""`faultcast silence`, `oncall`, `apply` on a real API: a file is applied once, mistakes have their line."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
FILE = """\
scope: default
channels:
  - name: ding
    kind: dingtalk
    config:
      webhook_url: https://oapi.dingtalk.com/robot/send?access_token=${DING_TOKEN}
      keyword: "$${plain}"
  - &mail
    name: mail
    kind: email
    config: {to: [ops@example.com], smtp_url: "smtp://u:${MAIL_PASSWORD}@127.0.0.1:25"}
oncall:
  - name: night
    turn: weekly
    start: 2026-11-30
    people: [ding, {name: li, channels: [mail]}]
    overrides:
      - {from: 2026-12-24T00:00:00Z, until: 2026-12-25T00:00:00Z, person: li}
rules:
  - pool: default
    rules:
      - {channels: [night], fallback: [mail], items: [jobFailed]}
silences:
  - match: {rack: r7}
    starts_at: 2098-12-01T00:00:00Z
    ends_at: 2099-01-01T00:00:00Z
    comment: the rack is being moved
"""


def actions(faultcast: Run, text: str, *more: str) -> list[tuple[str, str]]:
    Path("f.yaml").write_text(text)
    code, out, err = faultcast("apply", "-f", "f.yaml", "--json", *more)
    assert code == 0, err
    return [(one["action"], one["what"]) for one in json.loads(out)["items"]]


STARTS = "starts_at: 2099-12-05T00:00:00Z, ends_at"
ALL = ["channel ding", "channel mail", "on-call list night", "rules of pool default", "silence rack=r7"]


def test_a_file_is_applied_once(faultcast: Run) -> None:
    assert actions(faultcast, FILE, "--dry-run") == [("create", what) for what in ALL]
    assert json.loads(faultcast("channel", "list", "--json")[1])["items"] == []
    assert actions(faultcast, FILE) == [("create", what) for what in ALL]
    assert actions(faultcast, FILE, "--dry-run") == [("same", what) for what in ALL]
    assert actions(faultcast, FILE) == [("same", what) for what in ALL]
    code, out, _ = faultcast("channel", "get", "ding", "--json")
    assert (code, json.loads(out)["config"]["keyword"]) == (0, "${plain}")


def test_what_has_changed_is_changed_and_said_by_name(
    faultcast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions(faultcast, FILE)
    monkeypatch.setenv("MAIL_PASSWORD", "second")
    changed = FILE.replace("jobFailed", "jobFT").replace("people: [ding, ", "people: [mail, ")
    Path("f.yaml").write_text(changed)
    for dry in (("--dry-run",), ()):
        code, out, _ = faultcast("apply", "-f", "f.yaml", *dry)
        assert (code, out.splitlines()) == (
            0,
            [
                "same channel ding",
                "change channel mail (config.smtp_url)",
                "change on-call list night (people)",
                "change rules of pool default (rules)",
                "same silence rack=r7",
            ],
        )
    assert {action for action, _ in actions(faultcast, changed)} == {"same"}


def test_a_dry_run_asks_the_server_about_new_channels_too(faultcast: Run) -> None:
    """Which targets may be reached only it knows."""
    Path("f.yaml").write_text(FILE.replace("https://oapi.dingtalk.com/", "http://10.1.2.3/"))
    code, out, err = faultcast("apply", "-f", "f.yaml", "--dry-run")
    assert (code, out) == (2, "")
    assert "f.yaml" in err
    assert "config.webhook_url" in err


def without(text: str, *lines: str) -> str:
    for line in lines:
        assert line in text
        text = text.replace(line, "")
    return text


WRONG = {
    "an unknown section": ("rulez: []\n" + FILE, "line 1: rulez: no such field; there are channels, oncall"),
    "an unknown field": (
        FILE.replace("kind: email", "kine: email"),
        "line 10: channels.1.kine: no such field",
    ),
    "an unknown field deep inside": (
        FILE.replace("fallback:", "fallbakc:"), "line 22: rules.0.rules.0.fallbakc: no such field",
    ),
    "a secret that is not there": (
        FILE.replace("DING_TOKEN", "NOT_SET"),
        "line 6: channels.0.config.webhook_url: the environment has no NOT_SET",
    ),
    "a variable that is none": (FILE.replace("DING_TOKEN", "A B"), "name of an environment variable"),
    "a day that is none": (
        FILE.replace("start: 2026-11-30", "start: 2026-13-30"), "line 15: oncall.0.start: give a day",
    ),
    "no owner": (without(FILE, "  - pool: default\n").replace("    rules:\n", "  - rules:\n"), "whose rules"),
    "a silence without an end": (
        FILE.replace("ends_at: 2099-01-01T00:00:00Z", "duration_s: 60"),
        "line 26: silences.0.duration_s: a file",
    ),
    "twice the same": (
        FILE.replace("turn: weekly", "name: x"),
        "line 13: oncall.0.name: is given twice, again in line 14",
    ),
    "a channel and a list of one name": (
        FILE.replace("name: night", "name: ding"), "line 13: oncall.0.name: stands in line 3 already",
    ),
    "rules of one pool twice": (
        "rules:\n- {pool: default, rules: []}\n- {pool: default, rules: []}\n",
        "line 3: rules.1.pool: stands in line 2 already",
    ),
    "a time of day without quotes": (
        "oncall:\n- {name: x, turn: daily, start: 2026-11-30, people: [a], handover: 22:30}\n",
        "line 2: oncall.0.handover: give a text, in quotes",
    ),
    "no YAML": (FILE + "]", "neither YAML nor JSON"),
    "a list": ("- a\n", "give a mapping of channels"),
    "a section that is none": ("channels: {}\nrules: 5\n", "line 2: rules: give a list"),
    "a billion laughs": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefg")),
        "too large",
    ),
    "itself": ("channels: &a [*a]\n", "nested too deeply"),
    "a time bomb of a number": ("channels: [.inf]\n", "put it in quotes"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_line_and_nothing_is_done(
    faultcast: Run, text: str, words: str
) -> None:
    Path("f.yaml").write_text(text)
    code, out, err = faultcast("apply", "-f", "f.yaml")
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("faultcast: f.yaml")
    assert json.loads(faultcast("channel", "list", "--json")[1])["items"] == []


def test_what_the_server_refuses_is_placed_too(faultcast: Run) -> None:
    Path("f.yaml").write_text(FILE.replace("channels: [night]", "channels: [day]"))
    code, _, err = faultcast("apply", "-f", "f.yaml")
    assert code == 2
    assert "f.yaml line 22: rules.0.rules.0.channels.0: there is no channel or on-call list day" in err


def test_a_silence_that_is_over_is_not_made_again(faultcast: Run) -> None:
    over = FILE.replace("2099-", "2020-").replace("2098-", "2019-")
    assert actions(faultcast, over)[-1] == ("same", "silence rack=r7 (over)")
    assert json.loads(faultcast("silence", "list", "--json")[1])["items"] == []


@pytest.mark.parametrize("page", ["rules.md", "rules.zh.md"])
def test_the_file_of_the_documentation_is_applied(
    faultcast: Run, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DING_URL", "https://oapi.dingtalk.com/robot/send?access_token=0123456789abcdef")
    monkeypatch.setenv("DING_SECRET", "SEC0123456789abcdef")
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "oncall:" in one]
    done = actions(faultcast, re.sub(r"2026-12-06T", "2099-12-06T", block).replace("ends_at", STARTS))
    assert [action for action, _ in done] == ["create"] * 4


def test_no_secret_is_ever_printed(faultcast: Run) -> None:
    Path("f.yaml").write_text(FILE.replace("to: [ops@example.com]", "to: [nobody]"))
    printed = faultcast("apply", "-f", "f.yaml")[1:]
    assert "0123456789abcdef" not in "".join(printed)
    assert "first" not in "".join(printed)
