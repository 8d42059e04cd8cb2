"""`faultcast backup`: database, key and admin token as of one moment, while everything goes on."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import URL, make_url

from master.cli.errors import FAILED, CommandError
from notifier.auth import ADMIN_FILE
from notifier.clock import rfc3339, utcnow
from notifier.migrations import head
from notifier.secretbox import KEY_FILE
from notifier.settings import DATABASE_NAME, Settings

DUMP_NAME = "faultcast.dump"
NOTE_NAME = "backup.json"


def backup(settings: Settings, folder: Path) -> list[str]:
    """Makes `folder`, whole or not at all; answers the names of what lies in it.

    Raises:
        CommandError: it exists already, cannot be made, or the database cannot be read.
    """
    if folder.exists():
        raise CommandError(f"DIR: {folder} is there already; name a folder that is not")
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    made_at = utcnow()
    try:
        draft.mkdir(mode=0o700, parents=True)
        names = [_database(settings, draft), *_private(settings, draft)]
        note = {
            "made_at": rfc3339(made_at),
            "release": version("faultcast"),
            "revision": head(),
            "files": names,
        }
        (draft / NOTE_NAME).write_text(json.dumps(note, indent=2) + "\n", encoding="utf-8")
        _keep(draft)
        draft.rename(folder)
    except OSError as error:
        raise CommandError(f"DIR: {folder}: {error.strerror}; name a folder you may write", FAILED) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return [*names, NOTE_NAME]


def _database(settings: Settings, folder: Path) -> str:
    url = make_url(settings.sqlalchemy_url)
    if settings.is_sqlite:
        _copy_sqlite(Path(url.database or ""), folder / DATABASE_NAME)
        return DATABASE_NAME
    _dump_postgres(url, folder / DUMP_NAME)
    return DUMP_NAME


def _copy_sqlite(source: Path, target: Path) -> None:
    """One read transaction, so it is as of one moment; whoever writes goes on meanwhile."""
    if not source.is_file():
        raise CommandError(
            f"FAULTCAST_DATABASE_URL: {source}: no such file; is this the right data dir?", FAILED
        )
    target.touch(mode=0o600)
    try:
        with closing(sqlite3.connect(source, timeout=30)) as live, closing(sqlite3.connect(target)) as copy:
            live.backup(copy)
            (state,) = copy.execute("pragma quick_check").fetchone()
    except sqlite3.Error as error:
        raise CommandError(f"FAULTCAST_DATABASE_URL: {source}: {error}", FAILED) from None
    if state != "ok":
        raise CommandError(f"FAULTCAST_DATABASE_URL: {source} is damaged: {state}", FAILED)


def _dump_postgres(url: URL, target: Path) -> None:
    program = shutil.which("pg_dump")
    if program is None:
        raise CommandError("pg_dump is not in PATH: install PostgreSQL's client programs", FAILED)
    # The password goes another way: everybody may read a command line.
    plain = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    source = plain.render_as_string()
    env = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    command = [program, "--format=custom", "--no-owner", f"--file={target}", f"--dbname={source}"]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise CommandError(f"FAULTCAST_DATABASE_URL: {ended.stderr.strip() or 'pg_dump failed'}", FAILED)
    target.chmod(0o600)


def _private(settings: Settings, folder: Path) -> list[str]:
    """The files of the data dir without which the database is of little use."""
    found = [name for name in (KEY_FILE, ADMIN_FILE) if (settings.data_dir / name).is_file()]
    if settings.secret_key is not None and KEY_FILE in found:
        found.remove(KEY_FILE)  # another key is in use, and whoever set it keeps it
    for name in found:
        shutil.copy(settings.data_dir / name, folder / name)  # with its mode
    return found


def _keep(folder: Path) -> None:
    """On the disk, before anybody relies on it."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
