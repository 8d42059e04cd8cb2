"""The network as adapters see it. Targets are checked again at the connection actually dialled."""

import http
import http.client
import io
import json
import logging
import re
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from time import monotonic
from typing import Any, ClassVar
from urllib.parse import unquote

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, LocationValueError

from channels.addresses import Cidr, is_listed
from channels.dialling import ForbiddenTarget, Guard, NotSent, TimedReader, Unanswered, in_words

__all__ = [
    "ForbiddenTarget", "Network", "NotSent", "Response", "Unanswered",
    "check_target", "encode", "host_of", "malformed", "reason_of",
]  # fmt: skip

MAX_BODY = 64 * 1024
SAVE_LOOKUP_S = 3.0  # a name that cannot be looked up so long is judged when it is dialled
CONNECTIONS_PER_HOST = 64
HOSTS = 512
MAX_INTERIM = 20
SCHEMES = ("http", "https")
NEVER = urllib3.Retry(False, redirect=False)

# They tell whole URLs, keys and all, at DEBUG and on a malformed answer at WARNING.
for _talker in ("urllib3.connection", "urllib3.connectionpool"):
    logging.getLogger(_talker).addFilter(lambda _record: False)


@dataclass(frozen=True)
class Response:
    """An answer; `headers` in lower case, `body` cut at 64 KiB, `is_whole` unless its end was lost."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = True

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; empty when it is anything else."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


def host_of(url: str) -> str:
    """The host of a well-formed URL."""
    return urllib3.util.parse_url(url).host or ""


def encode(document: Any) -> bytes:
    """JSON as it goes over the wire: UTF-8 as it is, because providers count bytes."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


@lru_cache(maxsize=1024)
def malformed(url: str, schemes: tuple[str, ...] = SCHEMES) -> str | None:
    """What is wrong with a target's form, or None. Says nothing of where it leads."""
    if re.search(r"[\x00-\x20\x7f\\]", url):
        return "must not hold blanks, backslashes or control characters"
    try:
        parts = urllib3.util.parse_url(url)
    except (HTTPError, UnicodeError):
        return f"give a whole URL such as {schemes[-1]}://host/path"
    if parts.scheme not in schemes or not parts.host or parts.port == 0:
        return f"give a whole URL such as {schemes[-1]}://host/path"
    if parts.auth is not None and parts.scheme in SCHEMES:
        return "must not hold a user or password before the host"
    return None


@lru_cache(maxsize=1024)
def taken_apart(url: str) -> tuple[str | None, str | None, int | None, str]:
    """Scheme, host, port, and what is asked of that host."""
    parts = urllib3.util.parse_url(url)
    return parts.scheme, parts.host, parts.port, parts.request_uri


def check_target(url: str, allow: tuple[Cidr, ...] | None) -> None:
    """Used when a channel is saved: raises ForbiddenTarget if `url` leads to a forbidden address.

    A name that does not resolve now is no refusal; what it resolves to is judged at each connection.
    """
    reason = malformed(url, (*SCHEMES, "smtp", "smtps"))
    if reason is not None:
        raise ForbiddenTarget(reason)
    try:
        Guard(allow).addresses(host_of(url), SAVE_LOOKUP_S)
    except ForbiddenTarget:
        raise
    except NotSent:
        return


@dataclass(frozen=True)
class Network:
    """Guarded, pooled HTTP for all threads of a process, and the operator's own mail server.

    The environment is not read: proxy, certificates and servers are those handed over.

    Attributes:
        allow: networks that may be dialled although they are private; None guards nothing.
        proxy: `http://…` of a proxy for all HTTP, or None.
        no_proxy: comma-separated hosts, domain suffixes and CIDRs that are dialled directly; `*` is all.
        ca_bundle: certificates trusted instead of the system's, or None.
        smtp_url: the operator's mail server, used by channels without one of their own, unguarded.
        timeout_s: the longest a request may take, from first byte sent to last byte read.
        smtp_timeout_s: the same for a mail.
    """

    allow: tuple[Cidr, ...] | None = ()
    proxy: str | None = field(default=None, repr=False)
    no_proxy: str = ""
    ca_bundle: str | None = None
    smtp_url: str | None = field(default=None, repr=False)
    timeout_s: float = 20.0
    smtp_timeout_s: float = 60.0

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Send one request; redirects are answers, not followed.

        Raises:
            NotSent: nothing left this machine (ForbiddenTarget: because it may not go there).
            Unanswered: it left, and no answer came.
        """
        if (reason := malformed(url)) is not None:
            raise ForbiddenTarget(reason)
        content = encode(json) if body is None and json is not None else body
        sent = urllib3.HTTPHeaderDict({"User-Agent": "Faultcast", "Accept-Encoding": "identity"})
        if json is not None:
            sent["Content-Type"] = "application/json; charset=utf-8"
        sent.update(headers or {})
        timeout = urllib3.Timeout(total=timeout_s or self.timeout_s)
        try:
            pool, target = self._route(url)
            raw = pool.urlopen(
                method, target, body=content, headers=sent, timeout=timeout,
                redirect=False, retries=NEVER, preload_content=False, decode_content=False,
                assert_same_host=False,
            )  # fmt: skip
        except (LocationValueError, UnicodeError, ValueError):
            raise NotSent("the target is not a URL that can be dialled") from None
        except (HTTPError, OSError, http.client.HTTPException) as error:
            raise Unanswered(reason_of(error)) from None
        return _read(raw)

    def dial(self, host: str, port: int, *, guarded: bool, timeout_s: float) -> socket.socket:
        """A connected socket, for protocols other than HTTP; never through the proxy."""
        return (self.guard if guarded else Guard(None)).dial(host, port, timeout_s)

    @cached_property
    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca_bundle)

    @cached_property
    def guard(self) -> Guard:
        return Guard(self.allow)

    def is_direct(self, url: str) -> bool:
        """Whether it is dialled from here, as hosts usually are: by no proxy and no zone."""
        host = "%" if malformed(url) is not None else taken_apart(url)[1] or ""
        return "%" not in host and (self.proxy is None or is_listed(host, self.no_proxy))

    def _route(self, url: str) -> tuple[Any, str]:
        """What sends to this URL, and what it is to be asked for."""
        manager = self._pool(url)
        if manager is not self._direct:
            return manager, url
        scheme, host, port, target = taken_apart(url)
        return manager.connection_from_host(host, port, scheme), target

    def _pool(self, url: str) -> urllib3.PoolManager:
        if self.proxy is None:
            return self._direct
        if is_listed(host_of(url), self.no_proxy):
            return self._direct
        # The proxy dials, so the target can only be judged by what its name means here.
        check_target(url, self.allow)
        return self._proxied

    @cached_property
    def _direct(self) -> urllib3.PoolManager:
        return self._guarded(urllib3.PoolManager(HOSTS, maxsize=CONNECTIONS_PER_HOST, ssl_context=self.tls))

    @cached_property
    def _proxied(self) -> urllib3.PoolManager:
        parts = urllib3.util.parse_url(self.proxy or "")
        login = unquote(parts.auth) if parts.auth else None
        manager = urllib3.ProxyManager(
            parts._replace(auth=None).url, HOSTS, maxsize=CONNECTIONS_PER_HOST, ssl_context=self.tls,
            proxy_headers=urllib3.make_headers(proxy_basic_auth=login),
        )  # fmt: skip
        return _with_connections(manager, Guard(None))

    def _guarded(self, manager: urllib3.PoolManager) -> urllib3.PoolManager:
        return _with_connections(manager, self.guard)


class FinalResponse(http.client.HTTPResponse):
    """Passes over interim answers (RFC 9110, 15.2), of which http.client (up to 3.14) knows 100 alone."""

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(MAX_INTERIM):
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if not (100 < status < 200 and status != http.HTTPStatus.SWITCHING_PROTOCOLS):
                return version, status, reason
            http.client.parse_headers(self.fp)
        raise http.client.HTTPException("nothing but interim answers")


class _TimedResponse(FinalResponse):
    """Reads the whole answer within what urllib3 left of the time when it began to wait for it."""

    def __init__(
        self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None
    ) -> None:
        super().__init__(sock, debuglevel, method, url)
        self.fp.close()
        until = monotonic() + (sock.gettimeout() or 0.0)
        self.fp = io.BufferedReader(TimedReader(sock, until))


class _Guarded(HTTPConnection):
    """`_held`: the head of a request whose body comes at once, so that both leave together; None: is sent."""

    guard: ClassVar[Guard]
    response_class = _TimedResponse
    _held: bytes | None = None
    _is_head = False

    def request(self, method: str, url: str, body: Any = None, *args: Any, **more: Any) -> None:
        self._held = b"" if isinstance(body, bytes) and body else None
        try:
            super().request(method, url, body, *args, **more)
        finally:
            self._held = None

    def endheaders(self, message_body: Any = None, *, encode_chunked: bool = False) -> None:
        if self._held is None:
            super().endheaders(message_body, encode_chunked=encode_chunked)
            return
        self._is_head = True
        try:
            super().endheaders(message_body, encode_chunked=encode_chunked)
        finally:
            self._is_head = False

    def send(self, data: Any) -> None:
        if self._is_head:
            self._held = (self._held or b"") + data
            return
        held, self._held = self._held, None
        super().send(held + data if held else data)

    def _new_conn(self) -> socket.socket:
        timeout = self.timeout if isinstance(self.timeout, int | float) else Network.timeout_s
        return self.guard.dial(self.host, self.port or self.default_port, timeout)

    def connect(self) -> None:
        try:
            super().connect()
        except NotSent:
            self.close()
            raise
        except (HTTPError, OSError, http.client.HTTPException, UnicodeError) as error:
            self.close()
            raise NotSent(reason_of(error)) from None


def _with_connections(manager: urllib3.PoolManager, guard: Guard) -> urllib3.PoolManager:
    class Plain(_Guarded):
        pass

    class Secure(_Guarded, HTTPSConnection):
        pass

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    Plain.guard = Secure.guard = guard
    manager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}
    return manager


def _read(raw: urllib3.BaseHTTPResponse) -> Response:
    body, is_whole = b"", True
    try:
        while len(body) <= MAX_BODY and (chunk := raw.read1(MAX_BODY, decode_content=False)):
            body += chunk
    except (HTTPError, OSError, http.client.HTTPException):
        is_whole = False
    drained = is_whole and len(body) <= MAX_BODY
    with suppress(HTTPError, OSError):
        raw.release_conn() if drained else raw.close()
    headers = {name.lower(): value for name, value in raw.headers.items()}
    return Response(raw.status, headers, body[:MAX_BODY], is_whole)


def reason_of(error: BaseException) -> str:
    """A failure in words of our own, by what lies at its root."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "TLS failed"
        if isinstance(cause, TimeoutError | ConnectionError) or (isinstance(cause, OSError) and cause.errno):
            return in_words(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "timed out"
    return "the connection failed"
