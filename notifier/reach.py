"""Whether what the operator set can be reached from here (`faultcast doctor`). Nothing is sent to anybody."""

from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from channels.smtp import MailServer, Refused, greet
from channels.transport import Network, NotSent, Unanswered
from notifier.network import network_of
from notifier.settings import Settings

WITHIN_S = 5.0
_PORTS = {"http": 80, "https": 443, "redis": 6379, "rediss": 6379}


@dataclass(frozen=True)
class Page:
    """What a web address answered; or `why` it did not."""

    status: int = 0
    body: bytes = b""
    date: datetime | None = None
    why: str = ""


def mail_server(settings: Settings) -> str:
    """Greets, secures and logs in as a mail would; why that failed, "" where it did not."""
    network = replace(_network(settings), smtp_timeout_s=WITHIN_S)
    try:
        greet(network, MailServer.parse(network.smtp_url or ""))
    except NotSent as error:
        return error.reason
    except (Refused, ValueError) as error:
        return str(error)
    return ""


def port(settings: Settings, url: str) -> str:
    """Why nobody listens at that address, "" where somebody does."""
    parts = urlsplit(url)
    number = parts.port or _PORTS.get(parts.scheme, 443)
    try:
        _network(settings).dial(parts.hostname or "", number, guarded=False, timeout_s=WITHIN_S).close()
    except NotSent as error:
        return error.reason
    return ""


def page(settings: Settings, url: str) -> Page:
    """Asks as messages are sent: by the proxy and the certificates that are set."""
    try:
        answer = _network(settings).request("GET", url, timeout_s=WITHIN_S)
    except (NotSent, Unanswered) as error:
        return Page(why=error.reason)
    return Page(answer.status, answer.body, _date(answer.headers.get("date", "")))


def _network(settings: Settings) -> Network:
    return replace(network_of(settings), allow=None)  # the operator's own addresses may be private


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
