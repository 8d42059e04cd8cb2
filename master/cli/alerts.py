"""`faultcast alerts …` (a job's or a pool's rules) and `faultcast alert …` (alerts themselves)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, client_command, group
from master.cli.errors import CommandError
from master.cli.jobspec import alert_config
from master.cli.output import count, field, print_facts, print_items, print_json, say, time_of
from master.cli.output import moment as shown
from master.cli.values import pairs, read_document

rules_app = group("A job's alert rules: who is told of what.")
alert_app = group("Alerts: publish, list, show, acknowledge.")

COLUMNS = {
    "ID": field("id"),
    "CREATED": time_of("created_at"),
    "ITEM": field("item"),
    "SEVERITY": field("severity"),
    "STATUS": field("status"),
    "JOB": field("job_name"),
    "TITLE": field("title"),
    "ACKED": time_of("acked_at"),
    "BY": field("acked_by"),
}

PREVIEW = {
    "CHANNEL": field("channel"),
    "WHEN": field("when"),
    "STATE": field("state"),
    "FALLBACK": field("fallback"),
    "WHY": field("why"),
}

Owner = Annotated[str, typer.Argument(metavar="JOB", show_default=False, help="The job's id, or pool:POOL.")]
Id = Annotated[str, typer.Argument(metavar="ID", show_default=False)]
_Text = str | None
_Texts = list[str] | None


def _option(name: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(name, help=text, metavar=metavar, show_default=False)


@dataclass(frozen=True, kw_only=True)
class AlertFlags:
    """What was given of an alert; None means not given."""

    title: Annotated[_Text, _option("--title", "One line that says what happened.")] = None
    text: Annotated[_Text, _option("--text", "More words.")] = None
    severity: Annotated[_Text, _option("--severity", "info, warning, error (default) or critical.")] = None
    item: Annotated[_Text, _option("--item", "The alert's kind [default: custom].")] = None
    source: Annotated[_Text, _option("--source", "Who says so [default: cli].")] = None
    channel: Annotated[_Texts, _option("--channel", "Who is told; repeatable.")] = None
    fallback: Annotated[_Texts, _option("--fallback", "Who is told instead; repeatable.")] = None
    job: Annotated[_Text, _option("--job", "Use this job's rules.", "ID")] = None
    label: Annotated[_Texts, _option("--label", "A label; repeatable.", "K=V")] = None
    dedup_key: Annotated[_Text, _option("--dedup-key", "Repeats of an open alert are told once.")] = None
    resolved: Annotated[bool | None, _option("--resolved", "It is over (with --dedup-key).")] = None


@client_command(rules_app, "get")
def get(client: Client, owner: Owner, as_json: Json = False) -> None:
    """Show the rules of a job (or of a pool: pool:NAME)."""
    document = client.get(f"{_path(owner)}/alerts")
    print_json(document) if as_json else print_facts(document)


@client_command(rules_app, "set")
def set_(
    client: Client,
    owner: Owner,
    file: Annotated[
        _Text, typer.Option("--file", "-f", help="alertConfig, JSON or YAML; - reads stdin.")
    ] = None,
    alert: Annotated[
        _Texts, typer.Option("--alert", help="A rule; repeatable.", metavar="CHANNEL[:item,item…]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replace the rules of a job (or of a pool: pool:NAME)."""
    if (file is None) == (not alert):
        raise CommandError("--file: give the rules by --file or by --alert, one of them")
    config = read_document("--file", file) if file else alert_config(alert or [])
    document = client.call("PUT", f"{_path(owner)}/alerts", body=config)
    print_json(document) if as_json else say(f"rules of {owner} set")


@client_command(rules_app, "preview")
def preview(
    client: Client,
    owner: Owner,
    item: Annotated[str, typer.Argument(metavar="ITEM", show_default=False, help="jobFT, jobFailed …")],
    label: Annotated[_Texts, _option("--label", "A label that it would have; repeatable.", "K=V")] = None,
    severity: Annotated[_Text, _option("--severity", "Another than the item's own.")] = None,
    as_json: Json = False,
) -> None:
    """Show who would be told of an item, who later, and who not, and why."""
    labels = [f"{name}={value}" for name, value in pairs("--label", label or ()).items()]
    asked = {"item": item, "severity": severity, "label": labels}
    document = client.get(f"{_path(owner)}/alerts/preview", asked)
    if as_json:
        print_json(document)
        return
    print_items(_preview_lines(document), PREVIEW, as_json=False, empty="nobody would be told")
    if document["why"]:
        say(document["why"])


@client_command(alert_app, "publish", flags=AlertFlags)
def publish(client: Client, flags: AlertFlags, as_json: Json = False) -> None:
    """Publish an alert."""
    if flags.title is None:
        raise CommandError("--title: one line that says what happened is missing")
    body: dict[str, Any] = {
        "source": flags.source or "cli",
        "item": flags.item,
        "severity": flags.severity,
        "title": flags.title,
        "text": flags.text,
        "labels": pairs("--label", flags.label or ()),
        "status": "resolved" if flags.resolved else None,
        "channels": flags.channel,
        "fallback": flags.fallback,
        "job": flags.job,
        "dedup_key": flags.dedup_key,
    }
    document = client.post("/alerts", {key: value for key, value in body.items() if value is not None})
    told = count(len(document["deliveries"]), "delivery", "deliveries")
    why = document.get("why")
    print_json(document) if as_json else say(f"{document['id']}: {told}{f' ({why})' if why else ''}")


@client_command(alert_app, "list")
def list_alerts(client: Client, limit: Count = 50, as_json: Json = False) -> None:
    """List alerts, newest first."""
    print_items(client.pages("/alerts", {}, limit), COLUMNS, as_json=as_json, empty="no alerts")


@client_command(alert_app, "get")
def get_alert(client: Client, alert: Id, as_json: Json = False) -> None:
    """Show an alert: who has taken it on and what they say, and its deliveries."""
    document = client.get(f"/alerts/{segment(alert)}")
    print_json(document) if as_json else print_facts(document)


@client_command(alert_app, "ack")
def ack(
    client: Client,
    alert: Id,
    comment: Annotated[_Text, _option("--comment", "What there is to say about it.")] = None,
    as_json: Json = False,
) -> None:
    """Acknowledge an alert: escalation and reminders stop."""
    document = client.post(f"/alerts/{segment(alert)}/ack", None if comment is None else {"comment": comment})
    who = f"{document.get('acked_by')}, {document.get('acked_at')}"  # the first one stays
    print_json(document) if as_json else say(f"{alert} acknowledged ({who})")


def _preview_lines(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = [
        {**one, "when": shown(one["not_before"]) if one["not_before"] else "now"} for one in document["told"]
    ]
    later = [
        {
            **one,
            "channel": one["channels"],
            "when": f"{'every' if one['kind'] == 'remind' else 'after'} {one['after_s']:g} s",
            "state": one["kind"],
        }
        for one in document["later"]
    ]
    return [*told, *later, *({**one, "when": "-", "state": "not told"} for one in document["not_told"])]


def _path(owner: str) -> str:
    pool = owner.removeprefix("pool:")
    return f"/pools/{segment(pool)}" if pool != owner else f"/jobs/{segment(owner)}"
