"""Secrets at rest open only with the right key and for the right row; the key is kept or asked for."""

from pathlib import Path

import pytest
from sqlalchemy import update

from notifier.model import Meta
from notifier.secretbox import KEY_FILE, SecretBox, WrongKeyError, open_box
from notifier.settings import Settings, SettingsError
from notifier.storage import Store, make_engine

PLAIN = {"webhook_url": "https://h/CANARY", "secret": "SEC中"}


def settings(data_dir: Path, key: str | None = None) -> Settings:
    return Settings(_env_file=None, data_dir=data_dir, secret_key=key)


@pytest.fixture
def box() -> SecretBox:
    return SecretBox("k" * 32)


def test_what_is_sealed_opens_and_shows_nothing(box: SecretBox) -> None:
    sealed = box.seal(PLAIN, owner="chn_1")
    assert box.open(sealed, owner="chn_1") == PLAIN
    assert "CANARY" not in sealed + repr(box)


def test_the_same_secret_is_sealed_differently_each_time(box: SecretBox) -> None:
    assert box.seal(PLAIN, owner="chn_1") != box.seal(PLAIN, owner="chn_1")


def test_no_row_opens_another_ones(box: SecretBox) -> None:
    with pytest.raises(WrongKeyError):
        box.open(box.seal(PLAIN, owner="chn_1"), owner="chn_2")


@pytest.mark.parametrize(
    "spoil",
    [lambda s: s[:-4], lambda s: s[:9] + "A" + s[10:], lambda _: "v1.", lambda _: "v2.x", lambda _: ""],
)
def test_what_was_changed_does_not_open(box: SecretBox, spoil: "object") -> None:
    sealed = box.seal(PLAIN, owner="chn_1")
    with pytest.raises(WrongKeyError):
        box.open(spoil(sealed), owner="chn_1")  # type: ignore[operator]


def test_fingerprints_tell_parts_apart_and_keys(box: SecretBox) -> None:
    assert box.fingerprint("a", "bc") == box.fingerprint("a", "bc")
    assert (
        len(
            {
                box.fingerprint("a", "bc"),
                box.fingerprint("ab", "c"),
                SecretBox("j" * 32).fingerprint("a", "bc"),
            }
        )
        == 3
    )


@pytest.fixture
def sqlite_store(sqlite_url: str) -> "Store":
    return Store(make_engine(sqlite_url))


def test_sqlite_makes_a_key_and_keeps_it_private(sqlite_store: Store, tmp_path: Path) -> None:
    sealed = open_box(settings(tmp_path), sqlite_store).seal(PLAIN, owner="x")
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert open_box(settings(tmp_path), sqlite_store).open(sealed, owner="x") == PLAIN
    sqlite_store.engine.dispose()


def test_a_lost_key_file_is_not_replaced(sqlite_store: Store, tmp_path: Path) -> None:
    open_box(settings(tmp_path), sqlite_store)
    (tmp_path / KEY_FILE).unlink()
    with pytest.raises(SettingsError, match=r"is missing.*put the file back"):
        open_box(settings(tmp_path), sqlite_store)
    assert not (tmp_path / KEY_FILE).exists()
    sqlite_store.engine.dispose()


def test_postgres_without_a_key_does_not_start(postgres_url: str, tmp_path: Path) -> None:
    store = Store(make_engine(postgres_url))
    with pytest.raises(SettingsError, match="FAULTCAST_SECRET_KEY is not set"):
        open_box(settings(tmp_path), store)
    store.engine.dispose()


def test_a_key_that_is_not_the_databases_own_does_not_start(store: Store, tmp_path: Path) -> None:
    open_box(settings(tmp_path, "first-key-0123456789"), store)
    open_box(settings(tmp_path, "first-key-0123456789"), store)
    with pytest.raises(SettingsError, match="is not the key of this database"):
        open_box(settings(tmp_path, "other-key-0123456789"), store)


def test_a_damaged_check_value_does_not_start(store: Store, tmp_path: Path) -> None:
    open_box(settings(tmp_path, "first-key-0123456789"), store)
    with store.write() as session:
        session.execute(update(Meta).values(value="v1.broken"))
    with pytest.raises(SettingsError, match="is not the key of this database"):
        open_box(settings(tmp_path, "first-key-0123456789"), store)
