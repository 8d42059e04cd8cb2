"""How a command of the API's client is declared: `--server` and `--token` before or after its name."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from master.cli.client import Client

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
Count = Annotated[int, typer.Option("--limit", min=0, help="How many at most; 0 shows all.")]
Scope = Annotated[
    str | None,
    typer.Option("--scope", help="pool or pool/queue [default: the token's own]."),
]

SERVER = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The server [env: FAULTCAST_SERVER; default: http://127.0.0.1:8642]."
    ),
]
TOKEN = Annotated[
    str | None,
    typer.Option("--token", help="Who asks [env: FAULTCAST_TOKEN; default: <data-dir>/admin.token]."),
]


def group(help_text: str) -> typer.Typer:
    """A family of commands, such as `faultcast job …`."""
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


def client_command(
    app: typer.Typer, name: str, flags: type[Any] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers `function(client, …)` as a command; its docstring is the help.

    With `flags`, a dataclass whose fields are options, the function is `function(client, flags, …)`.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = list(signature.parameters.values())[2 if flags else 1 :]
        options = _options(flags) if flags else []
        parameters = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in own]
        parameters += [*options, _keyword("server", SERVER), _keyword("token", TOKEN)]
        parameters += [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]

        def run(*, context: typer.Context, server: str | None, token: str | None, **given: Any) -> None:
            first = [flags(**{part.name: given.pop(part.name) for part in options})] if flags else []
            before = context.find_root().params
            client = Client(server or before.get("server"), token or before.get("token"))
            function(client, *first, **given)

        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {part.name: part.annotation for part in parameters}
        app.command(name)(run)
        return function

    return register


def _options(flags: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(flags, include_extras=True)
    return [_keyword(part.name, hints[part.name]) for part in dataclasses.fields(flags)]


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def scoped(scope: str | None) -> dict[str, str]:
    """The query that says in which scope a name is meant."""
    return {"scope": scope} if scope else {}
