"""`faultcast job logs`: a pod's log from its beginning, followed on demand through restarts."""

import sys
import time
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import client_command
from master.cli.errors import CommandError
from master.cli.jobs import FINAL, Id

LOOK_EVERY_S = 0.5
CHUNK = 1 << 20
BEFORE_PODS = frozenset({"Created", "Starting", "Restarting"})
_KEPT = frozenset("\n\t\r")


def register(app: typer.Typer) -> None:
    """Adds `logs` to the commands about jobs."""
    client_command(app, "logs")(logs)


def logs(
    client: Client,
    job: Id,
    pod: Annotated[str | None, typer.Option(help="Which pod [default: the first].")] = None,
    run: Annotated[int | None, typer.Option(min=0, help="Which run [default: the newest].")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
) -> None:
    """Print a pod's log."""
    where: dict[str, Any] = {"pod": pod, "run": run, "offset": 0, "limit": CHUNK}
    if follow:
        _await_pod(client, job, where)
    while True:
        piece = _piece(client, job, where)
        _print(piece["text"])
        has_more = piece["next_offset"] > piece["offset"]
        where |= {"run": piece["run"], "offset": piece["next_offset"]}
        if has_more:
            continue
        if not follow:
            return
        if piece["ended"] and not _next_run(client, job, where, is_fixed=run is not None):
            return
        time.sleep(LOOK_EVERY_S)


def _piece(client: Client, job: str, where: dict[str, Any]) -> dict[str, Any]:
    piece: dict[str, Any] = client.get(f"/jobs/{segment(job)}/logs", where)
    return piece


def _await_pod(client: Client, job: str, where: dict[str, Any]) -> None:
    """Until the job has a pod whose log can be read."""
    while True:
        status = client.get(f"/jobs/{segment(job)}")["status"]  # first: it may get its pod meanwhile
        try:
            _piece(client, job, where | {"limit": 1})
        except CommandError:
            if status not in BEFORE_PODS:
                raise
            time.sleep(LOOK_EVERY_S)
        else:
            return


def _next_run(client: Client, job: str, where: dict[str, Any], *, is_fixed: bool) -> bool:
    """Whether more may come: of the next run, if the job was restarted."""
    document = client.get(f"/jobs/{segment(job)}")
    if is_fixed or (document["status"] in FINAL and document["run"] == where["run"]):
        return False
    if document["run"] > where["run"]:
        where |= {"run": document["run"], "offset": 0}
    return True


def _print(text: str) -> None:
    """To a terminal without escape sequences: what a job prints is not ours to execute."""
    if sys.stdout.isatty():
        text = "".join(c if c.isprintable() or c in _KEPT else f"\\x{ord(c):02x}" for c in text)
    sys.stdout.write(text)
    sys.stdout.flush()
