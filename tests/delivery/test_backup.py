"""A backup while messages go out; another installation goes on from it and loses nothing."""

import json
import os
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from channels.standin import Scripted
from master.backup import backup
from master.cli.errors import CommandError
from notifier.secretbox import open_box
from notifier.settings import Settings
from notifier.storage import Store, make_engine
from tests.conftest import Postgres, _binary

if TYPE_CHECKING:
    from tests.delivery.conftest import House

SLOW_S = 8.0


def settings_of(house: "House", data: Path) -> Settings:
    """An installation with a key of its own in its data dir where the database takes that."""
    url = SecretStr(house.store.engine.url.render_as_string(hide_password=False))
    return house.settings.model_copy(update={"data_dir": data, "database_url": url})


@pytest.fixture
def restored(
    house: "House", engine_name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator["Restoring"]:
    spare: Postgres | None = request.getfixturevalue("postgres") if engine_name == "postgres" else None
    if spare is None:
        yield Restoring(house, tmp_path)
        return
    with spare.database("template0") as url:
        yield Restoring(house, tmp_path, url)


class Restoring:
    """Puts a backup where another installation finds it."""

    def __init__(self, house: "House", folder: Path, url: str = "") -> None:
        self._house, self._folder, self._url = house, folder, url

    def __call__(self, made: Path) -> "House":
        if not self._url:
            copied = self._folder / "elsewhere.db"
            copied.write_bytes((made / "faultcast.db").read_bytes())
            self._url = f"sqlite:///{copied}"
        else:
            plain = self._url.replace("+psycopg", "")
            command = [_binary("pg_restore"), "--no-owner", f"--dbname={plain}", made / "faultcast.dump"]
            subprocess.run(command, check=True, capture_output=True)
        return replace(self._house, store=Store(make_engine(self._url)))


def test_what_was_accepted_before_is_told_after(
    house: "House", restored: Restoring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(_binary('psql')).parent}{os.pathsep}{os.environ['PATH']}")
    slow, other = house.channel("slow"), house.channel("other")
    open_box(house.settings, house.store)
    busy = threading.Event()
    seen: list[str] = []

    def load() -> None:
        while not busy.is_set():
            seen.extend(house.alert(other, title=f"load {len(seen)}"))

    loader = threading.Thread(target=load)
    house.providers.script("webhook", Scripted(delay_s=SLOW_S))
    with house.working():
        (under_way,) = house.alert(slow, title="under way")
        house.until(lambda: [one.outcome for one in house.attempts(under_way)] == [None])
        loader.start()
        try:
            house.until(lambda: len(seen) > 5)
            before = list(seen)
            names = backup(settings_of(house, tmp_path), tmp_path / "kept")
        finally:
            busy.set()
            loader.join()
        house.told(under_way, *seen, timeout_s=60)
    assert "backup.json" in names
    later = restored(tmp_path / "kept")
    try:
        assert {row.id for row in later.rows()} >= {under_way, *before}
        assert later.row(under_way).state == "sending"
        later.lapse()
        with later.working():
            later.until(lambda: all(row.state == "delivered" for row in later.rows()))
        sends = [(one.outcome, one.possible_duplicate) for one in later.attempts(under_way)]
        assert sends == [("ambiguous", False), ("delivered", True)]
        open_box(house.settings, later.store)
    finally:
        later.store.engine.dispose()


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_it_is_for_its_owner_alone_and_whole(house: "House", tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    settings = settings_of(house, data).model_copy(update={"secret_key": None})
    open_box(settings, house.store)
    (data / "admin.token").touch(mode=0o600)
    made = tmp_path / "kept"
    assert backup(settings, made) == ["faultcast.db", "secret.key", "admin.token", "backup.json"]
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert (made / "secret.key").read_text() == (data / "secret.key").read_text()
    assert all(stat.S_IMODE((made / name).stat().st_mode) == 0o600 for name in ("secret.key", "admin.token"))
    assert json.loads((made / "backup.json").read_text())["revision"]
    with sqlite3.connect(made / "faultcast.db") as copy:
        assert copy.execute("pragma integrity_check").fetchone() == ("ok",)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    with pytest.raises(CommandError, match="is there already"):
        backup(settings, made)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_key_that_the_operator_keeps_is_not_copied(house: "House", tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_text("of old")
    assert "secret.key" not in backup(settings_of(house, tmp_path), tmp_path / "kept")


@pytest.mark.parametrize(
    ("url", "words"),
    [("sqlite:////no/such.db", "no such file"), ("postgresql+psycopg://u:hidden@127.0.0.1:1/x", "onnection")],
)
def test_what_cannot_be_read_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    monkeypatch.setenv("PATH", f"{Path(_binary('psql')).parent}{os.pathsep}{os.environ['PATH']}")
    settings = Settings(_env_file=None, data_dir=tmp_path, database_url=url)
    with pytest.raises(CommandError, match=words) as refused:
        backup(settings, tmp_path / "kept")
    assert "hidden" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
