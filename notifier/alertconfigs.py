"""Alert configurations of jobs and pools: kept, read, and asked who would be told."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import ValidationError
from sqlalchemy.orm import Session

from notifier import audience
from notifier.model import AlertConfig
from notifier.problems import Problem, of_validation
from notifier.rules import NOBODY_ELSE, AlertConfigModel, is_no_fallback
from notifier.storedrules import readable

OwnerKind = Literal["job", "pool"]


@dataclass(frozen=True)
class Kept:
    """A configuration as stored; version 0: none was ever set."""

    config: AlertConfigModel
    version: int


def get_alert_config(session: Session, owner_kind: OwnerKind, owner_id: str) -> Kept:
    row = session.get(AlertConfig, (owner_kind, owner_id))
    if row is None:
        return Kept(AlertConfigModel(), 0)
    return Kept(readable(row.config)[0], row.version)


def put_alert_config(
    session: Session, owner: tuple[OwnerKind, str], config: AlertConfigModel, now: datetime
) -> Kept:
    """Replaces the owner's configuration. Check it first (`check_channels`)."""
    row = session.get(AlertConfig, owner, with_for_update=True)
    if row is None:
        row = AlertConfig(owner_kind=owner[0], owner_id=owner[1], version=0)
        session.add(row)
    row.config = config.model_dump(mode="json")
    row.version += 1
    row.updated_at = now
    session.flush()
    return Kept(config, row.version)


def delete_alert_config(session: Session, owner_kind: OwnerKind, owner_id: str) -> None:
    row = session.get(AlertConfig, (owner_kind, owner_id))
    if row is not None:
        session.delete(row)


def parsed_config(given: object, *, under: str = "alertConfig") -> AlertConfigModel:
    """What is given as part of another body, such as a job's `alertConfig`.

    Raises:
        Problem: names the field below `under`.
    """
    try:
        return AlertConfigModel.model_validate(given)
    except ValidationError as error:
        raise of_validation(error, under=under) from None


def check_channels(
    session: Session, config: AlertConfigModel, pool: str, queue: str = "", *, under: str = ""
) -> None:
    """Every channel or on-call list that it names must be there, in the queue or else in the pool, and a
    fallback somebody else.

    Raises:
        Problem: names each place and what is wrong with it.
    """
    known = audience.known(session, (pool, queue), config.channel_names())
    errors = [
        (where, f"there is no channel or on-call list {name} in {_scope(pool, queue)}")
        for where, name in _named(config)
        if name not in known
    ]
    errors += [
        (f"rules.{n}.fallback", NOBODY_ELSE)
        for n, rule in enumerate(config.rules)
        if is_no_fallback(rule.channels, rule.fallback)
    ]
    if errors:
        prefix = f"{under}." if under else ""
        raise Problem(422, errors=[(f"{prefix}{where}", wrong) for where, wrong in errors])


def _named(config: AlertConfigModel) -> list[tuple[str, str]]:
    """Every place that names a channel."""
    places = [
        (f"rules.{n}.{field}.{m}", name)
        for n, rule in enumerate(config.rules)
        for field in ("channels", "fallback")
        for m, name in enumerate(getattr(rule, field))
    ]
    steps = [
        (f"escalation.{n}.channels.{m}", name)
        for n, step in enumerate(config.escalation)
        for m, name in enumerate(step.channels)
    ]
    return places + steps


def _scope(pool: str, queue: str) -> str:
    return f"{pool}/{queue} or {pool}" if queue else pool
