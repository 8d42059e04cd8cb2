"""Names that rules and on-call lists hold and that mean nobody any more: what they named was deleted."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier.audience import known
from notifier.documents import scope_of
from notifier.lookup import lookup
from notifier.model import AlertConfig, Oncall
from notifier.oncall import readable as readable_list
from notifier.storedrules import readable

Scope = tuple[str, str]


def of_list(session: Session, row: Oncall, now: datetime) -> list[str]:
    """Channels that the list names for now or later."""
    spec = readable_list(row.spec)
    names = spec.names_from(now) if spec is not None else ()
    there = lookup(session, row.pool, row.queue, set(names)) if names else {}
    return [name for name in names if name not in there]


def all_of(session: Session, jobs: Mapping[str, Scope], now: datetime) -> dict[str, list[str]]:
    """By who names them (`pool:POOL`, a job's id, `oncall:SCOPE/NAME`): pools, these jobs, on-call lists."""
    named: dict[Scope, dict[str, frozenset[str]]] = defaultdict(dict)
    for config in session.scalars(select(AlertConfig)):
        scope = jobs.get(config.owner_id) if config.owner_kind == "job" else (config.owner_id, "")
        if scope is not None:
            owner = config.owner_id if config.owner_kind == "job" else f"pool:{config.owner_id}"
            named[scope][owner] = readable(config.config)[0].channel_names()
    found: dict[str, list[str]] = {}
    for scope, owners in named.items():
        there = known(session, scope, frozenset().union(*owners.values()))
        found |= {owner: sorted(names - there) for owner, names in owners.items()}
    for row in session.scalars(select(Oncall)):
        found[f"oncall:{scope_of(row.pool, row.queue)}/{row.name}"] = of_list(session, row, now)
    return {owner: names for owner, names in found.items() if names}
