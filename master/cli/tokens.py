"""`faultcast token …`: who may do what."""

from typing import Annotated

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, client_command, group
from master.cli.output import field, print_items, print_json, say, time_of

app = group("Tokens: who may do what.")

COLUMNS = {
    "ID": field("id"),
    "NAME": field("name"),
    "ROLE": field("role"),
    "SCOPE": field("scope"),
    "CREATED": time_of("created_at"),
    "EXPIRES": time_of("expires_at"),
}


@client_command(app, "create")
def create(
    client: Client,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    role: Annotated[str, typer.Option(help="admin, operator, viewer, publisher, ingest or agent.")],
    scope: Annotated[str | None, typer.Option(help="pool or pool/queue [default: everything].")] = None,
    node: Annotated[str | None, typer.Option(help="The node of an agent's token.")] = None,
    expires_at: Annotated[str | None, typer.Option(help="When it ends, RFC 3339.", metavar="TIME")] = None,
    as_json: Json = False,
) -> None:
    """Create a token; it is shown this once."""
    body = {"name": name, "role": role, "scope": scope, "node": node, "expires_at": expires_at}
    document = client.post("/tokens", {key: value for key, value in body.items() if value is not None})
    print_json(document) if as_json else say(document["token"])


@client_command(app, "list")
def list_tokens(client: Client, limit: Count = 50, as_json: Json = False) -> None:
    """List tokens; the secret itself is kept nowhere."""
    print_items(client.pages("/tokens", {}, limit), COLUMNS, as_json=as_json, empty="no tokens")


@client_command(app, "delete")
def delete(client: Client, ident: Annotated[str, typer.Argument(metavar="ID", show_default=False)]) -> None:
    """Delete a token: whoever holds it is out at once."""
    client.delete(f"/tokens/{segment(ident)}")
    say(f"token {ident} deleted")
