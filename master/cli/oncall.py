"""`faultcast oncall …`: lists of people who take turns."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, Scope, client_command, group, scoped
from master.cli.errors import CommandError
from master.cli.output import field, print_facts, print_items, print_json, say
from master.cli.output import moment as shown
from master.cli.values import moment, read_document
from notifier.clock import utcnow

app = group("On-call lists: people who take turns; a list's name stands wherever a channel's may.")

COLUMNS = {
    "NAME": field("name"),
    "SCOPE": field("scope"),
    "TURN": field("turn"),
    "NOW": lambda item: (item["now"] or {}).get("person"),
    "CHANNELS": lambda item: (item["now"] or {}).get("channels"),
    "MISSING": field("missing"),
    "UNTIL": lambda item: shown((item["now"] or {}).get("until")),
}
Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_Text = str | None


@dataclass(frozen=True)
class ListFlags:
    """What was given of a list; None means not given."""

    person: Annotated[
        list[str] | None,
        typer.Option(
            "--person",
            help="Who takes turns, in order; repeatable. CHANNEL, or the person and the channels.",
            metavar="CHANNEL|PERSON=CHANNEL,CHANNEL…",
        ),
    ]
    turn: Annotated[_Text, typer.Option("--turn", help="weekly or daily.")]
    handover: Annotated[_Text, typer.Option("--handover", help="When it changes [default: 09:00].")]
    weekday: Annotated[_Text, typer.Option("--weekday", help="mon … sun, of weekly turns [default: mon].")]
    timezone: Annotated[
        _Text, typer.Option("--timezone", help="Such as Asia/Shanghai [default: the server's].")
    ]
    start: Annotated[_Text, typer.Option("--start", help="The day of the first turn.", metavar="YYYY-MM-DD")]
    file: Annotated[_Text, typer.Option("--file", "-f", help="The list, JSON or YAML; - reads stdin.")]


@client_command(app, "create", flags=ListFlags)
def create(client: Client, flags: ListFlags, name: Name, scope: Scope = None, as_json: Json = False) -> None:
    """Make an on-call list."""
    body = read_document("--file", flags.file) if flags.file else {}
    given = {
        "name": name, "scope": scope, "turn": flags.turn, "handover": flags.handover,
        "weekday": flags.weekday, "timezone": flags.timezone, "start": flags.start,
        "people": [_person(text) for text in flags.person] if flags.person else None,
    }  # fmt: skip
    body |= {key: value for key, value in given.items() if value is not None}
    for key, flag in (("people", "--person"), ("turn", "--turn"), ("start", "--start")):
        if key not in body:
            raise CommandError(f"{flag}: is missing; give it, or the whole list by --file")
    document = client.post("/oncall", body)
    print_json(document) if as_json else say(f"on-call list {name} created; now: {document['now']['person']}")


@client_command(app, "list")
def list_lists(client: Client, limit: Count = 50, as_json: Json = False) -> None:
    """List on-call lists, and who has the turn now."""
    print_items(client.pages("/oncall", {}, limit), COLUMNS, as_json=as_json, empty="no on-call lists")


@client_command(app, "get")
def get(
    client: Client,
    name: Name,
    at: Annotated[_Text, typer.Option("--at", help="Who has the turn then.", metavar="TIME")] = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Show a list, and who has the turn."""
    document = client.get(f"/oncall/{segment(name)}", {**scoped(scope), "at": moment("--at", at)})
    print_json(document) if as_json else print_facts(document)


@client_command(app, "override")
def override(
    client: Client,
    name: Name,
    who: Annotated[
        str,
        typer.Option(
            "--person",
            help="Somebody of the list, or whoever else and the channels.",
            metavar="PERSON|PERSON=CHANNEL,CHANNEL…",
            show_default=False,
        ),
    ],
    until: Annotated[str, typer.Option("--until", metavar="TIME", show_default=False)],
    since: Annotated[_Text, typer.Option("--from", help="[default: now]", metavar="TIME")] = None,
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Somebody else has the turn for a time."""
    given = _person(who)
    by_name = {"person": given} if isinstance(given, str) else {"person": given["name"]}
    channels = {} if isinstance(given, str) else {"channels": given["channels"]}
    span = {"from": moment("--from", since) or utcnow().isoformat(), "until": moment("--until", until)}
    body = {**span, **by_name, **channels}
    document = client.post(f"/oncall/{segment(name)}/overrides", body, scoped(scope))
    print_json(document) if as_json else say(f"on-call list {name}: {by_name['person']} until {until}")


@client_command(app, "delete")
def delete(client: Client, name: Name, scope: Scope = None, as_json: Json = False) -> None:
    """Delete a list; rules that name it tell their fallback from now on."""
    client.delete(f"/oncall/{segment(name)}", scoped(scope))
    print_json({"name": name, "deleted": True}) if as_json else say(f"on-call list {name} deleted")


def _person(text: str) -> Any:
    name, equals, channels = text.partition("=")
    if not equals:
        return text.strip()
    return {"name": name.strip(), "channels": [one.strip() for one in channels.split(",") if one.strip()]}
