"""Forms that documents of the API share: moments, scopes, names, pages."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler

from channels.fields import Flag, Real, Whole
from notifier.clock import rfc3339
from notifier.faultwords import naming_fields

__all__ = [
    "NAME", "SCOPE", "Body", "ChannelName", "Document", "Flag", "GivenMoment", "Listed", "Moment", "Real",
    "Scope", "TimeZone", "TokenName", "Whole", "WholeText", "matching", "one_of", "scope_of", "split_scope",
]  # fmt: skip

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_WRITTEN = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]")
_LAST = datetime(9000, 1, 1, tzinfo=UTC)
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
SCOPE = rf"^{_PART}(/{_PART})?$"
# A channel's name stands in commands as NAME:item,item and in addresses; Chinese is welcome.
NAME = r"^[A-Za-z0-9_\u4e00-\u9fff][A-Za-z0-9_.\u4e00-\u9fff-]{0,62}$"


class Document(BaseModel):
    """What the API answers."""

    model_config = ConfigDict(frozen=True)


class Body(BaseModel):
    """What the API is sent: a field that it does not know is refused, and those that it knows are named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _say_what_is_known(cls, given: Any, handler: ModelWrapValidatorHandler["Body"]) -> Any:
        try:
            return handler(given)
        except ValidationError as error:
            faults = [naming_fields(cls, fault) for fault in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(cls.__name__, faults, hide_input=True) from None


def written(value: object) -> object:
    """Bare numbers would be taken for seconds or milliseconds since 1970."""
    if isinstance(value, datetime) or (isinstance(value, str) and _WRITTEN.match(value)):
        return value
    raise ValueError("give a time such as 2026-11-29T08:00:00Z")


def _in_range(moment: datetime) -> datetime:
    if not _FIRST <= moment <= _LAST:
        raise ValueError("give a time between 1970 and 9000")
    return moment.astimezone(UTC)


def _digits(value: object) -> object:
    """Pydantic would read "1_0" as 10."""
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,19}", value):
        raise ValueError("give a whole number")
    return value


# Of a query's parameter, which is text.
WholeText = Annotated[int, BeforeValidator(_digits)]
_MOMENT = WithJsonSchema({"type": "string", "format": "date-time"})
Moment = Annotated[datetime, PlainSerializer(rfc3339, return_type=str), _MOMENT]
GivenMoment = Annotated[
    AwareDatetime,
    BeforeValidator(written),
    AfterValidator(_in_range),
    PlainSerializer(rfc3339, return_type=str),
    _MOMENT,
]


def one_of(values: Sequence[str]) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of a text that must be one of those; for sets that a table elsewhere defines."""

    def check(value: str) -> str:
        if value not in values:
            raise ValueError(f"give one of {', '.join(values)}")
        return value

    return AfterValidator(check), WithJsonSchema({"type": "string", "enum": list(values)})


def matching(pattern: str, mend: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of a text that must match; whoever gets it wrong is told the mend, not the pattern."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(mend)
        return value

    return AfterValidator(check), WithJsonSchema({"type": "string", "pattern": pattern})


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("no such time zone; give a name such as Asia/Shanghai or UTC") from None
    return name


Scope = Annotated[
    str,
    *matching(SCOPE, "give pool or pool/queue; each of letters, digits, - . _"),
    Field(description="`pool` or `pool/queue`", examples=["default"]),
]
TimeZone = Annotated[str, Field(max_length=64, examples=["Asia/Shanghai"]), AfterValidator(_zone)]
ChannelName = Annotated[
    str,
    *matching(NAME, "use at most 63 letters, digits, - . _ (Chinese too), without blanks"),
    Field(examples=["oncall-ding"]),
]
TokenName = Annotated[
    str, *matching(rf"^{_PART}$", "use at most 63 letters, digits, - . _"), Field(examples=["ci"])
]

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
