"""`faultcast delivery …`: the delivery log."""

import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, client_command, group
from master.cli.errors import REFUSED, CommandError
from master.cli.output import (
    field,
    moment,
    print_facts,
    print_items,
    print_json,
    print_table,
    print_text,
    say,
    seconds,
    time_of,
)
from master.cli.values import moment as moment_of

app = group("The delivery log: what was sent, and why not.")

COLUMNS = {
    "ID": field("id"),
    "CREATED": time_of("created_at"),
    "ITEM": field("item"),
    "JOB": field("job_name"),
    "TITLE": field("title"),
    "CHANNEL": field("channel"),
    "STATE": field("state"),
    "TRIES": field("attempt_count"),
    "TOOK": lambda delivery: seconds(delivery.get("latency_s")),
    "WHY": lambda delivery: (delivery.get("error") or {}).get("message") or delivery.get("why"),
}
_COUNTS = ("matched", "would_send", "over", "sent")
_LAST = ("message", "attempts", "steps")  # shown apart, after the rest
_Text = str | None


def _filter(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, show_default=False)


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What narrows the list; the names are the API's."""

    job: Annotated[_Text, _filter("--job", "Of this job.", "ID")] = None
    event: Annotated[_Text, _filter("--event", "Of this fault event.", "ID")] = None
    alert: Annotated[_Text, _filter("--alert", "Of this alert.", "ID")] = None
    channel: Annotated[_Text, _filter("--channel", "Through this channel.", "NAME")] = None
    kind: Annotated[_Text, _filter("--kind", "dingtalk, wecom …")] = None
    item: Annotated[_Text, _filter("--item", "jobFT, jobFailed …")] = None
    state: Annotated[_Text, _filter("--state", "pending, delivered, failed …")] = None
    since: Annotated[_Text, _filter("--since", "Created at or after.", "TIME")] = None
    until: Annotated[_Text, _filter("--until", "Created before.", "TIME")] = None
    q: Annotated[_Text, _filter("--q", "Words of title, text, job, error, answers; or an id.", "WORDS")] = (
        None
    )


@client_command(app, "list", flags=Filters)
def list_deliveries(client: Client, filters: Filters, limit: Count = 50, as_json: Json = False) -> None:
    """List deliveries, newest first."""
    found = client.pages("/deliveries", _chosen(filters), limit)
    print_items(found, COLUMNS, as_json=as_json, empty="no deliveries")


@client_command(app, "get")
def get(
    client: Client,
    delivery: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show one delivery with its message and every attempt."""
    document = client.get(f"/deliveries/{segment(delivery)}")
    if as_json:
        print_json(document)
        return
    print_facts(document, [name for name in document if name not in _LAST])
    _print_steps(document)
    message = document.get("message")
    if message:
        say("message")
        print_text(f"{message['title']}\n{message['text']}")
    attempts = document.get("attempts") or []
    if attempts:
        head = ("N", "PART", "STARTED", "OUTCOME", "HTTP", "CODE", "TOOK", "PROVIDER SAID")
        print_table(head, [_attempt(attempt) for attempt in attempts])


@client_command(app, "resend", flags=Filters)
def resend(
    client: Client,
    filters: Filters,
    delivery: Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be sent.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Without any filter: all that failed.")] = False,
    as_json: Json = False,
) -> None:
    """Tell it again: by a new delivery with an id of its own if this one has ended, else at once.

    With filters instead of an ID: all that match and were not delivered since, the newest first.
    """
    chosen = _chosen(filters)
    if delivery is None:
        if not chosen and not every:
            raise CommandError(
                "ID: name a delivery, or filters such as --state failed; --all: all that failed"
            )
        _resend_all(client, {"filter": chosen, "dry_run": dry_run, "all": every}, as_json=as_json)
        return
    if chosen or dry_run or every:
        raise CommandError("ID: name one delivery, or filters, not both", REFUSED)
    document = client.post(f"/deliveries/{segment(delivery)}/resend")
    print_json(document) if as_json else say(f"{document['id']} {document['state']}")


@client_command(app, "export", flags=Filters)
def export(
    client: Client,
    filters: Filters,
    how: Annotated[str, typer.Option("--format", help="ndjson or csv.")] = "ndjson",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file [default: standard output].", show_default=False),
    ] = None,
) -> None:
    """Write all that match into a file, newest first: a JSON document a line, or a table."""
    query = {**_chosen(filters), "format": how}
    if output is None:
        for piece in client.stream("/deliveries/export", query):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    draft = output.with_name(f"{output.name}.part")
    try:
        with draft.open("wb") as file:
            file.writelines(client.stream("/deliveries/export", query))
        draft.replace(output)
    except OSError as error:
        raise CommandError(f"--output: {output}: {error.strerror}; name a file that can be written") from None
    finally:
        draft.unlink(missing_ok=True)


@client_command(app, "expunge")
def expunge(
    client: Client,
    delivery: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    as_json: Json = False,
) -> None:
    """Remove what it said and what was answered; when, to whom, state and codes stay."""
    document = client.delete(f"/deliveries/{segment(delivery)}/content")
    print_json(document) if as_json else say(f"{document['id']} {document['why']}")


def _chosen(filters: Filters) -> dict[str, Any]:
    bounds = {"since": moment_of("--since", filters.since), "until": moment_of("--until", filters.until)}
    chosen = {name: value for name, value in {**asdict(filters), **bounds}.items() if value is not None}
    for name, value in chosen.items():
        if not value.strip():
            raise CommandError(f"--{name}: is empty; give a value, or leave it out", REFUSED)
    return chosen


def _resend_all(client: Client, body: dict[str, Any], *, as_json: bool) -> None:
    """Call after call; what is counted is added up."""
    total: dict[str, Any] = dict.fromkeys(_COUNTS, 0) | {"skipped": Counter(), "deliveries": []}
    while True:
        found = client.post("/deliveries/resend", body)
        for name in (*_COUNTS, "deliveries"):
            total[name] += found[name]
        total["skipped"].update(found["skipped"])
        body["cursor"] = found["next_cursor"]
        if body["cursor"] is None:
            break
    if as_json:
        print_json({**total, "skipped": dict(total["skipped"])})
        return
    left_out = ", ".join(f"{many} {why}" for why, many in sorted(total["skipped"].items()))
    verb = f"would send {total['would_send']}" if body["dry_run"] else f"sent {total['sent']}"
    over = f"; {total['over']} of an alert that is over: told as resolved" if total["over"] else ""
    say(f"{verb} of {total['matched']} that match{over}" + (f"; left out: {left_out}" if left_out else ""))


def _print_steps(document: dict[str, Any]) -> None:
    """accepted 03:12:41 → claimed +0.8 s → sent +0.0 s → answered +0.2 s."""
    steps = document.get("steps") or {}
    parts = [f"accepted {moment(steps.get('accepted_at'))}"]
    for name, took in (("claimed", "waited_s"), ("sent", "rendered_s"), ("answered", "provider_s")):
        if steps.get(f"{name}_at"):
            parts.append(f"{name} +{seconds(steps.get(took) or 0.0)}")
    say("steps  " + " → ".join(parts))


def _attempt(attempt: dict[str, Any]) -> list[Any]:
    return [
        attempt.get("n"),
        attempt.get("part"),
        moment(attempt.get("started_at")),
        attempt.get("outcome"),
        attempt.get("http_status"),
        attempt.get("provider_code"),
        seconds(attempt.get("latency_s")),
        attempt.get("provider_message"),
    ]
