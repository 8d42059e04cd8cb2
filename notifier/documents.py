"""Forms that documents of the API share: moments, scopes, names, pages."""

import re
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)

from notifier.clock import rfc3339

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
SCOPE = rf"^{_PART}(/{_PART})?$"
# A channel's name stands in commands as NAME:item,item and in addresses; Chinese is welcome.
NAME = r"^[A-Za-z0-9_\u4e00-\u9fff][A-Za-z0-9_.\u4e00-\u9fff-]{0,62}$"


class Document(BaseModel):
    """What the API answers."""

    model_config = ConfigDict(frozen=True)


class Body(BaseModel):
    """What the API is sent: a field that it does not know is refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _in_range(moment: datetime) -> datetime:
    if not _FIRST <= moment <= _LAST:
        raise ValueError("give a time between 1970 and 9000")
    return moment.astimezone(UTC)


_MOMENT = WithJsonSchema({"type": "string", "format": "date-time"})
Moment = Annotated[datetime, PlainSerializer(rfc3339, return_type=str), _MOMENT]
GivenMoment = Annotated[
    AwareDatetime, AfterValidator(_in_range), PlainSerializer(rfc3339, return_type=str), _MOMENT
]
Scope = Annotated[str, Field(pattern=SCOPE, description="`pool` or `pool/queue`", examples=["default"])]
ChannelName = Annotated[str, Field(pattern=NAME, examples=["oncall-ding"])]

Item = TypeVar("Item")


class Listed(Document, Generic[Item]):
    """One page of a list, newest first."""

    items: list[Item]
    next_cursor: str | None = Field(description="the `cursor` of the next page; null: this is the last")


def scope_of(pool: str, queue: str | None) -> str:
    return f"{pool}/{queue}" if queue else pool


def split_scope(scope: str) -> tuple[str, str]:
    """Pool and queue ("": the whole pool) of a scope that was checked against `SCOPE`."""
    if not re.fullmatch(SCOPE, scope):
        raise ValueError("a scope is pool or pool/queue")
    pool, _, queue = scope.partition("/")
    return pool, queue
