"""Webhooks to a receiver of the user's own, signed by https://www.standardwebhooks.com.

Signed by hand: `standardwebhooks` 1.1 signs a wrong moment when it is given one that is not in UTC.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from channels import fields
from channels.answers import Call, Caller, Reading, by_status, retry_after
from channels.base import ChannelConfig, Message, Outcome, Part
from channels.config import secrets_of
from channels.outcomes import look_up
from channels.outcomes.webhook import TABLE
from channels.transport import Response, encode
from channels.webhook_bodies import Format, body

PREFIX = "whsec_"
MAX_SECRETS = 2  # the new one and the old one
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_RESERVED = frozenset(
    {"host", "connection", "content-length", "content-type", "transfer-encoding", "upgrade", "expect"}
    | {"webhook-id", "webhook-timestamp", "webhook-signature", "accept-encoding"}
)


def _signing_secret(value: SecretStr) -> SecretStr:
    words = value.get_secret_value().split()
    if not 1 <= len(words) <= MAX_SECRETS or None in map(signing_key, words):
        raise ValueError(
            f"give {PREFIX} and 24 to 64 bytes in base64, as Standard Webhooks has it; while it is changed"
            " the new one and the old one, with a blank between them"
        )
    return value


def _headers(value: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    for name, secret in value.items():
        text = secret.get_secret_value()
        if _TOKEN.fullmatch(name) is None or name.lower() in _RESERVED:
            raise ValueError("a header's name must be a plain word, and not one that is set here")
        if not (text.isascii() and text.isprintable() and len(text) <= 4096):
            raise ValueError(f"the value of {name} must be printable ASCII of at most 4096 characters")
    return value


SigningSecret = Annotated[SecretStr, BeforeValidator(fields.trimmed), AfterValidator(_signing_secret)]
Headers = Annotated[dict[str, SecretStr], AfterValidator(_headers), Field(max_length=20)]


class WebhookConfig(ChannelConfig):
    url: fields.Url
    secret: Annotated[SecretStr, BeforeValidator(fields.trimmed), AfterValidator(_signing_secret)] | None = (
        None
    )
    format: Format = Format.FAULTCAST
    headers: Headers = Field(default_factory=dict)

    def targets(self) -> tuple[str, ...]:
        return (self.url.get_secret_value(),)

    def lint(self) -> tuple[str, ...]:
        found = []
        if self.url.get_secret_value().startswith("http:"):
            found.append("url: http sends the alert and the headers in the clear")
        if self.secret is None:
            found.append("secret: without one the receiver cannot tell who sent the alert")
        return tuple(found)


class Webhook(Caller):
    kind: ClassVar[str] = "webhook"
    Config: ClassVar[type[ChannelConfig]] = WebhookConfig
    format: ClassVar[str] = "text"

    def parts(self, message: Message, config: WebhookConfig) -> list[Part]:
        return [Part(1, 1, body(message, config.format), message)]

    def call(self, part: Part, config: WebhookConfig, now: datetime) -> Call:
        content = encode(part.payload)
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        cloudevent = config.format is Format.CLOUDEVENTS
        headers["Content-Type"] = "application/cloudevents+json" if cloudevent else "application/json"
        headers |= signed(part.message.id, content, config, now)
        url, secrets = config.url.get_secret_value(), secrets_of(config)
        return Call(url, part.payload, secrets, headers=headers, body=content)

    def read(self, response: Response, now: datetime) -> Reading:
        return read(response, now)


def signing_key(secret: str) -> bytes | None:
    """The key in a `whsec_…` secret; None if it is not one."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if secret.startswith(PREFIX) and 24 <= len(key) <= 64 else None


def signature(key: bytes, message_id: str, timestamp_s: int, content: bytes) -> str:
    signed_text = f"{message_id}.{timestamp_s}.".encode() + content
    return "v1," + base64.b64encode(hmac.digest(key, signed_text, hashlib.sha256)).decode()


def signed(message_id: str, content: bytes, config: WebhookConfig, now: datetime) -> dict[str, str]:
    """The id is the delivery's, so that a receiver knows a repeat; the moment is that of this try.

    One signature for each secret: a receiver takes whichever it can verify.
    """
    stamp = int(now.timestamp())
    headers = {"webhook-id": message_id, "webhook-timestamp": str(stamp)}
    words = config.secret.get_secret_value().split() if config.secret else []
    keys = [key for word in words if (key := signing_key(word)) is not None]
    signatures = [signature(key, message_id, stamp, content) for key in keys]
    return {**headers, "webhook-signature": " ".join(signatures)} if signatures else headers


def read(response: Response, now: datetime) -> Reading:
    """Only the status counts; how long to wait is the receiver's to say."""
    verdict = look_up(TABLE, response.status, "")
    if verdict is None or verdict.outcome in (Outcome.TEMPORARY, Outcome.THROTTLED):
        verdict = by_status(response, retry_after(response, now))
    return Reading(verdict)
