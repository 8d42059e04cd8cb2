"""Every provider of texts and calls as the contract sees it, through its own SDK."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from channels.base import ChannelConfig, Outcome
from channels.contract import CANARY, Subject
from channels.registry import ADAPTERS
from channels.standin import StandIn

ALICE = "+8613800001111"
SIGN, TEMPLATE, FROM, APP_ID = "demo", "TPL_1", "+15005550006", "1400000000"
KEYS = {
    "aliyun": ("access_key_id", "access_key_secret"),
    "baidu": ("access_key_id", "access_key_secret"),
    "tencent": ("secret_id", "secret_key"),
    "twilio": ("account_sid", "auth_token"),
}


@dataclass(frozen=True)
class TelecomSubject(Subject):
    """An account of its own for every channel, so that no number's quota is used up."""

    address: str = "endpoint"
    account: Mapping[str, Any] = field(default_factory=dict)

    def keys(self, providers: StandIn, **more: Any) -> dict[str, Any]:
        account = providers.account(self.played, **{**self.account, **more})
        name, secret = KEYS[self.played]
        return {"credentials": {name: account.key, secret: account.secret}}

    def channel(self, providers: StandIn, *, keyword: str | None = None, **more: Any) -> ChannelConfig:  # noqa: ARG002
        return self.leading_to(providers.url, **self.keys(providers), **more)

    def leading_to(self, url: str, **more: Any) -> ChannelConfig:
        name, secret = KEYS[self.played]
        keys = {"credentials": {name: "AC" + "0" * 32, secret: "nobody's"}}
        return super().leading_to(url, **{**keys, **more})

    def telltale(self, base: str, providers: StandIn) -> ChannelConfig:
        return self.leading_to(base, **self.keys(providers, secret=CANARY))


def _subject(kind: str, provider: str) -> TelecomSubject:
    template = {"tencent": "{1}"}.get(provider, "${text}")
    config: dict[str, Any] = {"provider": provider, "to": [ALICE]}
    if provider == "twilio":
        config["from"] = FROM
    else:
        config["template_id"] = TEMPLATE
        config["params"] = ["{{ what }}"] if provider == "tencent" else {"text": "{{ what }}"}
        config |= {"sign_name": SIGN} if kind == "sms" else {}
    config |= {"app_id": APP_ID} if provider == "tencent" else {}
    account = {"signs": frozenset({SIGN}), "templates": {TEMPLATE: template}, "senders": frozenset({FROM})}
    account |= {"app_id": APP_ID} if provider == "tencent" else {}
    return TelecomSubject(
        ADAPTERS[kind], config=config, played=provider, journal=kind, told=Outcome.ACCEPTED, account=account
    )


SUBJECTS = {
    f"{kind}-{provider}": _subject(kind, provider)
    for kind, providers in (
        ("sms", ("aliyun", "baidu", "tencent", "twilio")),
        ("phone", ("aliyun", "tencent", "twilio")),
    )
    for provider in providers
}
