"""`faultcast doctor`: what it finds here and far away, the mend, and the exit code."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller as MailController
from pydantic import SecretStr
from sqlalchemy import text, update

from master.cli.doctor import OTHERS
from master.doctor import Doctor
from master.doctorwords import NOT_SET, STRANGER, WORDS
from master.model import Job, Leader, Node
from master.runtimes.local import LocalRuntime
from notifier.clock import utcnow
from notifier.model import AlertConfig, Channel, Delivery, Oncall, Worker
from notifier.secretbox import open_box
from notifier.settings import SECRETS, Settings
from notifier.storage import Store
from tests.certificates import made
from tests.cli.test_server import ask, run, serving
from tests.console.conftest import row

KEY = "the key of this database"
ROOT = Path(__file__).parents[2]


def found(data: Path, *flags: str, **settings: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code and the worst finding of each name."""
    ended = run(data, "doctor", "--json", *flags, **{"FAULTCAST_LANGUAGE": "en", **settings})
    document = json.loads(ended.stdout)
    order = ("fail", "warn", "ok")
    checks: dict[str, dict[str, str]] = {}
    for check in sorted(document["checks"], key=lambda check: order.index(check["level"])):
        checks.setdefault(check["what"], check)
    assert document["ok"] is (ended.returncode == 0)
    return ended.returncode, checks


Seen = dict[str, list[tuple[str, str]]]  # name → levels, and what was said


def looked(data: Path, **given: Any) -> Seen:
    """The same without a process of its own."""
    seen: Seen = {}
    for one in Doctor(Settings(_env_file=None, data_dir=data, language="en", **given)).look():
        seen.setdefault(one.what, []).append((one.level, f"{one.detail} {one.mend}"))
    return seen


def test_a_fresh_machine_is_told_how_to_begin(tmp_path: Path) -> None:
    code, checks = found(tmp_path / "none")
    assert code == 1
    assert "faultcast up" in checks["data_dir"]["mend"]
    assert "faultcast migrate" in checks["database"]["mend"]
    assert not (tmp_path / "none").exists(), "looking changes nothing"


def test_settings_that_are_wrong_are_the_finding(tmp_path: Path) -> None:
    code, checks = found(tmp_path, FAULTCAST_WORKERS="many")
    assert (code, list(checks)) == (1, ["settings"])
    assert "FAULTCAST_WORKERS" in checks["settings"]["detail"]


def test_a_name_that_nobody_reads_is_told_with_the_one_that_is_meant(tmp_path: Path) -> None:
    ended = run(tmp_path, "doctor", FAULTCAST_LANGAUGE="zh", FAULTCAST_XYZZY="1", FAULTCAST_TOKEN="fct_x")
    told = [line.split(maxsplit=2) for line in ended.stdout.splitlines() if " settings " in line]
    assert [(level, said) for level, _, said in told] == [
        ("warn", "FAULTCAST_LANGAUGE 不是设置项，不会被读取  → 也许是 FAULTCAST_LANGUAGE"),
        ("warn", "FAULTCAST_XYZZY 不是设置项，不会被读取  → 请删除，或查看设置项列表"),
    ]
    (server,) = [line.split(maxsplit=2) for line in ended.stdout.splitlines() if " server " in line]
    assert server[0] == "warn"
    assert re.fullmatch(r"http://\S+ 没有应答（\[Errno 111\] Connection refused）  → 启动它.+", server[2])


def test_every_name_that_is_read_anywhere_is_known_to_it() -> None:
    known = {name.upper() for name in Settings.model_fields} | {f"{name.upper()}_FILE" for name in SECRETS}
    for part in ("agent", "channels", "master", "notifier"):
        for path in (ROOT / part).rglob("*.py"):
            read = set(re.findall(r"\bFAULTCAST_([A-Z]+(?:_[A-Z]+)*)\b", path.read_text()))
            assert not read - known - {*OTHERS}, path


def test_here_and_far_away(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    assert run(data, "migrate").returncode == 0
    try:
        with serving(data) as url:
            code, checks = found(data, FAULTCAST_BIND=url.removeprefix("http://"))
            assert code == 0
            assert {checks[name]["level"] for name in ("server", "key", "writes", "server.database")} == {
                "ok"
            }
            token = (data / "admin.token").read_text().strip()
            code, checks = found(elsewhere, "--server", url, "--token", token)
            assert code == 0
            assert "database" not in checks, "this machine is not asked"
            assert {checks[name]["level"] for name in ("server", "clock", "server.channels")} == {"ok"}
            assert checks["server.workers"]["level"] == "warn"
            assert found(elsewhere, "--server", url)[1]["server.channels"]["level"] == "warn"
            assert "server.oncall" not in checks
            hook = {"name": "gone", "kind": "webhook", "config": {"url": "https://example.com/hook"}}
            night = {"name": "night", "turn": "daily", "start": "2026-11-30", "people": ["gone"]}
            ask(data, url, "POST", "/channels", hook)
            ask(data, url, "POST", "/oncall", night)
            ask(data, url, "DELETE", "/channels/gone")
            checks = found(elsewhere, "--server", url, "--token", token)[1]
            assert "oncall:default/night: gone" in checks["server.oncall"]["detail"]
    finally:
        LocalRuntime(data, 3).shutdown()
    code, checks = found(elsewhere, "--server", url)
    assert (code, checks["server"]["level"]) == (3, "fail")


def test_people_get_a_line_for_each_with_its_mend(tmp_path: Path) -> None:
    ended = run(tmp_path / "none", "doctor", FAULTCAST_LANGUAGE="zh")
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("fail  data_dir")]
    assert line.endswith("→ 运行 faultcast up 或 faultcast migrate，或设置 FAULTCAST_DATA_DIR")
    assert ended.stderr == ""


def test_a_database_with_troubles(store: Store, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    settings = Settings(_env_file=None, data_dir=data, secret_key=KEY)
    open_box(settings, store)
    now = utcnow()
    with store.write() as session:
        session.add(row(Channel, id="chn_1", pool="p", queue="q", name="oncall", kind="webhook", config={},
                        shard=1, health="broken"))  # fmt: skip
        session.add(row(Node, name="node-7", pool="p", agent_seen_at=now - timedelta(hours=1)))
        for n, behind_s in enumerate((0.1, -45.0)):
            session.add(row(Worker, id=f"wrk_{n}", host=f"host-{n}", pid=1, version=f"1.{n}", concurrency=1,
                            seen_at=now, behind_s=behind_s))  # fmt: skip
    known = {"database_url": store.engine.url.render_as_string(hide_password=False), "secret_key": KEY}
    seen = looked(data, **known)
    assert seen["channels"][0][0] == "warn"
    assert "p/q/oncall" in seen["channels"][0][1]
    assert (seen["agents"][0][0], seen["agents"][0][1].split()[1]) == ("warn", "node-7")
    assert [level for level, _ in seen["workers"]] == ["ok", "warn"]
    assert "host-0, host-1" in seen["workers"][0][1]
    assert "1.0, 1.1" in seen["workers"][1][1]
    assert (seen["clock"][-1][0], seen["clock"][-1][1][:6]) == ("fail", "45.0 s")
    assert looked(data, **{**known, "secret_key": "the key of another one"})["key"][0][0] == "fail"
    with store.write() as session:
        session.execute(update(Channel).values(health="ok"))
    assert looked(data, **known)["channels"][0][0] == "ok"


def test_who_names_what_is_not_there(store: Store, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path, secret_key=KEY)
    open_box(settings, store)
    known = {"database_url": store.engine.url.render_as_string(hide_password=False), "secret_key": KEY}
    rules = {"rules": [{"channels": ["here", "gone"], "fallback": ["night"]}]}
    with store.write() as session:
        channel = {"kind": "webhook", "config": {}, "shard": 1, "health": "ok"}
        session.add(row(Channel, id="chn_1", pool="p", name="here", **channel))
        spec = {
            "turn": "daily",
            "start": "2026-11-30",
            "people": [{"name": "li", "channels": ["here", "lost"]}],
        }
        session.add(row(Oncall, id="onc_1", pool="p", name="night", spec=spec))
        for name, status in (("job_1", "Running"), ("job_2", "Failed")):
            session.add(row(Job, id=name, pool="p", queue="q", name=name, status=status, spec={},
                            fault_tolerance={}, warnings=[]))  # fmt: skip
        for kind, owner in (("pool", "p"), ("job", "job_1"), ("job", "job_2")):
            session.add(row(AlertConfig, owner_kind=kind, owner_id=owner, config=rules))
    ((level, said),) = looked(tmp_path, **known)["rules"]
    assert level == "warn"
    assert "pool:p: gone; job_1: gone; oncall:p/night: lost " in said
    with store.write() as session:
        for n, name in enumerate(("gone", "lost"), 2):
            session.add(row(Channel, id=f"chn_{n}", pool="p", name=name, **channel))
    assert looked(tmp_path, **known)["rules"][0][0] == "ok"


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # its revision is changed
def test_a_chinese_doctor_speaks_no_english(store: Store, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path, secret_key=KEY, language="zh")
    open_box(settings, store)
    long_ago = utcnow() - timedelta(minutes=5)
    with store.write() as session:
        session.add(Leader(pool="p", holder="x", until=long_ago))
        session.add(row(Delivery, id="dlv_1", state="pending", next_attempt_at=long_ago, expires_at=long_ago))
    url = store.engine.url.render_as_string(hide_password=False)
    known = settings.model_copy(update={"database_url": SecretStr(url)})
    seen = [(one.what, one.detail) for one in Doctor(known).look() if one.level != "ok"]
    with store.write() as session:
        session.execute(text("update alembic_version set version_num = '0000'"))
    seen += [(one.what, one.detail) for one in Doctor(known).look() if one.what == "database"]
    assert {"workers", "leader", "database"} <= {what for what, _ in seen}
    assert [said for _, said in seen if re.search("[a-z]+ [a-z]+ [a-z]+", said)] == []


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    settings = {"FAULTCAST_DATABASE_URL": "postgresql://u:hidden@127.0.0.1:1/x", "FAULTCAST_SECRET_KEY": KEY}
    ended = run(tmp_path, "doctor", "--json", FAULTCAST_LANGUAGE="en", **settings)
    assert ended.returncode == 1
    assert "PostgreSQL does not answer" in ended.stdout
    assert "hidden" not in ended.stdout + ended.stderr


def test_what_others_may_read(tmp_path: Path) -> None:
    token = tmp_path / "admin.token"
    token.write_text("fct_x")
    token.chmod(0o644)
    tmp_path.chmod(0o700)
    assert [level for level, _ in looked(tmp_path)["data_dir"]] == ["ok"]
    tmp_path.chmod(0o755)
    assert [level for level, _ in looked(tmp_path)["data_dir"]] == ["warn", "fail"]
    assert f"chmod go-rwx {token}" in looked(tmp_path)["data_dir"][1][1]


@contextmanager
def mail_server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    server = MailController(object(), hostname="127.0.0.1", port=port)
    server.start()
    try:
        yield port
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("query", "level", "words"),
    [("?starttls=off", "ok", "answers"), ("", "fail", "no STARTTLS is offered")],
)
def test_the_mail_server_is_greeted(tmp_path: Path, query: str, level: str, words: str) -> None:
    with mail_server() as port:
        ((found_level, said),) = looked(tmp_path, smtp_url=f"smtp://127.0.0.1:{port}{query}")["mail"]
    assert (found_level, words in said) == (level, True)


def test_what_is_set_and_cannot_be_reached(tmp_path: Path) -> None:
    names = ("watchdog_url", "https_proxy", "public_url")
    seen = looked(tmp_path, **dict.fromkeys(names, "http://127.0.0.1:1/a-secret"))
    for name in ("watchdog", "proxy", "public_url"):
        ((level, said),) = seen[name]
        assert (level, "a-secret" in said) == ("warn", False)
        assert "connection refused" in said


@pytest.mark.parametrize(("days", "level"), [(90, "ok"), (3, "warn"), (-1, "fail")])
def test_a_certificate_ends(tmp_path: Path, days: int, level: str) -> None:
    pair = made(tmp_path, days=days)
    assert looked(tmp_path, tls_cert=pair.certificate, tls_key=pair.key)["tls"][0][0] == level


def test_without_tls_the_world_is_not_served(tmp_path: Path) -> None:
    assert looked(tmp_path, bind="0.0.0.0:1")["tls"][0][0] == "warn"
    assert "tls" not in looked(tmp_path, bind="127.0.0.1:1")


def test_whatever_is_said_is_said_in_both_languages() -> None:
    assert set(STRANGER) == {"en", "zh"}
    for words in (*WORDS.values(), *NOT_SET.values()):
        assert set(words) == {"en", "zh"}
        fields = {
            language: {part.split("}")[0] for text in said for part in text.split("{")[1:]}
            for language, said in words.items()
        }
        assert fields["en"] == fields["zh"]
        assert bool(words["en"][1]) == bool(words["zh"][1])
