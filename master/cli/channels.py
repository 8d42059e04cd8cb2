"""`faultcast channel …`: configured ways to reach people."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, Scope, client_command, group, scoped
from master.cli.errors import FAILED, CommandError
from master.cli.output import field, note, print_facts, print_items, print_json, say
from master.cli.values import inline_or_file, parse_mapping, scalar

app = group("Channels: configured ways to reach people.")

COLUMNS = {
    "NAME": field("name"),
    "KIND": field("kind"),
    "SCOPE": field("scope"),
    "ENABLED": field("enabled"),
    "HEALTH": field("health"),
}
GOOD = frozenset({"delivered", "accepted"})

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_Text = str | None
_Texts = list[str] | None


def _option(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, show_default=False)


def _secret(name: str, text: str) -> Any:
    return _option(name, f"{text}; @FILE or @- keeps it out of the process list.", "VALUE|@FILE")


@dataclass(frozen=True, kw_only=True)
class ChannelFlags:
    """What was given of a channel; None means not given."""

    kind: Annotated[_Text, _option("--kind", "dingtalk, wecom, feishu, email, webhook …")] = None
    config: Annotated[_Text, _option("--config", "The whole config as JSON or YAML.", "JSON|@FILE")] = None
    fields: Annotated[_Texts, _option("--set", "One field of config; repeatable.", "FIELD=VALUE")] = None
    webhook_url: Annotated[_Text, _secret("--webhook-url", "The robot's address")] = None
    url: Annotated[_Text, _secret("--url", "A webhook's address")] = None
    secret: Annotated[_Text, _secret("--secret", "What signs the messages")] = None
    smtp_url: Annotated[_Text, _secret("--smtp-url", "The mail server")] = None
    to: Annotated[_Texts, _option("--to", "A recipient; repeatable.")] = None
    language: Annotated[_Text, _option("--language", "zh or en.")] = None
    timezone: Annotated[_Text, _option("--timezone", "Such as Asia/Shanghai.")] = None


@client_command(app, "create", flags=ChannelFlags)
def create(
    client: Client, flags: ChannelFlags, name: Name, scope: Scope = None, as_json: Json = False
) -> None:
    """Create a channel; its secrets are encrypted and never shown again."""
    if flags.kind is None:
        raise CommandError("--kind: what the channel is, is missing: give dingtalk, wecom, feishu, email …")
    body = {"name": name, "kind": flags.kind, "scope": scope, "config": channel_config(flags)}
    body |= {"language": flags.language, "timezone": flags.timezone}
    channel = client.post("/channels", {key: value for key, value in body.items() if value is not None})
    for warning in channel.get("warnings") or ():
        note(f"warning: {warning}")
    print_json(channel) if as_json else say(f"channel {name} created; try it: faultcast channel test {name}")


@client_command(app, "list")
def list_channels(client: Client, limit: Count = 50, as_json: Json = False) -> None:
    """List channels."""
    print_items(client.pages("/channels", {}, limit), COLUMNS, as_json=as_json, empty="no channels")


@client_command(app, "get")
def get(client: Client, name: Name, scope: Scope = None, as_json: Json = False) -> None:
    """Show one channel, secrets masked."""
    document = client.get(f"/channels/{segment(name)}", scoped(scope))
    print_json(document) if as_json else print_facts(document)


@client_command(app, "test")
def send_test(client: Client, name: Name, scope: Scope = None, as_json: Json = False) -> None:
    """Send a real message now and show what the provider said."""
    answer = client.post(f"/channels/{segment(name)}/test", query=scoped(scope))
    print_json(answer) if as_json else print_facts(answer)
    if answer["outcome"] not in GOOD:
        words = answer.get("provider_message") or "see the provider's code above"
        raise CommandError(f"the test message was not delivered ({answer['outcome']}): {words}", FAILED)


@client_command(app, "delete")
def delete(client: Client, name: Name, scope: Scope = None) -> None:
    """Delete a channel."""
    client.delete(f"/channels/{segment(name)}", scoped(scope))
    say(f"channel {name} deleted")


def channel_config(flags: ChannelFlags) -> dict[str, Any]:
    """The `config` object: --config, then --set, then the short forms."""
    config = parse_mapping("--config", inline_or_file("--config", flags.config)) if flags.config else {}
    for text in flags.fields or ():
        _set_field(config, text)
    for name in ("webhook_url", "url", "secret", "smtp_url"):
        value = getattr(flags, name)
        if value is not None:
            config[name] = inline_or_file(f"--{name.replace('_', '-')}", value)
    return config | ({"to": flags.to} if flags.to else {})


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
