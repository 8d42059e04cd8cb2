"""`faultcast doctor`: what is well, what is not, and the mend; here, or at a server far away."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from master.cli.client import Client, setting
from master.cli.command import SERVER, TOKEN
from master.cli.errors import FAILED, UNREACHABLE, CommandError, one_line
from master.cli.output import print_json
from master.cli.parts import DataDir, settings

if TYPE_CHECKING:
    from master.doctor import Doctor, Finding

# What is no setting of the server: of the command line, of agents, of pods, for looking closer.
OTHERS = (
    "SERVER", "SERVER_FILE", "TOKEN", "TOKEN_FILE", "TRACEBACK", "AGENT_DIR", "AGENT_FOLDER", "AGENT_TOKEN",
    "AGENT_TOKEN_FILE", "JOB_ID", "JOB_NAME", "KERNEL_LOG", "NODE", "POD_DIR", "POD_ID", "PROGRESS", "RUN",
    "VIRTUAL_NODE", "WATCH_PATHS", "FAULTPOINT",
)  # fmt: skip
STYLES = {"ok": "32", "warn": "33", "fail": "31"}


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    context: typer.Context,
    data_dir: DataDir = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
    server: SERVER = None,
    token: TOKEN = None,
) -> None:
    """Check everything that Faultcast stands on, and say the mend.

    With --server (or FAULTCAST_SERVER) asks that server; else looks at this machine.
    """
    before = context.find_root().params
    named = server or before.get("server") or setting("SERVER")
    token = token or before.get("token")
    found = list(_far(named, token) if named else _here(data_dir, token))
    worst = {one.level for one in found}
    if as_json:
        print_json({"ok": "fail" not in worst, "checks": [asdict(one) for one in found]})
    else:
        _print(found)
    if any(one.what == "server" and one.level == "fail" for one in found):
        raise typer.Exit(UNREACHABLE)
    if "fail" in worst:
        raise typer.Exit(FAILED)


def _here(data_dir: str | None, token: str | None) -> "Iterator[Finding]":
    from master.doctor import WARN, Doctor, Finding  # noqa: PLC0415  it takes half the program along

    try:
        given = settings(data_dir=data_dir)
    except CommandError as error:
        yield Finding("fail", "settings", str(error), "")
        return
    looking = Doctor(given)
    yield from _settings(looking)
    yield from looking.look()
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(given.host, given.host)  # noqa: S104  compared, not bound
    url = f"{'https' if given.tls_cert else 'http'}://{f'[{host}]' if ':' in host else host}:{given.port}"
    yield from _asked(looking, Client(url, token), WARN)


def _settings(looking: "Doctor") -> "Iterator[Finding]":
    """Names that nobody reads: most are a slip, and what they were to set is not set."""
    from notifier.settings import PREFIX, SECRETS, Settings, named_here  # noqa: PLC0415

    known = {*OTHERS, *map(str.upper, Settings.model_fields), *(f"{name.upper()}_FILE" for name in SECRETS)}
    for name in sorted({name.removeprefix(PREFIX) for name in named_here()} - known):
        like = get_close_matches(name, sorted(known), 1)
        key = "setting_like" if like else "setting_unknown"
        yield looking.say("warn", "settings", key, setting=PREFIX + name, like=PREFIX + "".join(like))


def _far(url: str, token: str | None) -> "Iterator[Finding]":
    from master.doctor import FAIL, Doctor  # noqa: PLC0415

    looking = Doctor(settings())
    yield from _asked(looking, Client(url, token), FAIL)


def _asked(looking: "Doctor", client: Client, if_away: str) -> "Iterator[Finding]":
    """What the server itself says; `if_away`: how bad it is that nobody answers."""
    try:
        alive = client.page("/healthz")
        ready = client.page("/readyz")
    except CommandError as error:
        yield looking.say(if_away, "server", "no_server", url=client.server, why=_reason(error))
        return
    yield looking.say("ok", "server", "server", url=client.server)
    if alive.skew_s is not None:
        yield looking.clock("server", alive.skew_s)
    for check in ready.document.get("checks", ()):
        yield _check(looking, check)
    yield from _channels(looking, client)


def _reason(error: CommandError) -> str:
    """Why, without whom (which is said already) and without the mend."""
    return str(error).partition("; ")[0].rpartition(": ")[2]


def _check(looking: "Doctor", check: dict[str, Any]) -> "Finding":
    what, said = f"server.{check.get('name')}", str(check.get("detail") or "")
    if check.get("ok"):
        return looking.say("ok", what, "remote", said=said)
    return looking.say("fail" if check.get("needed") else "warn", what, "remote_trouble", said=said)


def _channels(looking: "Doctor", client: Client) -> "Iterator[Finding]":
    try:
        rows = list(client.pages("/channels", {}, 0))
        lists = list(client.pages("/oncall", {}, 0))
    except CommandError as error:
        yield looking.say("warn", "server.channels", "no_token", why=error)
        return
    broken = [row["name"] for row in rows if row.get("health") == "broken"]
    if broken:
        yield looking.say(
            "warn", "server.channels", "channels_broken", names=", ".join(broken[:10]), held="-"
        )
    else:
        yield looking.say("ok", "server.channels", "channels", count=len(rows))
    strays = [
        f"oncall:{row.get('scope')}/{row.get('name')}: {', '.join(row['missing'])}"
        for row in lists
        if row.get("missing")  # an earlier release has no such field
    ]
    if strays:
        yield looking.say("warn", "server.oncall", "rules_strays", said="; ".join(strays[:10]))


def _print(found: "list[Finding]") -> None:
    width = max(len(one.what) for one in found)
    is_coloured = sys.stdout.isatty()
    for one in found:
        level = f"{one.level:<4}"
        if is_coloured:
            level = f"\x1b[{STYLES[one.level]}m{level}\x1b[0m"
        mend = f"  → {one_line(one.mend)}" if one.mend and one.level != "ok" else ""
        sys.stdout.write(f"{level}  {one.what:<{width}}  {one_line(one.detail)}{mend}".rstrip() + "\n")
