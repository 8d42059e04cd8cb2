"""What the environment tells the agent, checked together at the start."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agent.kubeapi import Cluster, this_cluster

DEFAULT_SERVER = "http://127.0.0.1:8642"
DEFAULT_KERNEL_LOG = "/dev/kmsg"
_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")


class SettingsError(ValueError):
    """The environment names the agent nothing to work with; the text names the variable and the mend."""


@dataclass(frozen=True)
class Token:
    """The agent's token; from a file it is read anew each time, since mounted tokens rotate."""

    value: str = field(default="", repr=False)
    path: Path | None = None

    def read(self) -> str:
        text = self.value if self.path is None else self.path.read_text(encoding="utf-8", errors="replace")
        return text.strip()


@dataclass(frozen=True)
class Settings:
    """`directory`: the pod's directory, or the node agent's own. `node`: set for a node agent only."""

    server: str
    token: Token
    directory: Path
    node: str | None = None
    kernel_log: Path | None = None
    watch_paths: tuple[Path, ...] = ()  # whose file systems the node's agent watches beside its directory's
    virtual: bool = False  # one of several nodes on one machine, whose parts are then no one node's
    cluster: Cluster | None = None  # whose pod the node's agent is


def load(env: Mapping[str, str], *, node: bool) -> Settings:
    """The settings, or a SettingsError."""
    server = _server(env.get("FAULTCAST_SERVER") or DEFAULT_SERVER)
    token = _token(env)
    if not node:
        return Settings(server, token, _pod_directory(env))
    name = env.get("FAULTCAST_NODE", "").strip()
    if not name:
        raise SettingsError("FAULTCAST_NODE is not set: give the name of the node this agent watches")
    log = Path(env.get("FAULTCAST_KERNEL_LOG") or DEFAULT_KERNEL_LOG)
    paths = _watch_paths(env.get("FAULTCAST_WATCH_PATHS", ""))
    directory = _node_directory(env, log, name)
    virtual = env.get("FAULTCAST_VIRTUAL_NODE") == "1"
    cluster = this_cluster(env)
    return Settings(server, token, directory, name, log, watch_paths=paths, virtual=virtual, cluster=cluster)


def _watch_paths(text: str) -> tuple[Path, ...]:
    paths = [Path(part.strip()) for part in text.split(",") if part.strip()]
    for path in paths:
        if not path.is_absolute():
            raise SettingsError(
                f"FAULTCAST_WATCH_PATHS: {path} is not absolute: give paths from / on, by commas"
            )
    return tuple(dict.fromkeys(paths))


def _server(text: str) -> str:
    try:
        parts = urlsplit(text.strip())
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in text:
        raise SettingsError("FAULTCAST_SERVER is no address: give http://HOST:PORT or https://HOST:PORT")
    return text.strip().rstrip("/")


def _token(env: Mapping[str, str]) -> Token:
    path = env.get("FAULTCAST_AGENT_TOKEN_FILE")
    token = Token(path=Path(path)) if path else Token(env.get("FAULTCAST_AGENT_TOKEN", ""))
    try:
        value = token.read()
    except OSError as error:
        raise SettingsError(f"FAULTCAST_AGENT_TOKEN_FILE cannot be read: {error.strerror}") from None
    if not _HEADER_SAFE.fullmatch(value):
        raise SettingsError(
            "FAULTCAST_AGENT_TOKEN is missing or holds spaces: give the pod's token, "
            "or its file's path in FAULTCAST_AGENT_TOKEN_FILE"
        )
    return token


def _pod_directory(env: Mapping[str, str]) -> Path:
    text = env.get("FAULTCAST_POD_DIR", "")
    path = Path(text)
    if not text or not path.is_dir():
        raise SettingsError("FAULTCAST_POD_DIR is no directory: give the one that holds pod.json")
    return path.absolute()


def _node_directory(env: Mapping[str, str], log: Path, name: str) -> Path:
    """Where a node agent keeps its spool: told, else beside a followed file, else the system's place."""
    told = env.get("FAULTCAST_AGENT_DIR")
    if told:
        path = Path(told)
    elif log.is_char_device():
        path = Path("/var/lib/faultcast") / re.sub(r"[^\w-]", "_", name)
    else:
        path = log.parent / "agent"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"FAULTCAST_AGENT_DIR: {path} cannot be made ({error.strerror}): give one the agent may write"
        ) from None
    return path.absolute()
