"""Sees that each node of the runtime has its agent."""

from datetime import datetime
from functools import partial

from sqlalchemy import delete

from master.hands import Hands
from master.runtimes.base import AgentAccess
from notifier.auth import NewToken, Role, create_token
from notifier.model import Token


def look(hands: Hands, pool: str, now: datetime) -> None:
    for node in hands.runtime.nodes():
        access = AgentAccess(hands.server, partial(_new_token, hands, pool, node, now))
        hands.runtime.ensure_node_agent(node, access)


def _new_token(hands: Hands, pool: str, node: str, now: datetime) -> str:
    """A fresh token; those of earlier lives are void."""
    name = f"agent of {node}"
    with hands.write() as session:
        session.execute(delete(Token).where(Token.node == node, Token.name == name))
        _, plaintext = create_token(session, NewToken(name, Role.AGENT, pool, node=node), now)
    return plaintext
