"""What comes from outside is checked where it comes in: environment, pod.json, exits, command lines."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.exits import Exit, from_wait_status, supervised, torchelastic_failure
from agent.podfile import PodFileError, parse
from agent.proc import parse_stat
from agent.redact import command_line
from agent.settings import SettingsError, load

GOOD = {"FAULTCAST_SERVER": "http://127.0.0.1:8642", "FAULTCAST_AGENT_TOKEN": "fct_x"}


def test_the_environment_of_a_pods_agent(tmp_path: Path) -> None:
    settings = load(GOOD | {"FAULTCAST_POD_DIR": str(tmp_path)}, node=False)
    assert (settings.server, settings.token.read(), settings.directory) == (
        "http://127.0.0.1:8642",
        "fct_x",
        tmp_path,
    )


def test_a_token_in_a_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("fct_one\n")
    env = {"FAULTCAST_AGENT_TOKEN_FILE": str(path), "FAULTCAST_POD_DIR": str(tmp_path)}
    token = load(env, node=False).token
    path.write_text("fct_two\n")
    assert token.read() == "fct_two"


def test_the_token_does_not_print() -> None:
    env = GOOD | {"FAULTCAST_AGENT_TOKEN": "fct_secret", "FAULTCAST_POD_DIR": "/tmp"}
    assert "fct_secret" not in repr(load(env, node=False))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param({"FAULTCAST_SERVER": "ftp://x"}, "FAULTCAST_SERVER", id="scheme"),
        pytest.param({"FAULTCAST_SERVER": "http://x:99999"}, "FAULTCAST_SERVER", id="port"),
        pytest.param({"FAULTCAST_SERVER": "http://[::1"}, "FAULTCAST_SERVER", id="half an address"),
        pytest.param({"FAULTCAST_SERVER": "http://u:p@x"}, "FAULTCAST_SERVER", id="credentials"),
        pytest.param({"FAULTCAST_AGENT_TOKEN": ""}, "FAULTCAST_AGENT_TOKEN", id="no-token"),
        pytest.param({"FAULTCAST_AGENT_TOKEN": "a\r\nb"}, "FAULTCAST_AGENT_TOKEN", id="header-in-token"),
        pytest.param({"FAULTCAST_AGENT_TOKEN_FILE": "/no/such"}, "FAULTCAST_AGENT_TOKEN_FILE", id="no-file"),
        pytest.param({"FAULTCAST_POD_DIR": "/no/such"}, "FAULTCAST_POD_DIR", id="no-directory"),
        pytest.param({"FAULTCAST_POD_DIR": ""}, "FAULTCAST_POD_DIR", id="directory-unset"),
    ],
)
def test_a_wrong_variable_is_named_and_no_secret_told(change: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named) as caught:
        load(GOOD | {"FAULTCAST_POD_DIR": "/tmp"} | change, node=False)
    assert "u:p" not in str(caught.value)


def test_a_node_agent_needs_its_nodes_name() -> None:
    with pytest.raises(SettingsError, match="FAULTCAST_NODE"):
        load(GOOD, node=True)


def test_a_node_agent_keeps_its_spool_beside_the_log_it_follows(tmp_path: Path) -> None:
    env = GOOD | {"FAULTCAST_NODE": "node-1", "FAULTCAST_KERNEL_LOG": str(tmp_path / "kernel.log")}
    assert load(env, node=True).directory == tmp_path / "agent"


def described(**fields: Any) -> str:
    return json.dumps({"pid": 7, "main_pid": 8, "log": "pod.log", "rank": 1, "nproc": 2} | fields)


def test_a_pods_description(tmp_path: Path) -> None:
    pod = parse(described(log=["a.log", "/var/b.log"], progress="step"), tmp_path)
    assert pod.logs == (tmp_path / "a.log", Path("/var/b.log"))
    assert pod.progress == tmp_path / "step"
    assert (pod.shape.supervisor, pod.shape.main_pid, pod.shape.rank, pod.shape.nproc) == (7, 8, 1, 2)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "pid"),
        (described(pid="7"), "pid"),
        (described(pid=True), "pid"),
        (described(rank=-1), "rank"),
        (described(nproc=1e400), "nproc"),
        (described(log=[7]), "log"),
        (described(progress="a\0b"), "progress"),
    ],
)
def test_a_wrong_description_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(PodFileError, match=named):
        parse(text, Path("/tmp"))


@pytest.mark.parametrize(
    ("status", "expected"),
    [(0, Exit(code=0)), (7 << 8, Exit(code=7)), (9, Exit(signal=9)), (0x80 | 11, Exit(signal=11))],
)
def test_wait_statuses(status: int, expected: Exit) -> None:
    assert from_wait_status(status) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"pid": 5, "exit_code": 3, "signal": null, "at": "x"}', (5, Exit(code=3))),
        ('{"pid": 5, "exit_code": null, "signal": 9}', (5, Exit(signal=9))),
        ('{"pid": "5", "exit_code": 3}', None),
        ('{"pid": 5, "exit_code": "3"}', None),
        ('{"exit_code": 3}', None),
        ("half a li", None),
        ("[1]", None),
    ],
)
def test_the_supervisors_word(line: str, expected: tuple[int, Exit] | None) -> None:
    assert supervised(line) == expected


def test_torchelastics_word() -> None:
    line = "E1 api.py:1002] failed (exitcode: -11) local_rank: 5 (pid: 59469) of binary: /usr/bin/python"
    failure = torchelastic_failure(line)
    assert failure is not None
    assert (failure.pid, failure.local_rank, failure.exit) == (59469, 5, Exit(signal=11))
    assert torchelastic_failure("exitcode : 1 (pid: 59469)") is None


def test_a_process_name_may_hold_anything() -> None:
    fields = b" ".join(str(n).encode() for n in range(4, 53))
    found = parse_stat(b"42 (a) b (c)) S " + fields + b"\n")
    assert found is not None
    assert (found.pid, found.comm, found.state, found.ppid, found.start) == (42, "a) b (c)", "S", 4, 22)
    assert found.exit_status == 52


@given(st.binary(max_size=200))
def test_no_stat_line_breaks_the_reading(text: bytes) -> None:
    parse_stat(text)


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["python", "train.py", "--lr", "0.1"], "python train.py --lr 0.1"),
        (["x", "--api-key=abc"], "x --api-key=***"),
        (["x", "--hf-token", "hf_abc", "--lr", "1"], "x --hf-token *** --lr 1"),
        (["env", "AWS_SECRET=abc", "python"], "env AWS_SECRET=*** python"),
        (["x", "--use-auth", "--lr", "1"], "x --use-auth --lr 1"),
        (["sh", "-c", "a\nb"], "sh -c a b"),
    ],
)
def test_command_lines_show_no_secrets(argv: list[str], shown: str) -> None:
    assert command_line(argv) == shown


def test_a_long_command_line_is_cut() -> None:
    assert len(command_line(["x" * 10_000])) == 400
