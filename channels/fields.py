"""Checked pieces of which channel configs are made. Their messages name the mend, never the value."""

import hashlib
import json
import re
from email.utils import parseaddr
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote

import urllib3
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from channels.transport import SCHEMES, host_of, malformed

MAX_URL = 2048
DEFAULT_PORTS = {"http": 80, "https": 443}
SIGNED = ("timestamp", "sign")  # left over in a URL that was copied from a request
_HOOK = re.compile(r"/hook/([^/]+)$")
_MOBILE = re.compile(r"\+?[0-9][0-9-]{4,19}")
_USER_ID = re.compile(r"[A-Za-z0-9_.@-]{1,64}")
_KEYWORD = re.compile(r"[^\x00-\x1f\x7f<>@]{1,64}")
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


def _url(value: SecretStr) -> SecretStr:
    url = value.get_secret_value()
    if len(url) > MAX_URL:
        raise ValueError(f"is longer than {MAX_URL} characters")
    reason = malformed(url, SCHEMES)
    if reason is not None:
        raise ValueError(reason)
    return value


def _secret(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text or len(text) > 512 or not text.isprintable():
        raise ValueError("give 1 to 512 printable characters")
    return value


def _matching(pattern: re.Pattern[str], mend: str) -> AfterValidator:
    def check(value: str) -> str:
        if pattern.fullmatch(value) is None:
            raise ValueError(mend)
        return value

    return AfterValidator(check)


def trimmed(value: Any) -> Any:
    """SecretStr is not trimmed by pydantic; a key pasted with its line break is a common slip."""
    return value.strip() if isinstance(value, str) else value


def is_address(text: str) -> bool:
    return _ADDRESS.fullmatch(text) is not None and len(text) <= 254


def _sender(value: str) -> str:
    if not value.isprintable() or not is_address(parseaddr(value)[1]):
        raise ValueError("give an address, with a name or without: Faultcast <faultcast@example.com>")
    return value


def _number(value: object) -> object:
    """Pydantic would take `true` for 1 and "1_0" for 10."""
    if isinstance(value, bool | str):
        raise ValueError("give a number, without quotes")  # noqa: TRY004  pydantic's
    return value


Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, BeforeValidator(_number)]
Real = Annotated[float, BeforeValidator(_number)]
Url = Annotated[SecretStr, BeforeValidator(trimmed), AfterValidator(_url)]
Secret = Annotated[SecretStr, BeforeValidator(trimmed), AfterValidator(_secret)]
Keyword = Annotated[str, _matching(_KEYWORD, "give at most 64 characters without <, > and @")]
Mobile = Annotated[str, _matching(_MOBILE, "give a phone number such as 13800001111")]
UserId = Annotated[str, _matching(_USER_ID, "give an id of letters, digits, _ . @ and -")]
Mobiles = Annotated[tuple[Mobile, ...], Field(max_length=20)]
UserIds = Annotated[tuple[UserId, ...], Field(max_length=20)]
Address = Annotated[
    str, _matching(_ADDRESS, "give an e-mail address such as oncall@example.com"), Field(max_length=254)
]
Sender = Annotated[str, AfterValidator(_sender), Field(max_length=320)]


def robot_meter(kind: str, url: SecretStr, parameter: str = "") -> dict[str, str]:
    """A robot is known by host, port and token, however the rest of its URL is written; whoever has a
    channel to it shares its limit.

    `parameter` is the query's that holds the token; without one it is the last of a path as `…/hook/<token>`.
    A relay that knows its robots by something else is known by all of its path and query.
    """
    at = urllib3.util.parse_url(url.get_secret_value())
    path = unquote(at.path or "").rstrip("/")
    asked = [one for one in parse_qsl(at.query or "") if one[0] not in SIGNED]
    hook = _HOOK.search(path)
    token = dict(reversed(asked)).get(parameter) if parameter else hook and hook[1]
    port = None if at.port == DEFAULT_PORTS.get(at.scheme or "") else at.port
    known = [at.host, port, token] if token else [at.host, port, path, sorted(asked)]
    name = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:24]
    return {"": f"{kind}:{name}"}


def unusual_host(url: SecretStr, *usual: str) -> tuple[str, ...]:
    """A warning if a robot's URL is not on its provider's own host."""
    host = host_of(url.get_secret_value())
    if host in usual:
        return ()
    return (f"webhook_url: the host is not {' or '.join(usual)}; a relay must answer as the provider does",)
