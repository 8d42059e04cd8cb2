"""What `faultcast standin` has ready: one robot of each kind and one account of each provider of texts and
calls, and the command that makes a channel to each."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from channels.standin.providers import StandIn
from channels.standin.server import TELECOM
from channels.standin.telecom import Account

TOKEN = "demo"  # noqa: S105  the key of a played robot
SECRET = "SECdemo"  # noqa: S105  likewise
WEBHOOK_SECRET = "whsec_ZmF1bHRjYXN0LXN0YW5kLWluLXNlY3JldA=="  # noqa: S105  likewise
SECRETS = {"dingtalk": SECRET, "wecom": None, "feishu": SECRET, "webhook": WEBHOOK_SECRET}

NUMBER, TWILIO_NUMBER = "+8613800001111", "+15005550006"
SIGN, TEMPLATE, APP_ID = "demo", "TPL_demo", "1400000000"
NAMED, COUNTED = "训练告警：${title}", "训练告警：{1}"
KEYS = {
    "aliyun": ("access_key_id", "access_key_secret"),
    "baidu": ("access_key_id", "access_key_secret"),
    "tencent": ("secret_id", "secret_key"),
    "twilio": ("account_sid", "auth_token"),
}
CALLING = ("aliyun", "tencent", "twilio")


@dataclass(frozen=True)
class Ready:
    """`document` is the line of JSON; `commands` are what one pastes to have a channel to each of them."""

    document: dict[str, Any]
    commands: tuple[str, ...]


def furnish(providers: StandIn) -> Ready:
    """Registers robots and accounts whose keys are the same each time."""
    robots = {kind: providers.robot(kind, TOKEN, secret=secret) for kind, secret in SECRETS.items()}
    accounts = {name: _account(providers, name) for name in TELECOM}
    commands = [
        *(_robot(kind, robot.url, robot.secret) for kind, robot in robots.items()),
        _command("standin-mail", "email", to="oncall@example.com", smtp_url=providers.smtp_url),
        _command("standin-apprise", "apprise", url=_apprise_url(providers)),
        *(command for account in accounts.values() for command in _telecom(account)),
    ]
    providers.robot("any", TOKEN)
    known = {
        "url": providers.url,
        "smtp_url": providers.smtp_url,
        "robots": {kind: {"url": robot.url, "secret": robot.secret} for kind, robot in robots.items()},
        "accounts": {name: _document(account) for name, account in accounts.items()},
        "commands": commands,
    }
    return Ready(known, tuple(commands))


def _apprise_url(providers: StandIn) -> str:
    return f"gotify://{providers.url.partition('://')[2]}/any/{TOKEN}/{TOKEN}"


def _account(providers: StandIn, name: str) -> Account:
    key = {"twilio": "AC" + "d" * 32}.get(name, f"AK{name}demo")
    counted = name == "tencent"
    return providers.account(
        name,
        key,
        secret=f"{name}-demo-secret",
        signs=frozenset({SIGN}),
        templates={TEMPLATE: COUNTED if counted else NAMED},
        senders=frozenset({TWILIO_NUMBER}),
        app_id=APP_ID if counted else "",
    )


def _document(account: Account) -> dict[str, Any]:
    key, secret = KEYS[account.provider]
    return {
        "endpoint": account.endpoint,
        "credentials": {key: account.key, secret: account.secret},
        "sign_name": next(iter(account.signs)),
        "template_id": next(iter(account.templates)),
        "from": TWILIO_NUMBER if account.provider == "twilio" else None,
        "app_id": account.app_id or None,
    }


def _robot(kind: str, url: str, secret: str | None) -> str:
    where = {"url": url} if kind == "webhook" else {"webhook_url": url}
    return _command(f"standin-{kind}", kind, **where, **({"secret": secret} if secret else {}))


def _telecom(account: Account) -> Iterator[str]:
    kinds = ("sms", "phone") if account.provider in CALLING else ("sms",)
    for kind in kinds:
        yield _command(f"standin-{account.provider}-{kind}", kind, **_flags(account, kind))


def _flags(account: Account, kind: str) -> dict[str, Any]:
    key, secret = KEYS[account.provider]
    flags: dict[str, Any] = {"provider": account.provider, "to": NUMBER, "endpoint": account.endpoint}
    flags["credential"] = [f"{key}={account.key}", f"{secret}={account.secret}"]
    if account.provider == "twilio":
        return {**flags, "from": TWILIO_NUMBER}
    flags["template_id"] = TEMPLATE
    flags["param"] = "{{ title }}" if account.provider == "tencent" else "title={{ title }}"
    if kind == "sms":
        flags["sign_name"] = SIGN
    return flags | ({"app_id": account.app_id} if account.app_id else {})


def _command(name: str, kind: str, **flags: Any) -> str:
    words = ["faultcast", "channel", "create", name, "--kind", kind]
    for flag, value in flags.items():
        for one in value if isinstance(value, list) else [value]:
            words += [f"--{flag.replace('_', '-')}", str(one)]
    return shlex.join(words)
