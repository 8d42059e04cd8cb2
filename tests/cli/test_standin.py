"""`faultcast standin` prints commands: each makes a channel, and a test of it reaches the played provider."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from tests.cli.test_up import Up, command, environment, started

pytestmark = pytest.mark.timeout(240)
KINDS = ("dingtalk", "wecom", "feishu", "webhook", "email", "apprise", "sms", "phone")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    with (
        (folder / "log").open("w") as log,
        started(folder / "data", log, FAULTCAST_ALLOW_TARGETS="127.0.0.0/8") as found,
    ):
        yield found


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, object]]:
    with subprocess.Popen(command("standin"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
        process.terminate()


def run(up: Up, *words: str) -> "subprocess.CompletedProcess[str]":
    env = environment(up.data_dir, FAULTCAST_SERVER=up.url)
    return subprocess.run(
        [sys.executable, "-m", "master.cli", *words],
        env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def post(up: Up, path: str) -> dict[str, object]:
    token = (up.data_dir / "admin.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    answer = urllib3.request("POST", f"{up.url}/api/v1{path}", headers=headers, timeout=30, retries=False)
    found: dict[str, object] = json.loads(answer.data)
    return found


def test_there_is_one_for_every_kind_and_provider(known: dict[str, object]) -> None:
    commands = [shlex.split(line) for line in known["commands"]]
    assert {words[words.index("--kind") + 1] for words in commands} == set(KINDS)
    providers = [words[words.index("--provider") + 1] for words in commands if "--provider" in words]
    assert sorted(providers) == sorted([*("aliyun", "tencent", "twilio") * 2, "baidu"])


def test_each_of_them_makes_a_channel_whose_test_arrives(up: Up, known: dict[str, object]) -> None:
    for line in known["commands"]:
        words = shlex.split(line)
        made = run(up, *words[1:])
        assert made.returncode == 0, f"{line}\n{made.stderr}"
        tried = post(up, f"/channels/{words[3]}/test")
        assert tried["outcome"] in ("delivered", "accepted"), f"{line}\n{tried}"


def test_a_test_that_nobody_got_shows_the_providers_word_and_fails(up: Up, known: dict[str, object]) -> None:
    url = known["robots"]["dingtalk"]["url"].replace("=demo", "=unknown")
    made = run(up, "channel", "create", "wrong", "--kind", "dingtalk", "--webhook-url", url)
    assert made.returncode == 0
    assert "warning: secret, keyword:" in made.stderr
    assert "warning" not in made.stdout
    tried = run(up, "channel", "test", "wrong")
    assert tried.returncode == 1
    for shown in ("channel_broken", "200", "300005", "token is not exist", "latency_s"):
        assert shown in tried.stdout
    assert "not delivered" in tried.stderr
    assert "Traceback" not in tried.stderr


def test_a_credential_may_come_by_stdin(up: Up, known: dict[str, object], tmp_path: Path) -> None:
    account = known["accounts"]["aliyun"]
    (tmp_path / "id").write_text(account["credentials"]["access_key_id"] + "\n", encoding="utf-8")
    words = ["channel", "create", "piped", "--kind", "sms", "--provider", "aliyun", "--to", "+8613900002222"]
    words += ["--endpoint", account["endpoint"], "--template-id", account["template_id"]]
    words += ["--sign-name", account["sign_name"], "--param", "title={{ title }}"]
    words += ["--credential", f"access_key_id=@{tmp_path}/id", "--credential", "access_key_secret=@-"]
    done = subprocess.run(
        [sys.executable, "-m", "master.cli", *words],
        input=account["credentials"]["access_key_secret"],
        env=environment(up.data_dir, FAULTCAST_SERVER=up.url),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert run(up, "channel", "test", "piped").returncode == 0
