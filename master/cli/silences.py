"""`faultcast silence …`: alerts that are told to nobody for a time."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, Scope, client_command, group
from master.cli.errors import CommandError
from master.cli.output import field, print_items, print_json, say, time_of
from master.cli.values import moment, span_s

app = group("Silences: alerts told to nobody for a time, and logged all the same.")

_MATCHER = re.compile(r"([^=!~]+)(=~|!~|!=|=)(.*)", re.DOTALL)
COLUMNS = {
    "ID": field("id"),
    "STATUS": field("status"),
    "SCOPE": field("scope"),
    "MATCHERS": lambda item: ", ".join(f"{one['name']}{one['op']}{one['value']}" for one in item["matchers"]),
    "STARTS": time_of("starts_at"),
    "ENDS": time_of("ends_at"),
    "BY": field("created_by"),
    "COMMENT": field("comment"),
}


@dataclass(frozen=True)
class SpanFlags:
    """From when to when, and why."""

    for_: Annotated[str | None, typer.Option("--for", help="How long: 90s, 30m, 2h, 7d.", metavar="SPAN")]
    until: Annotated[str | None, typer.Option("--until", help="When it ends.", metavar="TIME")]
    starts: Annotated[
        str | None, typer.Option("--from", help="When it begins [default: now].", metavar="TIME")
    ]
    comment: Annotated[str | None, typer.Option("--comment", help="Why; it stands in the log.")]


@client_command(app, "create", flags=SpanFlags)
def create(
    client: Client,
    flags: SpanFlags,
    matchers: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE…",
            show_default=False,
            help="All must hold; also NAME!=VALUE, NAME=~PATTERN, NAME!~PATTERN (RE2, the whole value)."
            " A label, or item, severity, job, job_name, pool, queue, source, title, event.",
        ),
    ],
    scope: Scope = None,
    as_json: Json = False,
) -> None:
    """Silence what all matchers match; deliveries on their way already are not touched."""
    if (flags.for_ is None) == (flags.until is None):
        raise CommandError("--for: give --for or --until, one of them: a silence has an end")
    body = {
        "scope": scope,
        "matchers": [_matcher(text) for text in matchers],
        "starts_at": moment("--from", flags.starts),
        "ends_at": moment("--until", flags.until),
        "duration_s": span_s("--for", flags.for_) if flags.for_ else None,
        "comment": flags.comment,
    }
    document = client.post("/silences", {name: value for name, value in body.items() if value is not None})
    print_json(document) if as_json else say(f"silence {document['id']} until {time_of('ends_at')(document)}")


@client_command(app, "list")
def list_silences(client: Client, limit: Count = 50, as_json: Json = False) -> None:
    """List silences, those that are over too."""
    print_items(client.pages("/silences", {}, limit), COLUMNS, as_json=as_json, empty="no silences")


@client_command(app, "delete")
def delete(
    client: Client,
    ident: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    as_json: Json = False,
) -> None:
    """End a silence now: what it kept back and is still open is told."""
    client.delete(f"/silences/{segment(ident)}")
    print_json({"id": ident, "ended": True}) if as_json else say(f"silence {ident} ended")


def _matcher(text: str) -> dict[str, Any]:
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise CommandError(
            f"{text}: is no matcher; write NAME=VALUE, NAME!=VALUE, NAME=~PATTERN or NAME!~PATTERN"
        )
    return {"name": found[1].strip(), "op": found[2], "value": found[3]}
