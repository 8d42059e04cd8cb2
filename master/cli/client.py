"""The API's client: where the server is, who we are, and what its answers mean for the exit code."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from master.cli.errors import FAILED, REFUSED, UNREACHABLE, CommandError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

DEFAULT_SERVER = "http://127.0.0.1:8642"
PREFIX = "/api/v1"
PAGE = 500
PIECE = 64 * 1024
TIMEOUT_S = 90.0  # a test message or a collection of stacks may take its time

Json = Any
_ADDRESS = "give http://HOST:PORT"


@dataclass(frozen=True)
class Page:
    """`skew_s`: the server's clock against ours, to a second; None: it did not say."""

    document: Mapping[str, Any]
    skew_s: float | None


class Client:
    """One server, one token. Connects on first use."""

    def __init__(self, server: str | None = None, token: str | None = None) -> None:
        field = "--server" if server else "FAULTCAST_SERVER"
        self.server = _address(field, server or setting("SERVER") or DEFAULT_SERVER)
        self._token = None if token is None else _token("--token", token)
        self._pool: PoolManager | None = None

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Json:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Json = None, query: Mapping[str, Any] | None = None) -> Json:
        return self.call("POST", path, body={} if body is None else body, query=query)

    def delete(self, path: str, query: Mapping[str, Any] | None = None) -> Json:
        return self.call("DELETE", path, query=query)

    def pages(self, path: str, query: Mapping[str, Any], count: int) -> Iterator[Json]:
        """Up to `count` items of a list, page after page; 0 means all."""
        cursor, left = None, count
        while True:
            limit = PAGE if count == 0 else min(left, PAGE)
            page = self.get(path, {**query, "limit": limit, "cursor": cursor})
            yield from page["items"]
            cursor, left = page.get("next_cursor"), left - len(page["items"])
            if not cursor or (count and left <= 0):
                return

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Json = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """The answer's document. Raises CommandError for anything but success."""
        response = self._send(method, path, body=body, query=query, headers=headers)
        text = response.data.decode("utf-8", "replace")
        if response.status == 204 or (response.status < 300 and not text.strip()):
            return None
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            raise CommandError(
                f"{self.server} answered {response.status} and no JSON: is it a Faultcast server?", FAILED
            ) from None
        if response.status >= 300:
            raise refusal(response.status, document)
        return document

    def page(self, path: str) -> "Page":
        """A page outside the API's prefix, whatever its status."""
        response = self._send("GET", path, body=None, query=None, headers=None, prefix="")
        try:
            document = json.loads(response.data)
        except (ValueError, RecursionError):
            document = {}
        return Page(document if isinstance(document, dict) else {}, _skew(response.headers.get("date", "")))

    def stream(self, path: str, query: Mapping[str, Any]) -> Iterator[bytes]:
        """What is answered, piece by piece. Raises CommandError for anything but success."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415  as below

        response = self._send("GET", path, body=None, query=query, headers=None, is_whole=False)
        if response.status >= 300:
            try:
                problem = json.loads(response.read())
            except (ValueError, RecursionError):
                problem = None
            raise refusal(response.status, problem)
        try:
            yield from response.stream(PIECE)
        except HTTPError:
            raise CommandError(f"{self.server} broke off: what came is not whole", FAILED) from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Json,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        prefix: str = PREFIX,
        is_whole: bool = True,
    ) -> "BaseHTTPResponse":
        from urllib3 import PoolManager, Timeout  # noqa: PLC0415  `--help` need not wait for it
        from urllib3.exceptions import HTTPError, LocationValueError  # noqa: PLC0415

        if self._pool is None:
            self._pool = PoolManager(
                timeout=Timeout(connect=5, read=TIMEOUT_S), retries=False, ca_certs=_ca_bundle()
            )
        token = self._token or find_token()
        sent = {"Accept": "application/json", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        url = self.server + prefix + path + _query(query)
        try:
            return self._pool.request(
                method, url, body=data, headers=sent, redirect=False, preload_content=is_whole
            )
        except (LocationValueError, UnicodeError):
            raise CommandError(f"--server: {self.server} is no address: {_ADDRESS}") from None
        except HTTPError as error:
            raise unreachable(self.server, error) from None


def _skew(date: str) -> float | None:
    from notifier.clock import utcnow  # noqa: PLC0415

    try:
        said = parsedate_to_datetime(date)
    except ValueError:
        return None
    return None if said.tzinfo is None else (said - utcnow()).total_seconds()


def _ca_bundle() -> str | None:
    """Who vouches for the server, where that is not one of the system's authorities."""
    path = setting("CA_BUNDLE")
    if path and not os.access(path, os.R_OK):
        raise CommandError(f"FAULTCAST_CA_BUNDLE: {path}: no such file; give the path of a readable file")
    return path or None


def segment(name: str) -> str:
    """A name as one segment of a path."""
    if name.strip() in {"", ".", ".."}:  # another address than the one that is meant
        raise CommandError(f"the name or ID: {name!r} is none; give it as the list shows it")
    return quote(_text("the name", name), safe="")


def _text(field: str, value: str) -> str:
    """What the command line held must be text; bytes of another encoding come as surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CommandError(f"{field}: {value!a} is not UTF-8 text; give it in UTF-8") from None
    return value


def _address(field: str, text: str) -> str:
    """`http://HOST:PORT`, perhaps with a path. It may end up in messages, so it holds no password."""
    address = text.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_good = urlsplit(""), False
    if "@" in address:
        raise CommandError(f"{field}: give the address without user and password; a token goes into --token")
    if not is_good or not address.isprintable() or " " in address:
        raise CommandError(f"{field}: {address} is no address: {_ADDRESS}")
    if parts.query or parts.fragment:
        raise CommandError(f"{field}: {address} has more than an address: {_ADDRESS}")
    return _text(field, address)


def _token(field: str, text: str) -> str:
    """A token as a header takes it. What is wrong with it is said without it."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CommandError(f"{field}: is no token: give the line that `faultcast token create` printed")
    return token


def refusal(status: int, problem: Json) -> CommandError:
    """What a problem document (RFC 9457) says, as one line; 5xx and throttling are failures, not refusals."""
    words, faults = f"the server answered {status}", tuple[tuple[str, str], ...]()
    if isinstance(problem, dict):
        words = str(problem.get("detail") or problem.get("title") or words)
        faults = tuple((fault["field"], fault["message"]) for fault in problem.get("errors") or ())
        if faults:
            words = "; ".join(f"{field}: {message}" for field, message in faults)
    if status == 401:
        words += " (give --token or FAULTCAST_TOKEN, or run where <data-dir>/admin.token can be read)"
    error = CommandError(words, FAILED if status >= 500 or status == 429 else REFUSED)
    error.status, error.faults = status, faults
    return error


def unreachable(server: str, error: Exception) -> CommandError:
    reason = str(error).rpartition(": ")[2] or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return CommandError(
            f"cannot reach {server}: its certificate is not trusted: {reason}; "
            "name its authority's file by FAULTCAST_CA_BUNDLE",
            UNREACHABLE,
        )
    return CommandError(
        f"cannot reach {server}: {reason}; start it with `faultcast up` or name it with --server", UNREACHABLE
    )


def setting(name: str) -> str | None:
    """`FAULTCAST_<name>` from the environment, its `_FILE`, or `.env`: the same sources as the server's."""
    variable = f"FAULTCAST_{name}"
    for values in (os.environ, _dotenv()):
        if (values.get(variable) or "").strip():
            return values[variable]
        path = values.get(f"{variable}_FILE")
        if path:
            return _read(Path(path), f"{variable}_FILE")
    return None


def data_dir() -> Path:
    """Where a server of this machine keeps its data, unless FAULTCAST_DATA_DIR says otherwise."""
    chosen = setting("DATA_DIR")
    if chosen:
        return Path(chosen)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "faultcast"


def find_token() -> str | None:
    token = setting("TOKEN")
    if token:
        return _token("FAULTCAST_TOKEN", token)
    path = data_dir() / "admin.token"
    return _token(str(path), _read(path, "the admin's token")) if os.access(path, os.R_OK) else None


def _dotenv() -> Mapping[str, str | None]:
    if not Path(".env").is_file():
        return {}
    from dotenv import dotenv_values  # noqa: PLC0415  most folders have no .env

    return dotenv_values(".env")


def _read(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CommandError(f"{name}: {path}: {error.strerror}; name a readable file") from None
    except UnicodeDecodeError:
        raise CommandError(f"{name}: {path} is not UTF-8 text; name another file") from None


def _query(query: Mapping[str, Any] | None) -> str:
    for key, value in (query or {}).items():
        for one in value if isinstance(value, list) else [value]:
            _text(f"--{key}", str(one))
    pairs = [(key, value) for key, value in (query or {}).items() if value not in (None, "", ())]
    return "?" + urlencode(pairs, doseq=True) if pairs else ""
