"""Makes `requests` take proxy, certificates and time limits from us while it is confined.

`requests.post`, as plugins and SDKs call it, makes a session that no caller can set up; it would read
proxies, certificates and passwords from the environment, follow redirects and read answers of any length.
"""

import http.client
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from requests import RequestException, Session, sessions

from channels.transport import MAX_BODY, FinalResponse, Network, Response, host_of

CHUNK = 16 * 1024


class Rules(Protocol):
    """What holds now."""

    network: Network
    response: Response | None
    error: BaseException | None

    def proxy_for(self, url: str) -> str | None: ...
    def judge_host(self, host: str) -> None: ...
    def left_s(self) -> float: ...


def cover(rules: Callable[[], Rules | None]) -> None:
    """From now on every session asks for the rules before it sends; None: it does as ever."""
    send, netrc = Session.send, sessions.get_netrc_auth  # type: ignore[attr-defined]

    def confined_send(self: Session, request: Any, **more: Any) -> Any:
        rule = rules()
        if rule is None:
            return send(self, request, **more)
        rule.response = rule.error = None
        try:
            response = send(self, request, **{**more, **_settings(rule, request.url)})
        except BaseException as error:
            rule.error = error  # not every caller lets it through
            raise
        # No connection is kept: one that the other side has closed meanwhile would look like a lost answer.
        line, response.raw._pool = response.raw.connection, None  # noqa: SLF001
        rule.response = _read(response)
        if line is not None:
            line.close()
        if not rule.response.is_whole:
            raise RequestException("the answer broke off")
        return response

    def confined_netrc(url: str, *more: Any) -> Any:
        return netrc(url, *more) if rules() is None else None

    http.client.HTTPConnection.response_class = FinalResponse
    Session.send = confined_send  # type: ignore[method-assign]
    sessions.get_netrc_auth = confined_netrc  # type: ignore[attr-defined, assignment]


def cover_tls(rules: Callable[[], Rules | None]) -> None:
    """http.client alone trusts the system's certificates; PEP 476 names this as the place to change that."""
    usual = ssl._create_default_https_context  # noqa: SLF001

    def confined_context(*given: Any, **more: Any) -> ssl.SSLContext:
        rule = rules()
        if rule is None or rule.network.ca_bundle is None:
            return usual(*given, **more)
        return rule.network.tls

    ssl._create_default_https_context = confined_context  # noqa: SLF001


def _settings(rule: Rules, url: str) -> dict[str, Any]:
    proxy = rule.proxy_for(url)
    if proxy is None:  # a look-up with a deadline, which the stack's own has not
        rule.judge_host(host_of(url))
    return {
        "allow_redirects": False,
        "proxies": {"http": proxy, "https": proxy} if proxy else {},
        "stream": True,
        "timeout": rule.left_s(),
        "verify": rule.network.ca_bundle or True,
    }


def _read(response: Any) -> Response:
    """Reads at most 64 KiB of the body, which is then all that the caller finds."""
    body, is_whole = b"", True
    try:
        for chunk in response.iter_content(CHUNK):
            body += chunk
            if len(body) >= MAX_BODY:
                response.close()
                break
    except RequestException:
        is_whole = False
    body = body[:MAX_BODY]
    response._content, response._content_consumed = body, True  # noqa: SLF001  as `content` does
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Response(response.status_code, headers, body, is_whole)
