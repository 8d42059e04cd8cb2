"""`faultcast job …`: submit jobs and read what became of them."""

import time
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, client_command, group
from master.cli.errors import FAILED, CommandError, one_line
from master.cli.jobflags import JobFlags
from master.cli.jobspec import job_body
from master.cli.output import count, field, moment, note, print_facts, print_items, print_json, say, time_of
from master.cli.timeline import action_of, print_timeline

app = group("Jobs: submit, watch, stop.")

FINAL = frozenset({"Succeeded", "Failed", "Stopped"})
POLL_S = 1.0

Id = Annotated[str, typer.Argument(metavar="ID", show_default=False)]

JOB_COLUMNS = {
    "ID": field("id"),
    "NAME": field("name"),
    "STATUS": field("status"),
    "QUEUE": field("queue"),
    "RUN": field("run"),
    "CREATED": time_of("created_at"),
}
EVENT_COLUMNS = {
    "TIME": time_of("time"),
    "RUN": field("run"),
    "CLASS": field("fault_class"),
    "CAUSE": field("cause"),
    "RANK": lambda event: (event.get("culprit") or {}).get("rank"),
    "NODE": lambda event: (event.get("culprit") or {}).get("node"),
    "ACTION": action_of,
    "REASON": field("reason"),
}


@client_command(app, "create", flags=JobFlags)
def create(
    client: Client,
    flags: JobFlags,
    wait: Annotated[bool, typer.Option("--wait", help="Until it ends; 0 only if it succeeded.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a job."""
    job = client.post("/jobs", job_body(flags))
    for warning in job.get("warnings") or ():
        note(f"warning: {warning}")
    if not wait:
        print_json(job) if as_json else say(f"{job['id']} {job['name']} {job['status']}")
        return
    job = _wait(client, job)
    print_json(job) if as_json else say(f"{job['id']} {job['name']} {job['status']}")
    if job["status"] != "Succeeded":
        raise CommandError(f"{job['name']} ended as {job['status']}: {_why(client, job)}", FAILED)


@client_command(app, "check", flags=JobFlags)
def check(client: Client, flags: JobFlags, as_json: Json = False) -> None:
    """Say what `create` would refuse or warn of; nothing is created."""
    job = client.post("/jobs", job_body(flags), {"dry_run": "true"})
    if as_json:
        print_json(job)
        return
    for warning in job.get("warnings") or ():
        say(f"warning: {warning}")
    say("ok: this job would be accepted")


@client_command(app, "list")
def list_jobs(
    client: Client,
    status: Annotated[str | None, typer.Option(help="Only jobs of this status.")] = None,
    limit: Count = 50,
    as_json: Json = False,
) -> None:
    """List jobs, newest first."""
    jobs = client.pages("/jobs", {"status": status}, limit)
    print_items(jobs, JOB_COLUMNS, as_json=as_json, empty="no jobs")


@client_command(app, "get")
def get(client: Client, job: Id, as_json: Json = False) -> None:
    """Show one job with its effective fault-tolerance settings."""
    document = client.get(f"/jobs/{segment(job)}")
    print_json(document) if as_json else print_facts(document)


@client_command(app, "events")
def events(client: Client, job: Id, limit: Count = 50, as_json: Json = False) -> None:
    """List a job's fault events, newest first."""
    found = client.pages(f"/jobs/{segment(job)}/events", {}, limit)
    print_items(found, EVENT_COLUMNS, as_json=as_json, empty="no fault events")


@client_command(app, "timeline")
def timeline(client: Client, job: Id, as_json: Json = False) -> None:
    """Show a job's runs, faults, recoveries and effective training time ratio."""
    document = client.get(f"/jobs/{segment(job)}/timeline")
    print_json(document) if as_json else print_timeline(document)


@client_command(app, "stacks")
def stacks(client: Client, job: Id, as_json: Json = False) -> None:
    """Collect every rank's stack now, merged."""
    document = client.post(f"/jobs/{segment(job)}/stacks")
    if as_json:
        print_json(document)
        return
    errors = document.get("errors") or {}
    read = [rank for rank in document["ranks"] if str(rank) not in errors]
    say(f"collected {moment(document['collected_at'])} from {count(len(read), 'rank')}")
    for frame in document["frames"]:
        _print_frame(frame, 0)
    for rank, error in errors.items():
        note(f"rank {rank}: {error}")
    if errors or not read:
        silent = "no rank answered within 15 s; does training run, and its agent (faultcast job get)?"
        raise CommandError(f"{count(len(errors), 'rank')} could not be read" if errors else silent, FAILED)


@client_command(app, "stop")
def stop(client: Client, job: Id, as_json: Json = False) -> None:
    """Stop a job."""
    document = client.post(f"/jobs/{segment(job)}/stop")
    print_json(document) if as_json else say(f"{job} is being stopped")


@client_command(app, "delete")
def delete(client: Client, job: Id) -> None:
    """Delete a job and what is kept of it."""
    client.delete(f"/jobs/{segment(job)}")
    say(f"{job} deleted")


def _wait(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    status = ""
    while True:
        if job["status"] != status:
            status = job["status"]
            note(f"{job['name']}: {status}")
        if status in FINAL:
            return job
        time.sleep(POLL_S)
        job = client.get(f"/jobs/{segment(job['id'])}")


def _why(client: Client, job: dict[str, Any]) -> str:
    """The last fault, with the words of the error, and what was decided on it."""
    events = client.get(f"/jobs/{segment(job['id'])}/events", {"limit": 1}).get("items") or []
    said = [event.get("reason") for event in events] + [job.get("reason")]
    return " ".join(one for one in said if one) or "see faultcast job logs"


def _print_frame(frame: dict[str, Any], depth: int) -> None:
    where = f"  [{frame['ranks_in']}]" if not frame.get("children") or depth == 0 else ""
    typer.echo("  " * depth + one_line(frame["name"] + where))
    for child in frame.get("children") or ():
        _print_frame(child, depth + 1)
