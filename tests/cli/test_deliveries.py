"""`faultcast delivery …`: steps, export, sending many again, expunge."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from master.cli import main
from tests.cli.playedserver import Server, only_asking, serving


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]
COUNTED: dict[str, Any] = {
    "matched": 3, "would_send": 2, "over": 1, "sent": 2, "skipped": {"delivered_since": 1},
    "deliveries": ["a", "b"], "next_cursor": None,
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


@pytest.fixture
def faultcast(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Server
) -> Run:
    only_asking(server.url, monkeypatch, tmp_path)

    def run(*arguments: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main(("delivery", *arguments))
        out, err = capfdbinary.readouterr()
        return Ended(int(str(ended.value.code)), out.decode(), err.decode())

    return run


def test_get_says_how_long_each_step_took(faultcast: Run, server: Server) -> None:
    server.answer = {
        "id": "dlv_1",
        "steps": {
            "accepted_at": "2026-11-29T03:12:41Z", "claimed_at": "2026-11-29T03:12:43Z",
            "sent_at": "2026-11-29T03:12:43Z", "answered_at": "2026-11-29T03:12:50Z",
            "waited_s": 2.0, "rendered_s": 0.04, "provider_s": 7.21,
        },
    }  # fmt: skip
    assert "claimed +2.0 s → sent +0.0 s → answered +7.2 s" in faultcast("get", "dlv_1").out


def test_export_writes_what_comes(faultcast: Run, server: Server, tmp_path: Path) -> None:
    server.content = "编号,a\r\n1,2\r\n".encode()
    ended = faultcast("export", "--state", "failed", "--format", "csv")
    assert (ended.code, ended.out.encode()) == (0, server.content)
    assert faultcast("export", "-o", "log.csv").code == 0
    assert (tmp_path / "log.csv").read_bytes() == server.content
    assert [asked["path"] for asked in server.asked] == [
        "/api/v1/deliveries/export?state=failed&format=csv",
        "/api/v1/deliveries/export?format=ndjson",
    ]


def test_an_export_that_is_refused_leaves_no_file(faultcast: Run, server: Server, tmp_path: Path) -> None:
    server.status = 422
    server.answer = {"errors": [{"field": "q", "message": "give a word"}]}
    ended = faultcast("export", "--q", "%", "-o", "log.ndjson")
    assert (ended.code, ended.err.strip()) == (2, "faultcast: q: give a word")
    assert list(tmp_path.glob("log*")) == []


def test_a_file_that_cannot_be_written_is_named(faultcast: Run, server: Server) -> None:
    server.content = b"x"
    ended = faultcast("export", "-o", "none/log.csv")
    assert (ended.code, "--output: none/log.csv" in ended.err) == (2, True)


def test_many_are_sent_again_by_filters(faultcast: Run, server: Server) -> None:
    server.answer = COUNTED
    ended = faultcast("resend", "--state", "failed", "--channel", "oncall", "--dry-run")
    over = "1 of an alert that is over: told as resolved"
    assert ended.out.strip() == f"would send 2 of 3 that match; {over}; left out: 1 delivered_since"
    (asked,) = server.asked
    assert (asked["path"], asked["body"]["dry_run"]) == ("/api/v1/deliveries/resend", True)
    assert asked["body"]["filter"] == {"state": "failed", "channel": "oncall"}
    counted = json.loads(faultcast("resend", "--state", "failed", "--json").out)
    assert (counted["sent"], counted["deliveries"]) == (2, ["a", "b"])


@pytest.mark.parametrize("flags", [("--state", "failed"), ("--dry-run",)])
def test_one_delivery_and_filters_do_not_go_together(faultcast: Run, server: Server, flags: Any) -> None:
    ended = faultcast("resend", "dlv_1", *flags)
    assert (ended.code, server.asked) == (2, [])


@pytest.mark.parametrize("command", ["list", "export", "resend"])
@pytest.mark.parametrize("flags", [("--q", ""), ("--q", "  "), ("--channel", ""), ("--job", " ", "--q", "x")])
def test_a_filter_that_is_empty_is_not_left_out(
    faultcast: Run, server: Server, command: str, flags: tuple[str, ...]
) -> None:
    ended = faultcast(command, *flags)
    assert (ended.code, f"{flags[0]}: is empty" in ended.err, server.asked) == (2, True, [])


def test_who_names_nothing_to_be_sent_again_hears_the_flag_for_all(faultcast: Run, server: Server) -> None:
    ended = faultcast("resend", "--dry-run")
    assert (ended.code, "--all" in ended.err, server.asked) == (2, True, [])


@pytest.mark.parametrize("name", ["", " ", ".", ".."])
@pytest.mark.parametrize("command", ["get", "expunge", "resend"])
def test_what_is_no_id_is_not_asked_for(faultcast: Run, server: Server, command: str, name: str) -> None:
    ended = faultcast(command, name)
    assert (ended.code, "the name or ID" in ended.err, server.asked) == (2, True, [])


def test_expunge_asks_for_it(faultcast: Run, server: Server) -> None:
    server.answer = {"id": "dlv_1", "why": "its content was removed on request"}
    assert "removed" in faultcast("expunge", "dlv_1").out
    assert (server.asked[0]["method"], server.asked[0]["path"]) == (
        "DELETE",
        "/api/v1/deliveries/dlv_1/content",
    )
