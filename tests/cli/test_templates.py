"""`faultcast template …`: files become templates, a preview is what is read."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from master.cli import main
from tests.cli.playedserver import Server, only_asking, serving

Run = Callable[..., tuple[int, str, str]]
KEPT = {
    "id": "tpl_1", "scope": "default", "channel": None, "item": "jobFT", "language": None, "title": "",
    "text": "{{ job }}", "created_at": "2026-09-04T06:14:15.000Z",
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server(answer=KEPT)) as running:
        yield running


@pytest.fixture
def faultcast(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Server
) -> Run:
    only_asking(server.url, monkeypatch, tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(("template", *arguments))
        out, err = capsys.readouterr()
        return int(str(ended.value.code)), out, err

    return run


def sent(server: Server) -> tuple[str, str, Any]:
    asked = server.asked[-1]
    return asked["method"], asked["path"].removeprefix("/api/v1"), asked["body"]


def test_create_reads_a_file(faultcast: Run, server: Server, tmp_path: Path) -> None:
    (tmp_path / "t.j2").write_text("{{ job }}\n{{ what }}\n")
    code, out, _ = faultcast("create", "--text", "@t.j2", "--item", "jobFT", "--scope", "default/research")
    assert (code, out) == (0, "template tpl_1 created\n")
    body = {"scope": "default/research", "item": "jobFT", "text": "{{ job }}\n{{ what }}"}
    assert sent(server) == ("POST", "/templates", body)


def test_create_without_words_is_wrong_usage(faultcast: Run, server: Server) -> None:
    code, _, err = faultcast("create", "--item", "jobFT")
    assert code == 2
    assert err.startswith("faultcast: --text: ") or "--text" in err
    assert server.asked == []


def test_list_and_delete(faultcast: Run, server: Server) -> None:
    server.answer = {"items": [KEPT], "next_cursor": None}
    code, out, _ = faultcast("list", "--json")
    assert (code, json.loads(out)["items"]) == (0, [KEPT])
    assert "tpl_1" in faultcast("list")[1]
    assert faultcast("delete", "tpl_1")[:2] == (0, "template tpl_1 deleted\n")
    assert sent(server)[:2] == ("DELETE", "/templates/tpl_1")


def test_preview_of_new_words(faultcast: Run, server: Server) -> None:
    server.answer = {"title": "T", "text": "body", "format": "markdown", "error": None}
    assert faultcast("preview", "--text", "{{ job }}", "--kind", "wecom") == (0, "T\n\nbody\n", "")
    assert sent(server) == ("POST", "/templates/preview", {"text": "{{ job }}", "kind": "wecom"})


def test_preview_says_why_the_built_in_words_are_shown(faultcast: Run, server: Server) -> None:
    server.answer = {"title": "T", "text": "body", "format": "markdown", "error": "text: line 1: no"}
    code, _, err = faultcast("preview", "--text", "x")
    assert (code, "text: line 1: no" in err) == (0, True)


def test_preview_wants_one_of_both(faultcast: Run, server: Server) -> None:
    assert faultcast("preview")[0] == 2
    assert faultcast("preview", "tpl_1", "--text", "x")[0] == 2
    assert server.asked == []
