"""Everything else, through Apprise: https://appriseit.com/services/

Apprise tells whether a service took a message, and no more: no code, no retry time, no receipt. So its
word is `accepted` at best, and why it failed is read from the HTTP answer that we see below it.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, SecretStr

from channels.answers import MAX_MESSAGE, Verdict, retry_after
from channels.apprise_schemes import ALLOWED, FORBIDDEN, OURS
from channels.base import Adapter, Answer, ChannelConfig, Message, Outcome, Part, Severity
from channels.config import mask_url, secrets_of
from channels.confined import confined
from channels.cutting import MAX_PARTS, WIDEST_LABEL, body_of, cut, label, tail_for
from channels.escaping import GAP, clean, one_line, unmention
from channels.fields import MAX_URL, trimmed
from channels.outcomes import look_up
from channels.outcomes.apprise import TABLE
from channels.redaction import redact
from channels.transport import ForbiddenTarget, Network, NotSent, Response, Unanswered

TYPES: Mapping[Severity, str] = {
    Severity.INFO: "info",
    Severity.WARNING: "warning",
    Severity.ERROR: "failure",
    Severity.CRITICAL: "failure",
}
FRAME = 20  # characters of a label, and of the markup around a title that stands in the text
_LINES: ContextVar[list[str] | None] = ContextVar("lines", default=None)


def _url(value: SecretStr) -> SecretStr:
    """What is wrong is told without the URL, any part of which may be the key."""
    url = value.get_secret_value()
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if not separator or not scheme.isalnum() or len(url) > MAX_URL or not url.isprintable():
        raise ValueError(f"give an Apprise URL such as ntfy://host/topic, of at most {MAX_URL} characters")
    if scheme in OURS:
        raise ValueError(f"{scheme} has a kind of its own: make a channel of kind {OURS[scheme]}")
    if scheme not in ALLOWED:
        raise ValueError(f"{scheme[:20]} is none of the services that may be reached through Apprise")
    _library()
    parsed = _plugins()[scheme].parse_url(url)
    given = {str(name).lower() for name in (parsed or {}).get("qsd", {})}
    if taken := sorted(given & FORBIDDEN):
        raise ValueError(f"leave ?{taken[0]}= out: that is not for the URL to decide")
    if service(url) is None:
        raise ValueError(f"is no {scheme} URL that Apprise understands: see appriseit.com/services")
    return value


class AppriseConfig(ChannelConfig):
    url: Annotated[SecretStr, BeforeValidator(trimmed), AfterValidator(_url)]

    def targets(self) -> tuple[str, ...]:
        """Of services at hosts of the user's; the hosts of the others are Apprise's."""
        plugin = service(self.url.get_secret_value())
        if not plugin.host or not any("{host}" in form for form in plugin.templates):
            return ()
        port = f":{plugin.port}" if plugin.port else ""
        return (f"{'https' if plugin.secure else 'http'}://{plugin.host}{port}",)


class Apprise(Adapter):
    kind: ClassVar[str] = "apprise"
    Config: ClassVar[type[ChannelConfig]] = AppriseConfig
    format: ClassVar[str] = "text"

    def escape(self, text: str) -> str:
        """Services differ in their markup: what calls people or hides a link is broken for all of them."""
        return unmention(text).replace("](", "]" + GAP + "(")

    def parts(self, message: Message, config: AppriseConfig) -> list[Part]:
        """Apprise counts characters, and puts the title into the text where a service has none."""
        plugin = service(config.url.get_secret_value())
        most, most_title = int(plugin.body_maxlen), int(plugin.title_maxlen)
        is_apart = most_title > 0 and not plugin.overflow_amalgamate_title
        room = most_title if is_apart else min(most_title or most, most // 2)
        title = self._title(message.title, room - len(WIDEST_LABEL))
        first, later = (0, 0) if is_apart else (len(title) + FRAME, FRAME)
        text = body_of(message) or title
        budgets = [most - first] + [most - later] * (MAX_PARTS - 1)
        pieces = cut(text, budgets, len, tail_for(text, message.link or ""))
        titles = [title if is_apart or not n else "" for n in range(len(pieces))]
        return [
            Part(
                n,
                len(pieces),
                {"title": (titles[n - 1] + label(n, len(pieces))).strip(), "text": piece},
                message,
            )
            for n, piece in enumerate(pieces, 1)
        ]

    def _title(self, title: str, room: int) -> str:
        """One line of at most `room` characters that calls nobody."""
        line = one_line(title, room)
        return self.escape(one_line(title, room - (len(self.escape(line)) - len(line))))

    def send(
        self,
        part: Part,
        config: AppriseConfig,
        network: Network,
        now: datetime,
        only: frozenset[str] | None = None,  # noqa: ARG002  it tells nothing of single targets
    ) -> Answer:
        secrets = secrets_of(config)
        url = config.url.get_secret_value()
        request = f"{mask_url(url)}\n{part.payload['title']}\n{part.payload['text']}"
        with _hearing() as lines:
            answer = _sent(part, service(url), network, now)
        said = "; ".join([*lines, answer.message])
        return replace(
            answer,
            message=redact(clean(said), secrets, limit=MAX_MESSAGE),
            request=redact(request, secrets),
            response=redact(clean(answer.response), secrets),
        )


def service(url: str) -> Any:
    """Apprise's plugin for a URL, with nothing left to decide for itself; None: it is not a valid one."""
    plugin = _library().Apprise.instantiate(url, asset=_asset())
    if plugin is None or getattr(plugin, "template", None):
        return None
    plugin.retry, plugin.redirects, plugin.verify_certificate = 0, False, True
    plugin.overflow_mode = _library().OverflowMode.UPSTREAM
    plugin.request_rate_per_sec = 0
    plugin.throttle = lambda *_, **__: None  # it would sleep in our worker
    return plugin


def _sent(part: Part, plugin: Any, network: Network, now: datetime) -> Answer:
    try:
        is_taken, response = _notify(part, plugin, network)
    except ForbiddenTarget as lost:
        return Answer(Outcome.REFUSED, code="forbidden_target", message=lost.reason)
    except NotSent as lost:
        return Answer(Outcome.TEMPORARY, code="not_sent", message=lost.reason)
    except Unanswered as lost:
        return Answer(Outcome.AMBIGUOUS, code="unanswered", message=lost.reason)
    verdict = Verdict(Outcome.ACCEPTED) if is_taken else _verdict(response, now)
    said = f"HTTP {response.status}"
    return Answer(
        verdict.outcome,
        http_status=response.status,
        code=str(response.status),
        message=f"{said} ({verdict.hint})" if verdict.hint else said,
        retry_after=verdict.retry_after,
        repeated_after=verdict.repeated_after,
        mend=verdict.mend,
        response=f"{said}\n{response.text}",
    )


def _notify(part: Part, plugin: Any, network: Network) -> tuple[bool, Response]:
    """Apprise's word, and the last answer that it got.

    Raises:
        NotSent, Unanswered: as `confined`.
    """
    message = part.message
    kind = "success" if message.status == "resolved" else TYPES[message.severity]
    with confined(network) as wire:
        is_taken = plugin.notify(
            body=part.payload["text"], title=part.payload["title"], notify_type=kind, body_format="text"
        )
        if wire.response is None:
            raise wire.failure()
        return bool(is_taken), wire.response


def _verdict(response: Response, now: datetime) -> Verdict:
    found = look_up(TABLE, response.status, "") or Verdict(Outcome.TEMPORARY)
    waited = retry_after(response, now)
    if waited is not None and found.outcome in (Outcome.THROTTLED, Outcome.TEMPORARY):
        return replace(found, retry_after=waited, repeated_after=waited)
    return found


@contextmanager
def _hearing() -> Iterator[list[str]]:
    """What Apprise logs meanwhile, in this thread."""
    lines: list[str] = []
    token = _LINES.set(lines)
    try:
        yield lines
    finally:
        _LINES.reset(token)


def _listen(record: logging.LogRecord) -> bool:
    """Its log tells hosts, tokens and texts: it goes to whoever is hearing, and nowhere else."""
    lines = _LINES.get()
    if lines is not None and record.levelno >= logging.WARNING:
        lines.append(record.getMessage())
    return False


@cache
def _library() -> Any:
    """Apprise, imported when a channel of this kind is first met: it costs half a second and 35 MB."""
    logger = logging.getLogger("apprise")
    logger.setLevel(logging.WARNING)
    logger.addFilter(_listen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python, for what its plugins import
        library = import_module("apprise")
        _plugins().load_modules()
    return library


def _plugins() -> Any:
    return import_module("apprise.manager_plugins").NotificationManager()


@cache
def _asset() -> Any:
    return _library().AppriseAsset(
        app_id="Faultcast", app_desc="Faultcast", app_url="", async_mode=False, http_redirects=False,
        interpret_emojis=False, storage_mode="memory", pgp_autogen=False, pem_autogen=False,
        service_timeout=0, allow_templates=False, image_url_mask="", image_url_logo="",
    )  # fmt: skip
