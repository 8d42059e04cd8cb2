"""`faultcast pool …` and `faultcast node …`: the resource pool and its machines."""

from typing import Annotated

import typer

from master.cli.client import Client, segment
from master.cli.command import Count, Json, client_command, group
from master.cli.errors import CommandError
from master.cli.output import field, print_facts, print_items, print_json, say, time_of
from master.cli.values import boolean

pool_app = group("The resource pool.")
node_app = group("Nodes: list, isolate, restore.")
pool_app.add_typer(node_app, name="node")

NODE_COLUMNS = {
    "NAME": field("name"),
    "POOL": field("pool"),
    "STATUS": field("status"),
    "REASON": field("reason"),
    "ISOLATED": time_of("isolated_at"),
    "AGENT SEEN": time_of("agent_seen_at"),
    "SIGNALS": lambda node: ", ".join(one["name"] for one in node.get("signals", ())),
}
Pool = Annotated[str, typer.Option("--pool", "-p", help="The pool.")]
Node = Annotated[str, typer.Argument(metavar="NODE", show_default=False)]


@client_command(pool_app, "get")
def get(client: Client, pool: Pool = "default", as_json: Json = False) -> None:
    """Show the pool."""
    document = client.get(f"/pools/{segment(pool)}")
    print_json(document) if as_json else print_facts(document)


@client_command(pool_app, "set")
def set_(
    client: Client,
    pool: Pool = "default",
    fault_isolation: Annotated[
        str | None, typer.Option(help="Automatic isolation of faulty nodes.", metavar="true|false")
    ] = None,
    isolation_cap: Annotated[
        float | None, typer.Option(help="Largest share of nodes isolated at once, 0 to 1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Change the pool."""
    given = {"fault_isolation": boolean("--fault-isolation", fault_isolation), "isolation_cap": isolation_cap}
    change = {name: value for name, value in given.items() if value is not None}
    if not change:
        raise CommandError("--fault-isolation: nothing to change: give it or --isolation-cap")
    document = client.call("PATCH", f"/pools/{segment(pool)}", body=change)
    print_json(document) if as_json else print_facts(document)


@client_command(node_app, "list")
def list_nodes(client: Client, limit: Count = 0, as_json: Json = False) -> None:
    """List nodes."""
    print_items(client.pages("/nodes", {}, limit), NODE_COLUMNS, as_json=as_json, empty="no nodes")


@client_command(node_app, "isolate")
def isolate(
    client: Client,
    node: Node,
    reason: Annotated[str, typer.Option(help="Why, for those who find it isolated.")] = "",
    as_json: Json = False,
) -> None:
    """Take a node out of scheduling."""
    document = client.post(f"/nodes/{segment(node)}/isolate", {"reason": reason} if reason else {})
    print_json(document) if as_json else say(f"node {node} isolated")


@client_command(node_app, "restore")
def restore(client: Client, node: Node, as_json: Json = False) -> None:
    """Give a node back to scheduling."""
    document = client.post(f"/nodes/{segment(node)}/restore")
    print_json(document) if as_json else say(f"node {node} restored")
