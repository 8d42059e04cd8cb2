"""The flags of `channel create` and the `config` that they make, for channels of every kind."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import typer

from master.cli.errors import CommandError
from master.cli.values import inline_or_file, pairs, parse_mapping, scalar

_NAMED = re.compile(r"([A-Za-z_]\w{0,63})=(.*)", re.DOTALL)
_Text = str | None
_Texts = list[str] | None

# By the flag's name here: the field of config.
_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "webhook_url": "webhook_url",
        "url": "url",
        "secret": "secret",
        "keyword": "keyword",
        "smtp_url": "smtp_url",
        "provider": "provider",
        "template_id": "template_id",
        "sign_name": "sign_name",
        "region": "region",
        "endpoint": "endpoint",
        "app_id": "app_id",
        "sender": "from",
        "play_times": "play_times",
        "called_show_number": "called_show_number",
    }
)
_SECRET = frozenset({"webhook_url", "url", "secret", "smtp_url"})


def _option(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, show_default=False)


def _secret(name: str, text: str) -> Any:
    return _option(name, f"{text}; @FILE or @- keeps it out of the process list.", "VALUE|@FILE")


@dataclass(frozen=True, kw_only=True)
class ChannelFlags:
    """What was given of a channel; None means not given."""

    kind: Annotated[
        _Text,
        _option(
            "--kind", "dingtalk, wecom, feishu, email, sms, phone, webhook, apprise, or a package's own."
        ),
    ] = None
    config: Annotated[_Text, _option("--config", "The whole config as JSON or YAML.", "JSON|@FILE")] = None
    fields: Annotated[_Texts, _option("--set", "One field of config; repeatable.", "FIELD=VALUE")] = None
    webhook_url: Annotated[_Text, _secret("--webhook-url", "The robot's address")] = None
    url: Annotated[_Text, _secret("--url", "The address of a webhook or of an Apprise service")] = None
    secret: Annotated[_Text, _secret("--secret", "What signs the messages")] = None
    keyword: Annotated[_Text, _option("--keyword", "What the robot asks for in every message.")] = None
    smtp_url: Annotated[_Text, _secret("--smtp-url", "The mail server")] = None
    to: Annotated[_Texts, _option("--to", "A mail address or a number (+86…); repeatable.", "TO")] = None
    sender: Annotated[_Text, _option("--from", "Who mail comes from; Twilio's own number.")] = None
    provider: Annotated[_Text, _option("--provider", "aliyun, tencent, baidu or twilio (sms, phone).")] = None
    credential: Annotated[
        _Texts,
        _option(
            "--credential",
            "A key of the provider's; repeatable. NAME=@FILE or NAME=@- keeps it out of the process list.",
            "NAME=VALUE|NAME=@FILE",
        ),
    ] = None
    template_id: Annotated[_Text, _option("--template-id", "The provider's template of texts or calls.")] = (
        None
    )
    sign_name: Annotated[_Text, _option("--sign-name", "The signature that texts begin with.")] = None
    param: Annotated[
        _Texts,
        _option(
            "--param",
            "What fills the provider's template, itself a template over the alert; repeatable, all with"
            " names or all in the provider's order.",
            "VALUE|NAME=VALUE",
        ),
    ] = None
    app_id: Annotated[_Text, _option("--app-id", "Tencent's SDK application.")] = None
    region: Annotated[_Text, _option("--region", "Of the provider, such as ap-guangzhou.")] = None
    endpoint: Annotated[_Text, _option("--endpoint", "Another address of the provider.", "URL")] = None
    play_times: Annotated[_Text, _option("--play-times", "How often a call says it, 1 to 3.", "N")] = None
    called_show_number: Annotated[
        _Text, _option("--called-show-number", "The number that Aliyun's calls show.")
    ] = None
    language: Annotated[_Text, _option("--language", "zh or en.")] = None
    timezone: Annotated[_Text, _option("--timezone", "Such as Asia/Shanghai.")] = None


def channel_config(flags: ChannelFlags) -> dict[str, Any]:
    """The `config` object: --config, then --set, then the short forms."""
    config = parse_mapping("--config", inline_or_file("--config", flags.config)) if flags.config else {}
    for text in flags.fields or ():
        _set_field(config, text)
    for name, field in _FIELDS.items():
        value = getattr(flags, name)
        if value is not None:
            config[field] = inline_or_file(_flag(name), value) if name in _SECRET else value
    if flags.play_times is not None:
        config["play_times"] = scalar(flags.play_times)
    if flags.credential:
        given = pairs("--credential", flags.credential)
        keys = {name: inline_or_file("--credential", value) for name, value in given.items()}
        config["credentials"] = {**config.get("credentials", {}), **keys}
    if flags.param:
        config["params"] = params(flags.param)
    return config | ({"to": flags.to} if flags.to else {})


def params(given: Iterable[str]) -> dict[str, str] | list[str]:
    """All of them with names, or none: providers either name what they fill in or count it."""
    found = [_NAMED.fullmatch(text) for text in given]
    named = {match[1]: match[2] for match in found if match is not None}
    if not named:
        return list(given)
    if None in found or len(named) < len(found):
        raise CommandError("--param: give every one a name of its own, NAME=VALUE, or none of them")
    return named


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _set_field(config: dict[str, Any], text: str) -> None:
    """`FIELD=VALUE` or `FIELD.KEY=VALUE`; a value that is JSON is taken as JSON, `@FILE` is read."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise CommandError(f"--set: {text} has no FIELD=VALUE: write --set at_all=true")
    target = config
    *parents, last = path.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
        if not isinstance(target, dict):
            raise CommandError(f"--set: {path}: {parent} has a value of its own already")
    target[last] = inline_or_file("--set", value) if value.startswith("@") else scalar(value)
