"""Silences as the API takes and answers them: made, found, listed, ended."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field, model_validator
from sqlalchemy import select
from sqlalchemy.orm import Session

from notifier.auth import Principal
from notifier.documents import Body, Document, GivenMoment, Moment, Scope, Whole, scope_of
from notifier.ids import new_id
from notifier.model import Silence
from notifier.pages import Ask, Page, page
from notifier.problems import Problem, invalid, not_found
from notifier.silencing import PATTERNS, Matcher, compiled, is_bounded, status

MAX_SPAN = timedelta(days=366)
MOST_MATCHERS = 20
UNBOUNDED = (
    "would silence whatever lacks these labels, so nearly everything: let one matcher name what an alert "
    'must have (for all of a pool: {"name":"severity","op":"=~","value":".+"})'
)

Name = Annotated[str, Field(min_length=1, max_length=128, examples=["item"])]
Value = Annotated[str, Field(max_length=1024, examples=["jobFT"])]


class MatcherBody(Body):
    """One condition: on a label, or on `item`, `severity`, `job`, `job_name`, `pool`, `queue`, `source`,
    `title` or `event`. Patterns are RE2 and match the whole value."""

    name: Name
    op: Literal["=", "!=", "=~", "!~"] = "="
    value: Value

    @model_validator(mode="after")
    def _is_pattern(self) -> "MatcherBody":
        if self.op in PATTERNS:
            try:
                compiled(self.value)
            except ValueError as error:
                raise ValueError(f"value: {error}") from None
        return self


class SilenceBody(Body):
    """A silence to be made. All matchers must hold; `match` is short for matchers of `=`."""

    scope: Scope | None = Field(default=None, description="null: the token's own; of a pool: all its queues")
    matchers: Annotated[list[MatcherBody], Field(max_length=MOST_MATCHERS)] = Field(default_factory=list)
    match: Annotated[dict[Name, Value], Field(max_length=MOST_MATCHERS)] = Field(default_factory=dict)
    starts_at: GivenMoment | None = Field(default=None, description="null: now")
    ends_at: GivenMoment | None = None
    duration_s: Annotated[Whole, Field(ge=1, le=int(MAX_SPAN.total_seconds()))] | None = None
    comment: Annotated[str, Field(max_length=500)] = ""


class SilenceDocument(Document):
    """`status`: `pending`, `active` or `expired`."""

    id: str
    scope: str
    matchers: list[MatcherBody]
    starts_at: Moment
    ends_at: Moment
    comment: str
    created_by: str
    created_at: Moment
    status: str


def create(
    session: Session, body: SilenceBody, scope: tuple[str, str], principal: Principal, now: datetime
) -> Silence:
    """The new row.

    Raises:
        Problem: names the field and the mend (422).
    """
    matchers = [*body.matchers, *(MatcherBody(name=name, value=value) for name, value in body.match.items())]
    starts_at = max(body.starts_at or now, now)
    row = Silence(
        id=new_id("slc", now),
        pool=scope[0],
        queue=scope[1],
        matchers=[one.model_dump() for one in matchers],
        starts_at=starts_at,
        ends_at=_end(body, starts_at),
        comment=body.comment.strip(),
        created_by=principal.name,
        created_at=now,
    )
    _check(row, matchers, now)
    session.add(row)
    session.flush()
    return row


def find(session: Session, principal: Principal, silence_id: str, *, lock: bool = False) -> Silence:
    """Raises a problem (404) if there is none, or none within the principal's reach."""
    rows = select(Silence).where(Silence.id == silence_id)
    row = session.scalars(rows.with_for_update() if lock else rows).first()
    if row is None or not principal.covers(row.pool, row.queue):
        raise not_found("silence", silence_id)
    return row


def listed(session: Session, principal: Principal, ask: Ask) -> Page[Silence]:
    return page(session, select(Silence).where(principal.only(Silence.pool, Silence.queue)), Silence.id, ask)


def document(row: Silence, now: datetime) -> SilenceDocument:
    return SilenceDocument(
        id=row.id,
        scope=scope_of(row.pool, row.queue),
        matchers=[MatcherBody(**one) for one in row.matchers],
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        comment=row.comment,
        created_by=row.created_by,
        created_at=row.created_at,
        status=status(row.starts_at, row.ends_at, now),
    )


def _end(body: SilenceBody, starts_at: datetime) -> datetime:
    if (body.ends_at is None) == (body.duration_s is None):
        raise invalid("ends_at", "give ends_at or duration_s, one of them")
    return body.ends_at or starts_at + timedelta(seconds=body.duration_s or 0)


def _check(row: Silence, matchers: list[MatcherBody], now: datetime) -> None:
    errors: list[tuple[str, str]] = []
    if not matchers:
        errors.append(("matchers", "is missing: say which alerts, by matchers or match"))
    elif len(matchers) > MOST_MATCHERS:
        errors.append(("matchers", f"give at most {MOST_MATCHERS}, with those of match"))
    elif not is_bounded(Matcher(one.name, one.op, one.value) for one in matchers):
        errors.append(("matchers", UNBOUNDED))
    if row.ends_at <= row.starts_at or row.ends_at <= now:
        errors.append(("ends_at", "must come after starts_at and after now"))
    elif row.ends_at - row.starts_at > MAX_SPAN:
        errors.append(
            ("ends_at", f"is more than {MAX_SPAN.days} days after starts_at: change the rules instead")
        )
    if errors:
        raise Problem(422, errors=errors)
