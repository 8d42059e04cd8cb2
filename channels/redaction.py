"""Keeps secrets out of everything that is stored or shown: requests, responses, messages, errors."""

import base64
import html
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MAX_BYTES = 4096
MIN_LENGTH = 4  # shorter ones would wipe out ordinary words
HIDDEN = "***"

# Parts of a webhook's path that every customer shares; anything else in it may be the key.
PUBLIC_SEGMENTS = frozenset(
    {"alert", "alerts", "api", "bot", "bots", "cgi-bin", "events", "hook", "hooks", "incoming", "notify"}
    | {"open-apis", "post", "push", "robot", "robots", "send", "services", "webhook", "webhooks"}
)


def redact(text: str, secrets: Iterable[str], *, limit: int = MAX_BYTES) -> str:
    """`text` without the secrets in any form they may travel in, at most `limit` bytes of UTF-8."""
    forms = _forms_of(tuple(sorted({secret for secret in secrets if len(secret) >= MIN_LENGTH})))
    if forms is None:
        return clip(text, limit)
    # No more is read than can be kept. A secret that the window's end cuts through would not be
    # recognised, so where there is an end, as much as the longest form is given up.
    window = text[: limit + forms.longest]
    clean = forms.pattern.sub(HIDDEN, window) if forms.may_be_in(window) else window
    return clip(clean if len(window) == len(text) else clean[: -forms.longest] + "…", limit)


def clip(text: str, limit: int = MAX_BYTES) -> str:
    """At most `limit` bytes of UTF-8, ended by `…` where something was cut off."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode()
    return raw[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"


@lru_cache(maxsize=1024)
def in_url(url: str) -> tuple[str, ...]:
    """What is secret in a URL: itself, its path and query, and every piece of them that is not common."""
    try:
        parts = urlsplit(url)
        password = parts.password or ""
    except ValueError:
        return (url,)
    if parts.scheme.startswith("smtp"):  # whose user is often the sender's address
        return tuple(form for form in (url, password, unquote(password)) if form)
    values = [value for _, value in parse_qsl(parts.query)]
    segments = [part for part in parts.path.split("/") if part.lower() not in PUBLIC_SEGMENTS]
    tail = url.partition(parts.netloc)[2] if parts.netloc else ""
    # In an Apprise URL a token may stand where the host should, or before it.
    hosts = [] if parts.scheme in ("http", "https") else re.split("[@:]", parts.netloc)
    pieces = [url, tail, parts.path, *values, *segments, *hosts]
    return tuple(dict.fromkeys(form for piece in pieces for form in (piece, unquote(piece)) if form))


def in_header(value: str) -> tuple[str, ...]:
    """What is secret in a header's value: `Bearer TOKEN` hides TOKEN too, `Basic …` its password."""
    found = [value, *value.split()]
    for word in value.split()[1:]:
        try:
            found.extend(base64.b64decode(word, validate=True).decode().split(":", 1))
        except ValueError:
            continue
    return tuple(found)


@dataclass(frozen=True)
class _Forms:
    """`cores`: one of them, folded, is in every text that the pattern finds anything in; None: not known."""

    pattern: re.Pattern[str]
    longest: int
    cores: tuple[str, ...] | None

    def may_be_in(self, text: str) -> bool:
        """Most texts hold no secret, and that is seen a hundred times sooner than by the pattern."""
        folded = _folded(text)
        return self.cores is None or any(core in folded for core in self.cores)


def _folded(text: str) -> str:
    """Alike for all that the pattern takes for the same ASCII letters (`re` has three odd ones)."""
    return text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s").lower()


@lru_cache(maxsize=1024)
def _forms_of(secrets: tuple[str, ...]) -> _Forms | None:
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= MIN_LENGTH}
    if not forms:
        return None
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    pattern = re.compile("|".join(re.escape(form) for form in longest_first), re.IGNORECASE)
    return _Forms(pattern, len(longest_first[0]), _cores(longest_first))


def _cores(longest_first: Sequence[str]) -> tuple[str, ...] | None:
    """The forms that hold no shorter one."""
    if not all(form.isascii() for form in longest_first):
        return None
    found: list[str] = []
    for form in map(str.lower, reversed(longest_first)):
        if not any(core in form for core in found):
            found.append(form)
    return tuple(found)


def _forms(secret: str) -> set[str]:
    raw = secret.encode("utf-8", "replace")
    quoted = quote(secret, safe="", errors="replace")
    return {
        secret,
        quoted,
        quote(quoted, safe=""),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
        html.escape(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        raw.hex(),
        *_base64_forms(raw),
    }


def _base64_forms(raw: bytes) -> set[str]:
    """Base64 of the secret alone, and of any text that it stands in (three ways to fall on the grid)."""
    forms = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    for before in range(3):
        whole = base64.b64encode(bytes(before) + raw).decode()
        # Characters that also depend on what stands before or after the secret are left out.
        start = -(-before * 8 // 6)
        inner = whole[start : (before + len(raw)) * 8 // 6]
        forms |= {inner, inner.replace("+", "-").replace("/", "_")}
    return {form.rstrip("=") for form in forms if len(form) >= 2 * MIN_LENGTH}
