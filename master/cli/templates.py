"""`faultcast template …`: words of one's own."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, Scope, client_command, group
from master.cli.errors import CommandError
from master.cli.output import field, note, print_items, print_json, say, time_of
from master.cli.values import inline_or_file

app = group("Templates: words of one's own, per channel, item and language.")

COLUMNS = {
    "ID": field("id"),
    "SCOPE": field("scope"),
    "CHANNEL": field("channel"),
    "ITEM": field("item"),
    "LANGUAGE": field("language"),
    "CREATED": time_of("created_at"),
}
Ident = Annotated[str, typer.Argument(metavar="ID", show_default=False)]


@dataclass(frozen=True)
class TemplateFlags:
    """What is left out, is for all."""

    text: Annotated[str | None, typer.Option(help="The body, Jinja; @FILE reads it (@- stdin).")]
    title: Annotated[str | None, typer.Option(help="The title, Jinja; @FILE reads it.")]
    channel: Annotated[str | None, typer.Option(help="The channel that it is for [default: all].")]
    item: Annotated[str | None, typer.Option(help="The alert item, or digest [default: all].")]
    language: Annotated[str | None, typer.Option(help="zh or en [default: both].")]


@client_command(app, "create", flags=TemplateFlags)
def create(client: Client, flags: TemplateFlags, scope: Scope = None, as_json: Json = False) -> None:
    """Keep a template; it is tried on a sample of each alert first."""
    document = client.post("/templates", _body(flags, scope))
    print_json(document) if as_json else say(f"template {document['id']} created")


@client_command(app, "list")
def list_templates(client: Client, limit: Count = 50, as_json: Json = False) -> None:
    """List templates."""
    print_items(client.pages("/templates", {}, limit), COLUMNS, as_json=as_json, empty="no templates")


@client_command(app, "delete")
def delete(client: Client, ident: Ident) -> None:
    """Delete a template: the built-in words are told again."""
    client.delete(f"/templates/{segment(ident)}")
    say(f"template {ident} deleted")


@client_command(app, "preview", flags=TemplateFlags)
def preview(
    client: Client,
    flags: TemplateFlags,
    ident: Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(help="The kind of channel to show it for.")] = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Show how a template, kept (ID) or new (--text), tells a sample alert."""
    if (ident is None) == (flags.text is None):
        raise CommandError("give the ID of a kept template, or a new one by --text (@FILE reads it)")
    body = _kept(client, ident, flags) if ident is not None else _body(flags, scope)
    shown = client.post("/templates/preview", body | ({"kind": kind} if kind else {}))
    if as_json:
        print_json(shown)
        return
    for line in (shown["title"], "", *shown["text"].splitlines()):
        say(line)
    if shown["error"]:
        note(f"the built-in words are shown, because the template failed: {shown['error']}")


def _kept(client: Client, ident: str, flags: TemplateFlags) -> dict[str, Any]:
    document = client.get(f"/templates/{segment(ident)}")
    names = ("scope", "channel", "item", "language", "title", "text")
    changed = {"item": flags.item, "language": flags.language, "channel": flags.channel}
    kept = {name: document[name] for name in names if document[name] is not None}
    return kept | {name: value for name, value in changed.items() if value is not None}


def _body(flags: TemplateFlags, scope: str | None) -> dict[str, Any]:
    if flags.text is None:
        raise CommandError("--text: the template is missing: give it, or its file as @FILE")
    body = {
        "scope": scope, "channel": flags.channel, "item": flags.item, "language": flags.language,
        "text": inline_or_file("--text", flags.text),
        "title": inline_or_file("--title", flags.title) if flags.title is not None else None,
    }  # fmt: skip
    return {name: value for name, value in body.items() if value is not None}
