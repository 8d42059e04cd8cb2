"""One adapter as the contract sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from channels.base import Adapter, ChannelConfig, Outcome
from channels.config import secrets_of
from channels.standin import StandIn

CANARY = "CANARYq7Zk/x+9secretTOKEN"  # with what percent-encoding and base64 change


@dataclass(frozen=True)
class Subject:
    """An adapter, and how its provider is played.

    Attributes:
        adapter: the adapter under test.
        address: the config field that says where to.
        config: the rest of a config that is valid.
        played: who plays the provider: a kind of `faultcast standin`, or `any`, which takes whatever it is
            sent and answers `success`.
        journal: the kind under which the stand-in notes what arrived, where that is not `played`.
        success: the JSON of a provider that took the message.
        secret: the config's `secret`, where the kind signs with one; the played provider checks it.
        canaries: config fields that hold CANARY somewhere, all of them secret.
        limit: bytes of `size(payload)` that no part may exceed; None: the provider counts none.
        size: what the provider counts.
        mentioned: config fields by which people are called.
        called: who is then called, as the played provider tells it.
        scheme: of the address.
        told: what the provider's good word means: `delivered`, or `accepted` where it promises no more.
    """

    adapter: Adapter
    address: str = "url"
    config: Mapping[str, Any] = field(default_factory=dict)
    played: str = "any"
    journal: str = ""
    success: Mapping[str, Any] = field(default_factory=dict)
    secret: str | None = None
    canaries: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    size: Callable[[Mapping[str, Any]], int] = len
    mentioned: Mapping[str, Any] = field(default_factory=dict)
    called: frozenset[str] = frozenset()
    scheme: str = "http"
    told: Outcome = Outcome.DELIVERED

    def leading_to(self, url: str, **more: Any) -> ChannelConfig:
        """A channel to that URL."""
        signed = {"secret": self.secret} if self.secret else {}
        given = {**self.config, **signed, **more, self.address: url}
        return self.adapter.Config.model_validate(given)

    def channel(self, providers: StandIn, *, keyword: str | None = None, **more: Any) -> ChannelConfig:
        """A channel to a played provider of its own; secret and keyword are known on both sides."""
        robot = providers.robot(self.played, secret=self.secret, keyword=keyword, success=dict(self.success))
        known = {"keyword": keyword} if keyword else {}
        return self.leading_to(robot.url, **known, **more)

    def telltale(self, base: str, providers: StandIn) -> ChannelConfig:
        """A channel whose every secret is CANARY, its URL's key included, on the server at `base`."""
        url = providers.robot(self.played, "x").url
        key = url[url.rindex("x") + 1 :]
        url = url[: url.rindex("x")] + quote(CANARY, safe="") + key
        return self.leading_to(url.replace(providers.url, base), **self.canaries)

    def hidden(self, config: ChannelConfig) -> tuple[str, ...]:
        """What of that config nobody may see."""
        return secrets_of(config)


@dataclass(frozen=True)
class MailSubject(Subject):
    """An adapter that hands mail to an SMTP server: the operator's or the channel's own."""

    address: str = "smtp_url"
    played: str = "email"
    scheme: str = "smtp"

    def channel(self, providers: StandIn, *, keyword: str | None = None, **more: Any) -> ChannelConfig:  # noqa: ARG002  mail has none
        return self.leading_to(providers.smtp_url, **more)

    def telltale(self, base: str, providers: StandIn) -> ChannelConfig:
        key = quote(CANARY, safe="")
        where = providers.smtp_url if base == providers.url else base.replace("http:", "smtp:")
        return self.leading_to(where.replace("://", f"://{key}:{key}@"))
