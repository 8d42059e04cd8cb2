"""What scripts rely on: exit codes, one line on stderr, JSON alone on stdout."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from master.cli import main, spell_out
from tests.cli.playedserver import Server, only_asking, serving

Run = Callable[..., "Ended"]
LIMIT_S = 30


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


@pytest.fixture
def faultcast(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Server
) -> Run:
    only_asking(server.url, monkeypatch, tmp_path)

    def run(*arguments: str) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, out, err)

    return run


def problem(status: int, *faults: tuple[str, str], detail: str = "it cannot be") -> dict[str, Any]:
    errors = [{"field": name, "message": message} for name, message in faults]
    return {"type": "about:blank", "title": "No", "status": status, "detail": detail, "errors": errors}


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (401, 2), (403, 2), (404, 2), (409, 2), (422, 2), (429, 1), (500, 1), (503, 1)],
)
def test_a_refusal_is_2_and_a_failure_1(faultcast: Run, server: Server, status: int, code: int) -> None:
    server.status, server.answer = status, problem(status)
    ended = faultcast("job", "get", "job_1")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("faultcast: it cannot be")
    assert ended.err.count("\n") == 1


def test_the_error_names_field_and_mend(faultcast: Run, server: Server) -> None:
    server.status, server.answer = 422, problem(422, ("replicas", "give 1 or more"), ("name", "too long"))
    ended = faultcast("job", "create", "--command", "true")
    assert ended == Ended(2, "", "faultcast: replicas: give 1 or more; name: too long\n")


def test_no_escape_sequence_reaches_the_terminal(faultcast: Run, server: Server) -> None:
    server.status, server.answer = 404, problem(404, detail="no job \x1b[31mred\nsecond line")
    assert faultcast("job", "get", "x").err == "faultcast: no job \\u001b[31mred second line\n"


def test_an_answer_that_is_no_json_is_a_failure(faultcast: Run, server: Server) -> None:
    server.content = b"<html>a proxy's page</html>"
    ended = faultcast("job", "list")
    assert ended.code == 1
    assert "is it a Faultcast server?" in ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("job", "list", "--nonsense"), id="unknown flag"),
        pytest.param(("nonsense",), id="unknown command"),
        pytest.param(("job", "get"), id="missing argument"),
        pytest.param(("job", "create", "--command", "x", "--replicas", "many"), id="no number"),
        pytest.param(("job", "list", "--server", "not-an-address"), id="no address"),
        pytest.param(("job", "list", "--server", "http://[::1"), id="half an address"),
        pytest.param(("job", "list", "--server", "http://127.0.0.1:99999"), id="no port"),
        pytest.param(("job", "list", "--server", "http://127.0.0.1:0"), id="port nought"),
        pytest.param(("job", "get", "\udcff"), id="name in another encoding"),
        pytest.param(("channel", "get", "\udcff"), id="channel in another encoding"),
        pytest.param(("delivery", "list", "--q", "\udcff"), id="filter in another encoding"),
        pytest.param(("migrate", "--data-dir", "/etc/passwd"), id="a file as a folder"),
        pytest.param(("migrate", "--data-dir", " "), id="no folder"),
        pytest.param(("delivery", "list", "--since", "yesterday"), id="no time"),
        pytest.param(
            ("job", "create", "--command", "x", "--label", "a=1", "--label", "a=2"), id="label twice"
        ),
        pytest.param(("channel", "create", "x"), id="no kind"),
        pytest.param(("alert", "publish"), id="no title"),
        pytest.param(("alerts", "set", "job_1"), id="no rules"),
        pytest.param(("pool", "set"), id="nothing to change"),
        pytest.param(("up", "--bind", "nowhere"), id="a setting that is wrong"),
        pytest.param(("worker", "--concurrency", "0"), id="out of range"),
    ],
)
def test_wrong_usage_is_2_in_one_line(faultcast: Run, arguments: tuple[str, ...]) -> None:
    ended = faultcast(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("faultcast: ")
    assert ended.err.count("\n") == 1


SECRET = "fct_hunter2"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--token", f"{SECRET}\nX-More: 1", "job", "list"), id="two lines"),
        pytest.param(("--token", f"{SECRET}中", "job", "list"), id="no ASCII"),
        pytest.param(("--token", f"{SECRET}\udcff", "job", "list"), id="another encoding"),
        pytest.param(("--token", " ", "job", "list"), id="blank"),
        pytest.param(("job", "list", "--server", f"http://u:{SECRET}@127.0.0.1:1"), id="in the address"),
    ],
)
def test_a_secret_of_no_form_is_refused_and_not_shown(faultcast: Run, arguments: tuple[str, ...]) -> None:
    ended = faultcast(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(("faultcast: --token: ", "faultcast: --server: "))
    assert "hunter2" not in ended.err


def test_an_error_of_ours_is_told_by_kind_and_place(faultcast: Run, server: Server) -> None:
    server.answer = {"no items": SECRET}
    ended = faultcast("job", "list")
    assert ended.code == 1
    assert "an error of ours: KeyError in client.py:" in ended.err
    assert "items" not in ended.err


def test_blanks_around_a_token_are_no_part_of_it(
    faultcast: Run, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = {"items": [], "next_cursor": None}
    monkeypatch.setenv("FAULTCAST_TOKEN", "fct_1\r\n")
    assert faultcast("job", "list").code == 0
    assert server.asked[0]["token"] == "Bearer fct_1"


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b""], ids=["folder", "no text", "empty"])
def test_an_admin_token_that_cannot_be_read_is_named(
    faultcast: Run, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "data" / "admin.token"
    path.mkdir(parents=True) if content is None else path.parent.mkdir()
    if content is not None:
        path.write_bytes(content)
    ended = faultcast("job", "list")
    assert (ended.code, str(path) in ended.err) == (2, True)


def test_a_document_nested_too_deeply_is_refused(faultcast: Run, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    ended = faultcast("alerts", "set", "pool:default", "-f", str(tmp_path / "deep"))
    assert (ended.code, ended.err.startswith("faultcast: --file: is nested too deeply")) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("job", "list", "--server", "http://127.0.0.1:1"), id="after the command"),
        pytest.param(("--server", "http://127.0.0.1:1", "job", "list"), id="before it"),
    ],
)
def test_nobody_there_is_3(faultcast: Run, arguments: tuple[str, ...]) -> None:
    ended = faultcast(*arguments)
    assert ended.code == 3
    assert "cannot reach http://127.0.0.1:1: Connection refused" in ended.err.replace("[Errno 111] ", "")


def test_json_is_one_document_and_nothing_else(faultcast: Run, server: Server) -> None:
    server.answer = {"items": [{"id": "job_1", "name": "名"}], "next_cursor": None}
    ended = faultcast("job", "list", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == {"items": [{"id": "job_1", "name": "名"}]}


def test_a_table_shows_data_as_data(faultcast: Run, server: Server) -> None:
    server.answer = {"items": [{"id": "job_1", "name": "[red]\x1b[1mx"}], "next_cursor": None}
    assert "[red]\\u001b[1mx" in faultcast("job", "list").out


def test_a_list_follows_the_cursor(faultcast: Run, server: Server) -> None:
    server.answer = {"items": [{"id": "a"}] * 2, "next_cursor": "next"}
    ended = faultcast("delivery", "list", "--state", "failed", "--limit", "3", "--json")
    assert len(json.loads(ended.out)["items"]) == 4
    assert [asked["path"] for asked in server.asked] == [
        "/api/v1/deliveries?state=failed&limit=3",
        "/api/v1/deliveries?state=failed&limit=1&cursor=next",
    ]


@pytest.mark.parametrize("place", ["flag", "environment", "file", "dotenv", "data dir"])
def test_the_token_is_found(
    faultcast: Run, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    server.answer = {"items": [], "next_cursor": None}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin.token").write_text("fct_0\n" if place != "data dir" else "fct_1\n")
    (tmp_path / "token").write_text("fct_1\n")
    if place == "environment":
        monkeypatch.setenv("FAULTCAST_TOKEN", "fct_1")
    elif place == "file":
        monkeypatch.setenv("FAULTCAST_TOKEN_FILE", str(tmp_path / "token"))
    elif place == "dotenv":
        (tmp_path / ".env").write_text("FAULTCAST_TOKEN=fct_1\n")
    assert faultcast("node", "list", *(["--token", "fct_1"] if place == "flag" else [])).code == 0
    assert server.asked[0]["token"] == "Bearer fct_1"


def test_baidus_flags_as_they_stand_in_scripts(faultcast: Run, server: Server) -> None:
    server.answer = {"id": "job_1", "name": "n", "status": "Created", "warnings": []}
    ended = faultcast(
        "job", "create", "-p", "pool", "-q", "queue", "--name", "n", "--command", "--odd", "--enable-rdma",
        "--enable-fault-tolerance", "--fault-tolerance-args", "--enable-replace=true", "--host-network=false",
    )  # fmt: skip
    assert ended.out == "job_1 n Created\n"
    assert server.asked[0]["body"] == {
        "resourcePoolId": "pool",
        "queue": "queue",
        "name": "n",
        "command": "--odd",
        "faultTolerance": True,
        "faultToleranceArgs": "--enable-replace=true",
        "jobSpec": {"enableRDMA": True, "hostNetwork": False},
    }


@pytest.mark.parametrize(("status", "code"), [("Succeeded", 0), ("Failed", 1), ("Stopped", 1)])
def test_wait_ends_as_the_job_did(faultcast: Run, server: Server, status: str, code: int) -> None:
    server.answer = {"id": "job_1", "name": "n", "status": status, "reason": "a bug", "warnings": []}
    ended = faultcast("job", "create", "--command", "x", "--wait", "--json")
    assert (ended.code, json.loads(ended.out)["status"]) == (code, status)


def test_wait_names_the_error_that_ended_the_job(faultcast: Run, server: Server) -> None:
    job = {"id": "job_1", "name": "n", "status": "Failed", "reason": "it stops", "warnings": []}
    server.answer = {**job, "items": [{"reason": "The training code failed (ValueError: bad batch)."}]}
    ended = faultcast("job", "create", "--command", "x", "--wait")
    assert "ended as Failed: The training code failed (ValueError: bad batch). it stops" in ended.err


@pytest.mark.parametrize(
    ("flags", "body"),
    [((), {}), (("--comment", "换盘中"), {"comment": "换盘中"})],
    ids=["silently", "with a word"],
)
def test_an_alert_is_acknowledged(
    faultcast: Run, server: Server, flags: tuple[str, ...], body: dict[str, str]
) -> None:
    server.answer = {"id": "alr_1", "acked_by": "admin", "acked_at": "2026-11-29T03:00:00Z"}
    ended = faultcast("alert", "ack", "alr_1", *flags)
    assert (ended.code, ended.out) == (0, "alr_1 acknowledged (admin, 2026-11-29T03:00:00Z)\n")
    (asked,) = server.asked
    assert (asked["path"], asked["body"]) == ("/api/v1/alerts/alr_1/ack", body)


def test_stacks_that_could_not_be_read_are_named(faultcast: Run, server: Server) -> None:
    frame = {"name": "spin\x1b[31m (train.py:7)", "ranks_in": "0", "ranks_not_in": "", "children": []}
    server.answer = {
        "collected_at": "2026-11-29T03:00:00Z", "ranks": [0, 1], "frames": [frame],
        "errors": {"1": "py-spy: Permission denied"},
    }  # fmt: skip
    ended = faultcast("job", "stacks", "job_1")
    assert ended.code == 1
    assert "from 1 rank\n" in ended.out
    assert "spin\\u001b[31m (train.py:7)" in ended.out
    assert "rank 1: py-spy: Permission denied" in ended.err


def test_no_stack_at_all_is_a_failure(faultcast: Run, server: Server) -> None:
    server.answer = {"collected_at": None, "ranks": [], "frames": [], "errors": {}}
    ended = faultcast("job", "stacks", "job_1")
    assert (ended.code, "no rank answered" in ended.err) == (1, True)


def test_the_timeline_is_a_table(faultcast: Run, server: Server) -> None:
    server.answer = {
        "job_id": "job_1", "status": "Failed", "wall_s": 61.5, "effective_ratio": 0.5,
        "runs": [
            {"n": 0, "started_at": "2026-11-29T03:00:00Z", "first_step_at": "2026-11-29T03:00:05Z",
             "first_step": 1, "last_step": 9, "ended_at": None, "end_reason": "hang: hang"},
        ],
        "faults": [
            {"time": "2026-11-29T03:00:30Z", "run": 0, "fault_class": "hang", "cause": "hang",
             "culprit": {"rank": 1, "pod": None, "node": "node-2"},
             "decision": {"action": "none", "would": {"action": "restart_job"}},
             "detected_at": "2026-11-29T03:00:31Z", "decided_at": "2026-11-29T03:00:32Z",
             "recovered_at": None, "steps_lost": None},
        ],
    }  # fmt: skip
    out = faultcast("job", "timeline", "job_1").out
    assert out.startswith("job_1 Failed: 61.5 s, effective training 50.0 %\n")
    assert "rank 1, node node-2" in out
    assert "+2.0 s" in out
    assert "none (would: restart_job)" in out
    assert "{" not in out


def test_a_time_without_a_zone_is_this_machines(faultcast: Run, server: Server) -> None:
    server.answer = {"items": [], "next_cursor": None}
    faultcast("delivery", "list", "--since", "2026-11-29 11:00")
    meant = datetime(2026, 11, 29, 11).astimezone().isoformat()
    assert f"since={quote(meant, safe='')}&" in server.asked[0]["path"]


@pytest.mark.parametrize(("outcome", "code"), [("delivered", 0), ("accepted", 0), ("channel_broken", 1)])
def test_a_channel_test_that_is_not_delivered_fails(
    faultcast: Run, server: Server, outcome: str, code: int
) -> None:
    server.answer = {"outcome": outcome, "provider_code": "310000", "provider_message": "sign not match"}
    assert faultcast("channel", "test", "a/b").code == code
    assert server.asked[0]["path"] == "/api/v1/channels/a%2Fb/test"


def test_bare_switches_mean_true_and_only_in_job_commands() -> None:
    assert spell_out(["job", "create", "--privileged"]) == ["job", "create", "--privileged=true"]
    assert spell_out(["--token", "t", "job", "create", "--privileged"])[-1] == "--privileged=true"
    assert spell_out(["standin", "--privileged"]) == ["standin", "--privileged"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "master.cli", *arguments]


def test_help_is_quick() -> None:
    """By the processor's time: the machine may be busy with other things."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command("--help"), check=True, capture_output=True, timeout=LIMIT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.5


def test_a_reader_that_leaves_causes_no_traceback(server: Server) -> None:
    server.answer = {"items": [{"id": f"job_{n}", "name": "x" * 500} for n in range(9)], "next_cursor": None}
    process = subprocess.Popen(
        command("job", "list", "--json", "--server", server.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as errors:
        said = errors.read()
    assert (process.wait(LIMIT_S), said) == (1, "")


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """A shell starts what it puts into the background deaf to Ctrl-C, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_while_waiting_causes_no_traceback(server: Server) -> None:
    server.answer = {"id": "job_1", "name": "n", "status": "Running", "warnings": []}
    with subprocess.Popen(
        command("job", "create", "--command", "x", "--wait", "--server", server.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "n: Running\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in said


def shell(script: str, server: Server, **settings: str) -> "subprocess.CompletedProcess[str]":
    """A command whose output goes where the script says."""
    words = " ".join(shlex.quote(word) for word in command())
    return subprocess.run(
        ["/bin/sh", "-c", script.replace("faultcast", words)],
        env={**os.environ, "FAULTCAST_SERVER": server.url, **settings},
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("faultcast job list --json >/dev/full", 1, id="a full disk"),
        pytest.param("faultcast job list --json >&-", 2, id="a closed output"),
    ],
)
def test_an_output_that_takes_nothing_is_named_in_one_line(server: Server, script: str, code: int) -> None:
    server.answer = {"items": [], "next_cursor": None}
    ended = shell(script, server)
    assert ended.returncode == code
    assert ended.stderr.startswith("faultcast: standard output")
    assert ended.stderr.count("\n") == 1


def test_what_the_terminal_cannot_show_is_escaped(server: Server) -> None:
    server.answer = {"items": [{"id": "job_1", "name": "训练"}], "next_cursor": None}
    ended = shell("faultcast job list", server, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\\u8bad\\u7ec3" in ended.stdout
