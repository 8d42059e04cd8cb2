"""The parts of the system as commands: `demo`, `up`, `server`, `worker`, `agent`, `migrate`, `backup`,
`standin`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from master.cli.errors import REFUSED, CommandError
from master.cli.output import note, say

if TYPE_CHECKING:
    from notifier.settings import Settings


def _no_blank(value: str | None) -> str | None:
    if value is not None and not value.strip():  # as from a script's variable that is not set
        raise CommandError("--data-dir: is empty; name a folder, or leave it out")
    return value


DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        callback=_no_blank,
        help="Where everything is kept [env: FAULTCAST_DATA_DIR].",
    ),
]
Bind = Annotated[
    str | None,
    typer.Option("--bind", metavar="HOST:PORT", help="Address [env: FAULTCAST_BIND]."),
]
Parent = Annotated[int | None, typer.Option(hidden=True)]  # whose death is ours (`up`)
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def register(app: typer.Typer) -> None:
    """Adds the commands, in the order in which a newcomer meets them."""
    app.command("demo")(demo)
    app.command("up")(up)
    app.command("server")(server)
    app.command("worker")(worker)
    app.command("agent")(agent)
    app.command("migrate")(migrate)
    app.command("backup")(backup)
    app.command("standin", context_settings=_PASS_ON)(standin)


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave server and data running, say where.")] = False,
    seed: Annotated[int | None, typer.Option(help="Fixes order and moments of the faults.")] = None,
) -> None:
    """Break a real PyTorch job here and watch it recover."""
    from master.demo import run_demo  # noqa: PLC0415  each command imports its own part, so that help is quick

    raise typer.Exit(run_demo(keep=keep, seed=seed))


def up(
    data_dir: DataDir = None,
    bind: Bind = None,
    workers: Annotated[
        int | None, typer.Option(help="Sending processes [env: FAULTCAST_WORKERS; default: 2].")
    ] = None,
) -> None:
    """Run everything: API, console, master, workers."""
    given = settings(data_dir=data_dir, bind=bind, workers=workers)  # first: what is wrong is said at once
    from master.up import run_up  # noqa: PLC0415

    raise typer.Exit(run_up(given))


def server(
    data_dir: DataDir = None,
    bind: Bind = None,
    listen_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    parent: Parent = None,
) -> None:
    """Run API, console and master; workers run apart."""
    from master.processes import die_with  # noqa: PLC0415
    from master.server import Endpoint, run_server  # noqa: PLC0415

    die_with(parent)
    endpoint = Endpoint(listen_fd=listen_fd, ready_fd=ready_fd)
    raise typer.Exit(run_server(settings(data_dir=data_dir, bind=bind), endpoint))


def worker(
    concurrency: Annotated[int, typer.Option(min=1, max=1024, help="Sends on their way at once.")] = 512,
    data_dir: DataDir = None,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Show this process's figures to Prometheus here."),
    ] = None,
    parent: Parent = None,
) -> None:
    """Send what is due; as many of these as you like."""
    from master.processes import die_with  # noqa: PLC0415
    from master.worker import run  # noqa: PLC0415

    die_with(parent)
    raise typer.Exit(run(settings(data_dir=data_dir), concurrency, metrics))


def agent(
    node: Annotated[bool, typer.Option("--node", help="The node's own agent, not a pod's.")] = False,
) -> None:
    """Watch a pod as its sidecar, or with --node a node."""
    arguments = ["-m", "agent", *(["--node"] if node else [])]
    os.execv(sys.executable, [sys.executable, "-P", *arguments])  # noqa: S606  no shell is wanted


def migrate(data_dir: DataDir = None) -> None:
    """Bring the database to this version's tables."""
    from master import datadir  # noqa: PLC0415
    from master.database import migrate_database  # noqa: PLC0415

    given = settings(data_dir=data_dir)
    if warning := datadir.ready(given.data_dir):
        note(f"warning: {warning}")
    say(migrate_database(given))


def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for it.")],
    data_dir: DataDir = None,
) -> None:
    """Copy database, key and admin token as of now, while everything goes on."""
    from master.backup import backup  # noqa: PLC0415
    from notifier.secretbox import KEY_FILE  # noqa: PLC0415

    given = settings(data_dir=data_dir)
    names = backup(given, folder)
    say(f"{folder}: {', '.join(names)}")
    if KEY_FILE not in names:
        note("keep FAULTCAST_SECRET_KEY too: without it the channels' secrets in the backup cannot be read")


def standin(context: typer.Context) -> None:
    """Play the providers, for trying things out."""
    from channels.standin import main  # noqa: PLC0415

    raise typer.Exit(main(context.args))


def settings(**given: object) -> "Settings":
    """The settings with a command's own flags on top; what is wrong ends the command with exit code 2."""
    from notifier.settings import SettingsError, load_settings  # noqa: PLC0415

    try:
        return load_settings(**given)
    except SettingsError as error:
        raise CommandError(str(error), REFUSED) from None
