"""`faultcast apply -f FILE`: channels, on-call lists, rules and silences are as one file says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from master.cli.client import Client, segment
from master.cli.command import Json, client_command, scoped
from master.cli.errors import CommandError
from master.cli.output import print_json, say
from notifier.clock import utcnow

CREATE, CHANGE, SAME = "create", "change", "same"
NOT_FOUND = 404


@dataclass(frozen=True)
class Step:
    """What is to be done for an entry: its call, and the fields that it changes."""

    action: str
    what: str
    path: str
    body: Mapping[str, Any]
    query: Mapping[str, Any]
    changes: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        return "POST" if self.action == CREATE and not self.path.endswith("/alerts") else "PUT"

    def document(self) -> dict[str, Any]:
        return {"action": self.action, "what": self.what, "changes": list(self.changes)}


def register(app: typer.Typer) -> None:
    client_command(app, "apply")(apply)


def apply(
    client: Client,
    file: Annotated[
        str, typer.Option("--file", "-f", help="YAML or JSON; - reads stdin.", show_default=False)
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make channels, on-call lists, rules and silences as one file says; what is so already stays."""
    from master.cli.applyfile import File  # noqa: PLC0415  the models are slow to load, and seldom wanted

    wanted = File(file)
    done: list[Step] = []
    for entry in wanted.entries:
        try:
            step = _LOOKS[entry.section](client, entry)
            if step.action != SAME and not dry_run:
                client.call(step.method, step.path, body=step.body, query=step.query)
        except CommandError as error:
            raise (wanted.refused(entry, error) if error.status else error) from None
        done.append(step)
        if not as_json:
            changes = f" ({', '.join(step.changes)})" if step.changes else ""
            say(f"{step.action} {step.what}{changes}")
    if as_json:
        print_json({"dry_run": dry_run, "items": [step.document() for step in done]})


def _channel(client: Client, entry: Any) -> Step:
    body = entry.body
    what, path, query = f"channel {body['name']}", f"/channels/{segment(body['name'])}", _scope(body)
    if _find(client, path, query) is None:
        client.call("POST", "/channels", body=body, query={"dry_run": "true"})
        return Step(CREATE, what, "/channels", body, {})
    sent = {name: value for name, value in body.items() if name != "scope"}
    found = client.call("PUT", path, body=sent, query={**query, "dry_run": "true"})["changes"]
    return Step(CHANGE if found else SAME, what, path, sent, query, tuple(found))


def _oncall(client: Client, entry: Any) -> Step:
    from notifier.oncall import Spec  # noqa: PLC0415

    body = entry.body
    what, path, query = f"on-call list {body['name']}", f"/oncall/{segment(body['name'])}", _scope(body)
    known = _find(client, path, query)
    if known is None:
        return Step(CREATE, what, "/oncall", body, {})
    sent = {name: value for name, value in body.items() if name != "scope"}
    want, have = (
        Spec.model_validate({name: one[name] for name in one if name in Spec.model_fields}).model_dump()
        for one in (body, known)
    )
    found = [name for name in want if want[name] != have[name]]
    return Step(CHANGE if found else SAME, what, path, sent, query, tuple(found))


def _rules(client: Client, entry: Any) -> Step:
    from notifier.rules import AlertConfigModel  # noqa: PLC0415

    kind, name = entry.owner
    path = f"/{kind}s/{segment(name)}/alerts"
    want, have = (
        AlertConfigModel.model_validate(one).model_dump(mode="json") for one in (entry.body, client.get(path))
    )
    found = [part for part in want if want[part] != have[part]]
    action = SAME if not found else CHANGE if any(have.values()) else CREATE
    return Step(action, f"rules of {kind} {name}", path, entry.body, {}, tuple(found))


def _silence(client: Client, entry: Any) -> Step:
    from notifier.silencebook import SilenceBody  # noqa: PLC0415

    want = SilenceBody.model_validate(entry.body)
    matchers = [f"{one.name}{one.op}{one.value}" for one in want.matchers]
    matchers += [f"{name}={value}" for name, value in want.match.items()]
    what = f"silence {', '.join(matchers)}"
    until = want.model_dump(mode="json")["ends_at"]
    if want.ends_at is not None and want.ends_at <= utcnow():
        return Step(SAME, f"{what} (over)", "/silences", {}, {})
    for one in client.pages("/silences", {}, 0):
        known = sorted(f"{each['name']}{each['op']}{each['value']}" for each in one["matchers"])
        if known == sorted(matchers) and one["ends_at"] == until and want.scope in {None, one["scope"]}:
            return Step(SAME, what, "/silences", {}, {})
    return Step(CREATE, what, "/silences", entry.body, {})


_LOOKS = {"channels": _channel, "oncall": _oncall, "rules": _rules, "silences": _silence}


def _scope(body: Mapping[str, Any]) -> dict[str, str]:
    return scoped(body.get("scope"))


def _find(client: Client, path: str, query: Mapping[str, Any]) -> Any:
    """What is there, or None."""
    try:
        return client.get(path, query)
    except CommandError as error:
        if error.status != NOT_FOUND:
            raise
        return None
