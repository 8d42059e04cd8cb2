"""Settings: every variable of the contract, every fault named with its mend, no secret printed."""

from pathlib import Path

import pytest

from notifier.settings import SECRETS, Settings, SettingsError, load_settings

CANARY = "CANARY-7f3a"


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # no .env
    for name in Settings.model_fields:
        monkeypatch.delenv(f"FAULTCAST_{name.upper()}", raising=False)
        monkeypatch.delenv(f"FAULTCAST_{name.upper()}_FILE", raising=False)


def test_defaults_are_the_contract(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path)
    assert (settings.host, settings.port) == ("127.0.0.1", 8642)
    assert (settings.language, settings.timezone, settings.runtime) == ("zh", "Asia/Shanghai", "local")
    assert (settings.local_nodes, settings.retention_days, settings.allow_targets) == (3, 90, ())
    assert settings.sqlalchemy_url == f"sqlite:///{tmp_path}/faultcast.db"


def test_code_wins_over_environment_and_that_over_dotenv(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(
        "FAULTCAST_WORKERS=3\nFAULTCAST_LOCAL_NODES=5\nFAULTCAST_LANGUAGE=en\nOTHER=1\n"
    )
    monkeypatch.setenv("FAULTCAST_WORKERS", "4")
    monkeypatch.setenv("FAULTCAST_LOCAL_NODES", "6")
    settings = load_settings(local_nodes=7, bind=None)
    assert (settings.language, settings.workers, settings.local_nodes) == ("en", 4, 7)


WRONG = {
    "no port": ("BIND", "localhost", "HOST:PORT"),
    "port of no number": ("BIND", "localhost:http", "HOST:PORT"),
    "port too large": ("BIND", "localhost:70000", "HOST:PORT"),
    "certificate that is not there": ("TLS_CERT", "/no/such.pem", "readable file"),
    "other database": ("DATABASE_URL", f"mysql://u:{CANARY}@h/d", "postgresql+psycopg://"),
    "database of no form": ("DATABASE_URL", CANARY, "postgresql+psycopg://"),
    "database in memory": ("DATABASE_URL", "sqlite://", "sqlite:///PATH"),
    "database with @ in its password": ("DATABASE_URL", f"postgresql://u:p@{CANARY}@h/d", "%40"),
    "database at a port too large": ("DATABASE_URL", "postgresql://u:p@h:99999/d", "no such host or port"),
    "redis of no form": ("REDIS_URL", f"http://{CANARY}", "redis://"),
    "no workers": ("WORKERS", "0", "give 1 or more"),
    "workers of no number": ("WORKERS", "many", "whole number"),
    "workers in other digits": ("WORKERS", "２", "whole number"),
    "workers as programmers write them": ("WORKERS", "1_0", "whole number"),
    "short key": ("SECRET_KEY", "CANARY-7f3a", "16"),
    "mail by http": ("SMTP_URL", f"http://u:{CANARY}@h", "smtp://"),
    "cidr of no form": ("ALLOW_TARGETS", "10.0.0.0/99", "10.0.0.0/8"),
    "proxy of no form": ("HTTPS_PROXY", CANARY, "https://"),
    "bundle that is not there": ("CA_BUNDLE", "/no/such.pem", "readable file"),
    "bundle of no certificates": ("CA_BUNDLE", "/etc/passwd", "PEM"),
    "public address of no form": ("PUBLIC_URL", "faultcast", "https://"),
    "language we have not": ("LANGUAGE", "fr", "'zh' or 'en'"),
    "zone that is none": ("TIMEZONE", "Mars/Olympus", "Asia/Shanghai"),
    "zone by path": ("TIMEZONE", "../etc/passwd", "Asia/Shanghai"),
    "runtime we have not": ("RUNTIME", "slurm", "'local' or 'kubernetes'"),
    "no nodes": ("LOCAL_NODES", "0", "give 1 or more"),
    "no retention": ("RETENTION_DAYS", "0", "give 1 or more"),
    "watchdog of no form": ("WATCHDOG_URL", CANARY, "https://"),
    "log format we have not": ("LOG_FORMAT", "xml", "'console' or 'json'"),
}


@pytest.mark.parametrize(("name", "value", "mend"), WRONG.values(), ids=WRONG)
def test_a_fault_is_named_with_its_mend(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, mend: str
) -> None:
    monkeypatch.setenv(f"FAULTCAST_{name}", value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value).startswith(f"FAULTCAST_{name}: ")
    assert mend in str(caught.value)
    assert "CANARY" not in str(caught.value)


def test_all_faults_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTCAST_BIND", "x")
    monkeypatch.setenv("FAULTCAST_LANGUAGE", "fr")
    with pytest.raises(SettingsError, match=r"FAULTCAST_BIND: .*; FAULTCAST_LANGUAGE: "):
        load_settings()


def test_a_certificate_needs_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("")
    monkeypatch.setenv("FAULTCAST_TLS_CERT", str(tmp_path / "cert.pem"))
    with pytest.raises(SettingsError, match="set both FAULTCAST_TLS_CERT and FAULTCAST_TLS_KEY"):
        load_settings()


def test_a_certificate_that_is_none_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("TLS_CERT", "TLS_KEY"):
        (tmp_path / name).write_text("no certificate")
        monkeypatch.setenv(f"FAULTCAST_{name}", str(tmp_path / name))
    with pytest.raises(SettingsError, match="give a certificate and its own key"):
        load_settings()


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_data_dir_is_the_default_and_not_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, blank: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FAULTCAST_DATA_DIR", blank)
    assert load_settings().data_dir == tmp_path / "home" / "faultcast"


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTCAST_WORKERS", "")
    monkeypatch.setenv("FAULTCAST_LANGUAGE", "")
    assert (load_settings().workers, load_settings().language) == (2, "zh")


VALUES = {
    "secret_key": f"{CANARY}-and-then-some",
    "database_url": f"postgresql+psycopg://u:{CANARY}@h/d",
    "redis_url": f"redis://:{CANARY}@h:6379/0",
    "smtp_url": f"smtp://u:{CANARY}@h:587",
    "https_proxy": f"http://u:{CANARY}@h:3128",
    "watchdog_url": f"https://h/{CANARY}",
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_may_stand_in_a_file_and_does_not_print(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "secret").write_text(VALUES[name] + "\n")
    monkeypatch.setenv(f"FAULTCAST_{name.upper()}_FILE", str(tmp_path / "secret"))
    settings = load_settings()
    assert getattr(settings, name).get_secret_value() == VALUES[name]
    assert CANARY not in repr(settings) + str(settings)


def test_a_secret_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTCAST_SECRET_KEY", "x" * 20)
    monkeypatch.setenv("FAULTCAST_SECRET_KEY_FILE", "/some/file")
    with pytest.raises(SettingsError, match="are both set: remove one"):
        load_settings()


def test_a_secret_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTCAST_SMTP_URL_FILE", "/no/such/file")
    with pytest.raises(SettingsError, match="FAULTCAST_SMTP_URL_FILE: /no/such/file: No such file"):
        load_settings()


def test_postgres_is_spoken_to_through_psycopg_3() -> None:
    settings = load_settings(database_url="postgres://u:p%40w@h:5433/d?sslmode=require")
    assert settings.sqlalchemy_url == "postgresql+psycopg://u:p%40w@h:5433/d?sslmode=require"
