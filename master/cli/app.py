"""The tree of commands."""

from typing import Annotated

import typer

from master.cli import (
    alerts,
    apply,
    channels,
    deliveries,
    diagnose,
    doctor,
    inject,
    joblogs,
    jobs,
    oncall,
    parts,
    pools,
    silences,
    templates,
    tokens,
)
from master.cli.command import SERVER, TOKEN

app = typer.Typer(
    name="faultcast",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: whole flag names at any width, and half the start-up time
)


def _say_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415  slow, and seldom wanted

        typer.echo(f"faultcast {version('faultcast')}")
        raise typer.Exit


@app.callback()
def root(
    server: SERVER = None,
    token: TOKEN = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Say which this is.")
    ] = False,
) -> None:
    """Keeps PyTorch training jobs alive and tells people what happened, on every channel they use."""


parts.register(app)
doctor.register(app)
diagnose.register(app)
joblogs.register(jobs.app)
apply.register(app)
inject.register(app)
app.add_typer(jobs.app, name="job")
app.add_typer(channels.app, name="channel")
app.add_typer(alerts.rules_app, name="alerts")
app.add_typer(alerts.alert_app, name="alert")
app.add_typer(deliveries.app, name="delivery")
app.add_typer(silences.app, name="silence")
app.add_typer(oncall.app, name="oncall")
app.add_typer(pools.pool_app, name="pool")
app.add_typer(pools.node_app, name="node")
app.add_typer(templates.app, name="template")
app.add_typer(tokens.app, name="token")
