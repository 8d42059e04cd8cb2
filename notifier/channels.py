"""Channels: made, shown with masked secrets, changed, taken away, and mended when they were broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from channels.absent import AbsentConfig
from channels.base import ChannelConfig
from channels.config import URL_FIELDS, differing, join, masked, merge, split
from channels.registry import ADAPTERS, adapter
from channels.transport import ForbiddenTarget, Network, check_target
from notifier import channeltemplates, failing, meters, names
from notifier.auth import Principal
from notifier.documents import (
    Body,
    ChannelName,
    Document,
    Flag,
    Moment,
    Scope,
    TimeZone,
    scope_of,
    split_scope,
)
from notifier.doorbell import shard_of
from notifier.fixedtext import fixed_text
from notifier.ids import new_id
from notifier.mending import close_waiting, release_held
from notifier.model import Channel
from notifier.pages import Ask, Page, page
from notifier.problems import conflict, invalid, not_found, of_validation
from notifier.secretbox import SecretBox

DEFAULT_SCOPE = "default"
DELETED = "the channel was deleted before this was sent"
DISABLED = "the channel was disabled before this was sent"

Config = Annotated[dict[str, Any], Field(description="by `kind`; secrets are answered masked")]
Language = Literal["zh", "en"] | None


class ChannelBody(Body):
    """A channel to be made. Without a scope it is the token's own, or pool `default`."""

    name: ChannelName
    scope: Scope | None = None
    kind: Annotated[str, Field(max_length=32, examples=["dingtalk"])]
    config: Config
    language: Language = Field(default=None, description="null: the rule's or the server's")
    timezone: TimeZone | None = None
    enabled: Flag = True


class ChannelChange(Body):
    """A channel as it shall be from now on: what GET answers may be sent back with changes.

    A masked secret that is repeated keeps what is stored. `name`, `scope` and `kind` cannot change.
    """

    config: Config
    language: Language = None
    timezone: TimeZone | None = None
    enabled: Flag = True
    name: str | None = None
    scope: str | None = None
    kind: str | None = None
    id: str | None = Field(default=None, description="ignored, like all that the server alone knows")
    health: str | None = None
    health_why: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    warnings: list[str] | None = None
    changes: list[str] | None = None


class ChannelDocument(Document):
    id: str
    name: str
    scope: str
    kind: str
    config: Config
    language: str | None
    timezone: str | None
    enabled: bool
    health: str = Field(description="`unknown`, `ok` or `broken`")
    health_why: str
    created_at: Moment
    updated_at: Moment
    warnings: list[str] = Field(description="what looks unusual; nothing was refused for it")
    changes: list[str] | None = Field(
        default=None, description="of a dry run: which fields the PUT would change, secret ones too"
    )


@dataclass(frozen=True)
class Wanted:
    """A config that was parsed and whose targets were looked at (outside of any transaction)."""

    kind: str
    config: ChannelConfig
    warnings: tuple[str, ...] = ()


def wanted(
    kind: str, given: Mapping[str, Any], network: Network, stored: ChannelConfig | None = None
) -> Wanted:
    """Parses and checks a config. Resolves names, so it must hold no transaction open.

    Raises:
        Problem: names the field and the mend.
    """
    if kind not in ADAPTERS:
        raise invalid("kind", f"there is no such kind of channel; give one of {', '.join(ADAPTERS)}")
    try:
        config = merge(ADAPTERS[kind].Config, given, stored)
    except ValidationError as error:
        raise of_validation(error, under="config", model=ADAPTERS[kind].Config) from None
    for target in config.targets():
        try:
            check_target(target, network.allow)
        except ForbiddenTarget as error:
            raise invalid(_field_of(config, target), str(error)) from None
    return Wanted(kind, config, (*channeltemplates.check(config), *fixed_text(ADAPTERS[kind], config)))


def own_scope(principal: Principal, scope: str | None) -> tuple[str, str]:
    """Pool and queue of something new.

    Raises:
        Problem: they lie outside the token's scope (404).
    """
    if scope is None:
        return principal.pool or DEFAULT_SCOPE, principal.queue or ""
    pool, queue = split_scope(scope)
    if not principal.covers(pool, queue):
        raise not_found("scope", scope)
    return pool, queue


@dataclass(frozen=True)
class Editing:
    """Changes to channels, all in the caller's transaction."""

    session: Session
    box: SecretBox
    now: datetime

    def create(self, body: ChannelBody, want: Wanted, scope: tuple[str, str]) -> Channel:
        """The new row.

        Raises:
            Problem: the name is taken in this scope (409), be it by an on-call list.
        """
        names.take(self.session, scope, body.name, Channel)
        channel_id = new_id("chn", self.now)
        row = Channel(
            id=channel_id,
            pool=scope[0],
            queue=scope[1],
            name=body.name,
            kind=want.kind,
            health="unknown",
            health_why="",
            shard=shard_of(channel_id),
            version=0,
            created_at=self.now,
        )
        self._write(row, body, want)
        self.session.add(row)
        try:
            self.session.flush()
        except IntegrityError:
            where = scope_of(*scope)
            raise conflict(f"{where} already has a channel {body.name}; take another name") from None
        return row

    def change(self, row: Channel, body: ChannelChange, want: Wanted) -> set[int]:
        """Replaces all that may change. An edit mends; a channel that is switched off sends nothing more.
        Shards to ring."""
        row.health, row.health_why = "unknown", ""
        self._write(row, body, want)
        if row.enabled:
            release_held(self.session, row, self.now)
        else:
            close_waiting(self.session, row, state="suppressed", why=DISABLED)
        ended = failing.CHANGED if row.enabled else failing.DISABLED
        return {row.shard, *failing.close_failing(self.session, row, self.now, ended)}

    def delete(self, row: Channel) -> frozenset[int]:
        """What was not sent yet is `failed`; what was sent stays in the log. Shards to ring."""
        error = {"error_code": "channel_deleted", "error_message": DELETED, "error_permanent": True}
        close_waiting(self.session, row, state="failed", why=DELETED, **error)
        shards = failing.close_failing(self.session, row, self.now, failing.DELETED)
        self.session.delete(row)
        return shards

    def _write(self, row: Channel, body: ChannelBody | ChannelChange, want: Wanted) -> None:
        plain, secret = split(want.config)
        row.config = plain
        row.secrets = self.box.seal(secret, owner=row.id)
        row.language, row.timezone, row.enabled = body.language, body.timezone, body.enabled
        row.version += 1
        row.updated_at = self.now
        before = meters.of(self.session, [row.id])
        meters.register(self.session, row.id, want.config)
        if meters.of(self.session, [row.id]) != before:  # it is another robot's pause that counts now
            row.paused_until = meters.pause(self.session, row)


def find(session: Session, principal: Principal, name: str, scope: str | None = None) -> Channel:
    """The channel of that name within the principal's reach.

    Raises:
        Problem: there is none (404), or there are several and no scope says which (409).
    """
    rows = select(Channel).where(Channel.name == name, principal.only(Channel.pool, Channel.queue))
    if scope is not None:
        pool, queue = split_scope(scope)
        rows = rows.where(Channel.pool == pool, Channel.queue == queue)
    found = session.scalars(rows.limit(2)).all()
    if not found:
        raise not_found("channel", name)
    if len(found) > 1:
        raise conflict(f"several scopes have a channel {name}: say which by ?scope=POOL or ?scope=POOL/QUEUE")
    return found[0]


def listed(session: Session, principal: Principal, ask: Ask) -> Page[Channel]:
    return page(session, select(Channel).where(principal.only(Channel.pool, Channel.queue)), Channel.id, ask)


def load_config(row: Channel, box: SecretBox) -> ChannelConfig:
    """The config with its secrets, for the adapter."""
    return join(adapter(row.kind).Config, row.config, box.open(row.secrets, owner=row.id))


def shown_config(row: Channel, box: SecretBox) -> ChannelConfig:
    """The config as far as it can be read here: none of it where the SDK or the service that it needs is
    not installed any more."""
    try:
        return load_config(row, box)
    except ValidationError:
        return AbsentConfig()


def document(row: Channel, config: ChannelConfig, warnings: Sequence[str] = ()) -> ChannelDocument:
    """`warnings`: more of them, where the channel has just been saved."""
    return ChannelDocument(
        id=row.id,
        name=row.name,
        scope=scope_of(row.pool, row.queue),
        kind=row.kind,
        config=masked(config),
        language=row.language,
        timezone=row.timezone,
        enabled=row.enabled,
        health=row.health,
        health_why=row.health_why,
        created_at=row.created_at,
        updated_at=row.updated_at,
        warnings=[*config.lint(), *warnings],
    )


def changes(row: Channel, stored: ChannelConfig, body: ChannelChange, want: Wanted) -> list[str]:
    """The fields that would change, by name."""
    plain = [
        name for name in ("language", "timezone", "enabled") if getattr(row, name) != getattr(body, name)
    ]
    return [*(f"config.{name}" for name in differing(stored, want.config)), *plain]


def check_fixed(row: Channel, body: ChannelChange) -> None:
    """Raises a problem where a change names another name, scope or kind."""
    fixed = {"name": row.name, "scope": scope_of(row.pool, row.queue), "kind": row.kind}
    for field, value in fixed.items():
        if getattr(body, field) not in {None, value}:
            raise invalid(field, f"cannot be changed from {value}: make another channel instead")


def _field_of(config: ChannelConfig, target: str) -> str:
    plain, secret = split(config)
    fields = {**plain, **secret}.items()
    # A target may be more than what was given: an endpoint's scheme is added to its host.
    found = [name for name, value in fields if isinstance(value, str) and value and target.endswith(value)]
    found += [name for name, _ in fields if name in URL_FIELDS]  # an adapter may have read it in its own way
    return f"config.{found[0]}" if found else "config"
