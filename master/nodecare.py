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
        hands.runtime.ensure_node_agent(node, partial(_access, hands, pool, node, now))


def _access(hands: Hands, pool: str, node: str, now: datetime) -> AgentAccess:
    """A fresh token; those of earlier lives are void."""
    name = f"agent of {node}"
    with hands.write() as session:
        session.execute(delete(Token).where(Token.node == node, Token.name == name))
        _, plaintext = create_token(session, NewToken(name, Role.AGENT, pool, node=node), now)
    return AgentAccess(hands.server, plaintext)
