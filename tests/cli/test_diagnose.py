"""`faultcast diagnose`: what scripts and people get of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BUNDLE = {"log": [{"t": "2026-01-12T03:00:00Z", "node": "node-a", "rank": 2, "src": "stderr", "line": OOM}]}


def run(*arguments: str | Path, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    given = {name: value for name, value in os.environ.items() if not name.startswith("FAULTCAST_")}
    return subprocess.run(
        [sys.executable, "-m", "master.cli", "diagnose", *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False, env=given | environment,
        cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank2.log"
    path.write_text(f"step 1 | loss 1\n{OOM}\n")
    return path


def test_json_is_one_document(log: Path, tmp_path: Path) -> None:
    ended = run(log, "--json", folder=tmp_path)
    document = json.loads(ended.stdout)
    assert (ended.returncode, ended.stderr) == (0, "")
    (fault,) = document["faults"]
    assert (fault["cause"], fault["culprit"], fault["action"]) == (
        "cuda_oom",
        {"rank": 2, "node": None},
        "fail_job",
    )
    assert fault["evidence"] == [{"file": str(log), "line_no": 2, "rank": 2, "node": None, "text": OOM}]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", ["故障", "显存不足", "证据", "rank2.log:2"]),
        ("en", ["Fault", "out of GPU memory", "evidence", "rank2.log:2"]),
    ],
)
def test_people_get_an_answer_in_their_language(
    log: Path, tmp_path: Path, language: str, words: list[str]
) -> None:
    ended = run(log, folder=tmp_path, FAULTCAST_LANGUAGE=language)
    assert ended.returncode == 0
    assert all(word in ended.stdout for word in words)


def test_logs_without_a_fault_are_no_failure(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step 1 | loss 1\n")
    ended = run(tmp_path, folder=tmp_path, FAULTCAST_LANGUAGE="en")
    assert (ended.returncode, ended.stdout) == (0, "No fault found\n")


def test_a_jsonl_is_answered_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text("\n".join([json.dumps(BUNDLE), "", json.dumps({"log": []})]))
    ended = run(tmp_path / "cases.jsonl", "--json", folder=tmp_path)
    documents: list[Any] = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [len(document["faults"]) for document in documents] == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "gone: no such file or folder"),
        (["bad.json"], "bad.json: not JSON"),
        (["shape.json"], 'shape.json: log[0]: "line" must be a text'),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "shape.json").write_text('{"log": [{"t": "2026-01-12T03:00:00Z"}]}')
    ended = run(*(tmp_path / one for one in arguments), "--json", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert message in ended.stderr


def test_a_language_that_is_none_is_refused(log: Path, tmp_path: Path) -> None:
    ended = run(log, folder=tmp_path, FAULTCAST_LANGUAGE="fr")
    assert ended.returncode == 2
    assert "FAULTCAST_LANGUAGE" in ended.stderr


def test_it_starts_without_server_database_and_torch(log: Path) -> None:
    code = (
        "import sys; sys.argv = ['faultcast', 'diagnose', sys.argv[1]]\n"
        "from master.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'sqlalchemy', 'fastapi', 'torch', 'alembic'} & {*sys.modules}), "
        "file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, text=True, check=True)
    assert ended.stderr == "[]\n"
