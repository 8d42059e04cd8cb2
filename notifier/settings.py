"""What the operator sets: environment variables `FAULTCAST_…` and `.env`, read once and checked together.

Every secret may also stand in a file named by `FAULTCAST_<NAME>_FILE`. Secrets do not print.
"""

import os
import re
import ssl
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from notifier.documents import TimeZone, WholeText
from notifier.faultwords import mend_of

PREFIX = "FAULTCAST_"
ENV_FILE = ".env"
DATABASE_NAME = "faultcast.db"
SHARED_FIGURES = "PROMETHEUS_MULTIPROC_DIR"  # of `faultcast up` for its parts: the folder they count in
MIN_SECRET_KEY = 16
MAX_WORKERS = 64
_HOST = re.compile(r"[A-Za-z0-9._:%-]*", re.ASCII)

Cidr = IPv4Network | IPv6Network


class SettingsError(ValueError):
    """What is wrong with the settings: every fault in one line, each with its variable and its mend."""


def _default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "faultcast"


def _some_folder(value: object) -> object:
    """A blank name is none: it would mean whatever folder we are in."""
    return _default_data_dir() if isinstance(value, str) and not value.strip() else value


def _cidrs(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    try:
        return tuple(ip_network(part, strict=False) for part in parts)
    except ValueError as error:
        raise ValueError(f"{error}; give comma-separated CIDRs such as 10.0.0.0/8,127.0.0.1/32") from None


def _bind(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("give HOST:PORT, for example 127.0.0.1:8642")
    return value


def _file(value: Path | None) -> Path | None:
    if value is not None and not (value.is_file() and os.access(value, os.R_OK)):
        raise ValueError("no such file; give the path of a readable file")
    return value


def _ca_bundle(value: Path | None) -> Path | None:
    if value is not None:
        try:
            ssl.create_default_context(cafile=value)
        except (ssl.SSLError, OSError):
            raise ValueError("holds no certificates; give a file of them in PEM") from None
    return value


def _check_url(value: str, schemes: tuple[str, ...], example: str) -> None:
    try:
        parts = urlsplit(value)
        good = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"give a URL such as {example}")


def _smtp_url(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        _check_url(value.get_secret_value(), ("smtp", "smtps"), "smtp://user:password@host:587")
    return value


def _http_url(value: str | None) -> str | None:
    if value is not None:
        _check_url(value, ("http", "https"), "https://faultcast.example.com")
        return value.rstrip("/")
    return None


def _secret_http_url(value: SecretStr | None) -> SecretStr | None:
    if value is not None:
        _check_url(value.get_secret_value(), ("http", "https"), "https://host/path")
    return value


def _redis_url(value: SecretStr | None) -> SecretStr | None:
    if value is None or value.get_secret_value().startswith("unix:///"):
        return value
    _check_url(value.get_secret_value(), ("redis", "rediss"), "redis://host:6379/0 or unix:///path/to/socket")
    return value


def _database_url(value: SecretStr | None) -> SecretStr | None:
    if value is None:
        return None
    try:
        url = make_url(value.get_secret_value())
    except ArgumentError:
        url = None
    if url is None or url.get_backend_name() not in {"sqlite", "postgresql", "postgres"}:
        raise ValueError("give sqlite:///PATH or postgresql+psycopg://user:password@host/database")
    # SQLAlchemy ends the password at the first @ and would name the rest of it as the host.
    if not _HOST.fullmatch(url.host or "") or not 0 < (url.port or 1) <= 65535:
        raise ValueError("no such host or port; write @ / : of a password as %40 %2F %3A")
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise ValueError("a database in memory is not durable; give sqlite:///PATH")
        return value
    return SecretStr(url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False))


def _secret_key(value: SecretStr | None) -> SecretStr | None:
    if value is not None and len(value.get_secret_value()) < MIN_SECRET_KEY:
        raise ValueError(f"give at least {MIN_SECRET_KEY} random characters (openssl rand -hex 32)")
    return value


def _blank_is_absent(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


_Blank = BeforeValidator(_blank_is_absent)
Secret = Annotated[SecretStr | None, _Blank]
File = Annotated[Path | None, AfterValidator(_file), _Blank]


class Settings(BaseSettings):
    """All of CONTRACT 2. Values given in code win over the environment, and that over `.env`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=ENV_FILE, env_ignore_empty=True, extra="ignore", frozen=True,
        hide_input_in_errors=True,
    )  # fmt: skip

    data_dir: Annotated[Path, BeforeValidator(_some_folder)] = Field(default_factory=_default_data_dir)
    bind: Annotated[str, AfterValidator(_bind)] = "127.0.0.1:8642"
    tls_cert: File = None
    tls_key: File = None
    database_url: Annotated[Secret, AfterValidator(_database_url)] = None
    redis_url: Annotated[Secret, AfterValidator(_redis_url)] = None
    workers: WholeText = Field(default=2, ge=1, le=MAX_WORKERS)
    secret_key: Annotated[Secret, AfterValidator(_secret_key)] = None
    smtp_url: Annotated[Secret, AfterValidator(_smtp_url)] = None
    allow_targets: Annotated[tuple[Cidr, ...], NoDecode, BeforeValidator(_cidrs)] = ()
    https_proxy: Annotated[Secret, AfterValidator(_secret_http_url)] = None
    no_proxy: str = ""
    ca_bundle: Annotated[File, AfterValidator(_ca_bundle)] = None
    public_url: Annotated[str | None, AfterValidator(_http_url), _Blank] = None
    language: Literal["zh", "en"] = "zh"
    timezone: TimeZone = "Asia/Shanghai"
    runtime: Literal["local", "kubernetes"] = "local"
    local_nodes: WholeText = Field(default=3, ge=1, le=1000)
    retention_days: WholeText = Field(default=90, ge=1, le=36500)
    retention_rows: WholeText = Field(default=0, ge=0, le=1_000_000_000)
    watchdog_url: Annotated[Secret, AfterValidator(_secret_http_url)] = None
    log_format: Literal["console", "json"] = "console"

    @model_validator(mode="after")
    def _tls_is_whole(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError(f"set both {PREFIX}TLS_CERT and {PREFIX}TLS_KEY, or neither")
        if self.tls_cert is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(
                    self.tls_cert, self.tls_key, lambda: ""
                )  # nobody is there to type one
            except (ssl.SSLError, OSError):
                raise ValueError(
                    f"{PREFIX}TLS_CERT and {PREFIX}TLS_KEY: give a certificate and its own key, both in PEM, "
                    "the key without a passphrase"
                ) from None
        return self

    @property
    def sqlalchemy_url(self) -> str:
        """The database as SQLAlchemy names it; SQLite in the data dir when none is set."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data_dir.absolute() / DATABASE_NAME}"

    @property
    def is_sqlite(self) -> bool:
        return self.sqlalchemy_url.startswith("sqlite")

    @property
    def host(self) -> str:
        return self.bind.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.bind.rpartition(":")[2])

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the framework's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _SecretFiles(settings_cls), env_settings, dotenv_settings


SECRETS = tuple(
    name for name, field in Settings.model_fields.items() if SecretStr in get_args(field.annotation)
)


class _SecretFiles(PydanticBaseSettingsSource):
    """Reads `FAULTCAST_<NAME>_FILE` for each secret."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False  # whole in __call__: two variables are looked at together

    def __call__(self) -> dict[str, Any]:
        variables: Mapping[str, str | None] = {**dotenv_values(ENV_FILE), **os.environ}
        found: dict[str, Any] = {}
        for name in SECRETS:
            variable = PREFIX + name.upper()
            path = variables.get(f"{variable}_FILE")
            if not path:
                continue
            if variables.get(variable):
                raise SettingsError(f"{variable} and {variable}_FILE are both set: remove one of them")
            try:
                found[name] = Path(path).read_text(encoding="utf-8").strip()
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                raise SettingsError(f"{variable}_FILE: {path}: {reason}; name a readable file") from None
        return found


def named_here() -> set[str]:
    """All `FAULTCAST_…` of the environment and `.env`, whether they are settings or not."""
    return {name for name in (*dotenv_values(ENV_FILE), *os.environ) if name.startswith(PREFIX)}


def load_settings(**given: object) -> Settings:
    """The settings of this process; `given` (a command's own flags) wins, None means not given.

    Raises:
        SettingsError: names every variable that is wrong, and the mend.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(fault) for fault in error.errors())) from None


def _sentence(fault: Mapping[str, Any]) -> str:
    words = mend_of(str(fault["msg"]))
    where = fault["loc"]
    return f"{PREFIX}{str(where[0]).upper()}: {words}" if where else words
