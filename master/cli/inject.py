"""`faultcast inject JOB FAULT`: breaks a job of a test system on purpose."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from master.cli.client import Client, setting
from master.cli.command import Json, client_command
from master.cli.errors import CommandError
from master.cli.output import print_items, print_json, say

if TYPE_CHECKING:
    from master.inject import Fault, Wish

MAX_SECONDS = 86_400.0
MAX_SKEW_S = 366 * 86_400.0


@dataclass(frozen=True)
class Options:
    """What some faults take."""

    rank: Annotated[int | None, typer.Option(min=0, help="Which rank [default: the last one].")] = None
    seconds: Annotated[float | None, typer.Option(help="How long what ends by itself lasts.")] = None
    line: Annotated[str | None, typer.Option(help="The text for kernel_line and nccl_error.")] = None
    skew_s: Annotated[
        float | None, typer.Option("--skew-s", help="How wrong a clock goes; ahead if positive.")
    ] = None


def register(app: typer.Typer) -> None:
    client_command(app, "inject", flags=Options)(inject)


def inject(
    client: Client,
    options: Options,
    job: Annotated[str | None, typer.Argument(metavar="JOB", show_default=False)] = None,
    fault: Annotated[str | None, typer.Argument(metavar="FAULT", show_default=False)] = None,
    is_list: Annotated[
        bool, typer.Option("--list", help="Say what faults there are; nothing is done.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Break a job on purpose, or put it through something harmless: for test systems.

    Works where the job's pods run (local runtime), with an operator's or admin's token.
    `faultcast inject --list` says what faults there are and what each should be called.
    """
    from master.inject import FAULTS, Ground, Wish, find  # noqa: PLC0415  `--help` need not wait for it

    if is_list:
        _list(FAULTS, as_json=as_json)
        return
    if job is None or fault is None:
        raise CommandError("JOB and FAULT: name both; `faultcast inject --list` says what faults there are")
    wish = Wish(
        options.rank,
        _within("--seconds", options.seconds, 0.1, MAX_SECONDS),
        options.line,
        _within("--skew-s", options.skew_s, -MAX_SKEW_S, MAX_SKEW_S),
    )
    chosen = find(fault)
    _check_options(chosen, wish, FAULTS)
    done = chosen.strike(Ground(client, job), wish)
    if as_json:
        print_json({"fault": chosen.name, "healthy": chosen.is_healthy, **done.document()})
        return
    say(f"{chosen.name}: rank {done.rank}, pod {done.pod}, node {done.node}: {done.did}")
    expected = "nothing, if that was soon enough" if _ends_by_itself(chosen, wish) else _expected(chosen)
    say(f"then: {expected}; see `faultcast job events {job}`")


def _list(faults: "tuple[Fault, ...]", *, as_json: bool) -> None:
    language = "en" if setting("LANGUAGE") == "en" else "zh"
    items = [
        {
            "fault": one.name, "healthy": one.is_healthy, "fault_class": one.becomes,
            "causes": list(one.causes), "needs": one.needs, "takes": ["rank", *one.takes],
            "alert": one.raises or None, "does": one.words[language],
        }
        for one in faults
    ]  # fmt: skip
    columns: dict[str, Any] = {
        "FAULT": lambda one: one["fault"],
        "IS": lambda one: "healthy" if one["healthy"] else "fault",
        "CALLED": lambda one: _called(one["fault_class"], one["causes"], one["alert"]),
        "NEEDS": lambda one: one["needs"],
        "DOES": lambda one: one["does"],
    }
    print_items(items, columns, as_json=as_json, empty="no faults")


def _called(fault_class: str | None, causes: list[str], alert: str | None) -> str:
    if fault_class is None:
        return alert or "nothing"
    return f"{fault_class}: {' or '.join(causes)}"


def _expected(fault: "Fault") -> str:
    if fault.is_healthy:
        told = f"the alert {fault.raises}" if fault.raises else "no alert"
        return f"{told}, and training goes on"
    return f"a fault event {_called(fault.becomes, list(fault.causes), None)}"


def _ends_by_itself(fault: "Fault", wish: "Wish") -> bool:
    return wish.seconds is not None and not fault.is_healthy


def _within(flag: str, value: float | None, least: float, most: float) -> float | None:
    if value is not None and not least <= value <= most:  # not a number is not within either
        raise CommandError(f"{flag}: {value:g} is not within {least:g} and {most:g}; give seconds")
    return value


def _check_options(fault: "Fault", wish: "Wish", faults: "tuple[Fault, ...]") -> None:
    """What would be ignored is refused."""
    for name in ("seconds", "line", "skew_s"):
        if getattr(wish, name) is not None and name not in fault.takes:
            others = ", ".join(one.name for one in faults if name in one.takes)
            flag = f"--{name.replace('_', '-')}"
            raise CommandError(f"{flag}: means nothing to {fault.name}, only to {others}; leave it out")
