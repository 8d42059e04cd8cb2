"""`faultcast channel …`: configured ways to reach people."""

from typing import Annotated

import typer

from master.cli.channelflags import ChannelFlags, channel_config
from master.cli.client import Client, segment
from master.cli.command import Count, Json, Scope, client_command, group, scoped
from master.cli.errors import FAILED, CommandError
from master.cli.output import field, note, print_facts, print_items, print_json, say

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


@client_command(app, "create", flags=ChannelFlags)
def create(
    client: Client, flags: ChannelFlags, name: Name, scope: Scope = None, as_json: Json = False
) -> None:
    """Create a channel; its secrets are encrypted and never shown again."""
    if flags.kind is None:
        raise CommandError(
            "--kind: what the channel is, is missing: give dingtalk, wecom, feishu, email, sms …"
        )
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
