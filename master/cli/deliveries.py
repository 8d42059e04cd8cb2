"""`faultcast delivery …`: the delivery log."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, client_command, group
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
_LAST = ("message", "attempts")  # shown apart, after the rest
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
    q: Annotated[_Text, _filter("--q", "Words of title, text or the provider's answer.", "WORDS")] = None


@client_command(app, "list", flags=Filters)
def list_deliveries(client: Client, filters: Filters, limit: Count = 50, as_json: Json = False) -> None:
    """List deliveries, newest first."""
    bounds = {"since": moment_of("--since", filters.since), "until": moment_of("--until", filters.until)}
    found = client.pages("/deliveries", {**asdict(filters), **bounds}, limit)
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
    message = document.get("message")
    if message:
        say("message")
        print_text(f"{message['title']}\n{message['text']}")
    attempts = document.get("attempts") or []
    if attempts:
        head = ("N", "PART", "STARTED", "OUTCOME", "HTTP", "CODE", "TOOK", "PROVIDER SAID")
        print_table(head, [_attempt(attempt) for attempt in attempts])


@client_command(app, "resend")
def resend(
    client: Client,
    delivery: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    as_json: Json = False,
) -> None:
    """Tell it again: by a new delivery with an id of its own if this one has ended, else at once."""
    document = client.post(f"/deliveries/{segment(delivery)}/resend")
    print_json(document) if as_json else say(f"{document['id']} {document['state']}")


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
