"""Users' own templates: kept, checked before they are kept, and found for a delivery.

The one that says most exactly what it is for wins: a queue's before its pool's, then by channel, by item, by
language. A template for all items is for single alerts; a digest has the item `digest` of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import bindparam, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from channels import escaping
from notifier import templating
from notifier.auth import Principal
from notifier.documents import Body, ChannelName, Document, Moment, Scope, one_of, scope_of
from notifier.ids import new_id
from notifier.items import ITEMS
from notifier.model import Delivery, Template
from notifier.pages import Ask, Page, page
from notifier.problems import conflict, invalid, not_found
from notifier.rendering import OwnWords
from notifier.samples import DIGEST, sample_facts

MAX_SOURCE = 20_000
MAX_TITLE_SOURCE = 2000
LANGUAGES = ("zh", "en")
_OF_POOLS = select(Template).where(Template.pool.in_(bindparam("pools", expanding=True)))

Language = Literal["zh", "en"] | None
TemplateItem = Annotated[str, *one_of((*ITEMS, DIGEST))] | None


class TemplateBody(Body):
    """Words of one's own. What is left out, is for all: channels, items, languages."""

    scope: Scope | None = None
    channel: ChannelName | None = None
    item: TemplateItem = Field(default=None, description="`digest`: for messages that tell several alerts")
    language: Language = None
    title: Annotated[str, Field(max_length=MAX_TITLE_SOURCE)] = Field(
        default="", description="Jinja; empty: the built-in title"
    )
    text: Annotated[str, Field(min_length=1, max_length=MAX_SOURCE)] = Field(
        description="Jinja over the facts, in the channel's own format", examples=["{{ what }}: {{ job }}"]
    )


class TemplateDocument(Document):
    id: str
    scope: str
    channel: str | None
    item: str | None
    language: str | None
    title: str
    text: str
    created_at: Moment


@dataclass(frozen=True)
class Candidate:
    """A template that is for a delivery, but for its language. `rank`: the higher wins."""

    language: str
    rank: tuple[bool, bool, bool]
    words: OwnWords


def check(body: TemplateBody) -> None:
    """Tries the templates on a sample of each item that they are for. Holds no transaction.

    Raises:
        Problem: names `title` or `text`, the line, what is wrong and the mend (422).
    """
    given = {name: source for name, source in (("title", body.title), ("text", body.text)) if source}
    languages = (body.language,) if body.language else LANGUAGES
    for item in (body.item,) if body.item else tuple(ITEMS):
        for language in languages:
            for facts in sample_facts(item, language):
                _check_one(given, item, templating.fill(given, facts, is_strict=True))


def check_template(source: str) -> str | None:
    """What is wrong with one template over the facts; None: nothing."""
    for item in ITEMS:
        for facts in sample_facts(item, LANGUAGES[0]):
            for fault in templating.fill({"": source}, facts, is_strict=True).faults.values():
                return str(fault)
    return None


def _check_one(given: Mapping[str, str], item: str, filled: templating.Filled) -> None:
    for name in given:
        if name in filled.faults:
            raise invalid(name, f"{filled.faults[name]} (tried on a sample of {item})")
    if not templating.written(filled.texts["text"], str).strip():
        mend = "say something for it too, or name the item that the template is for"
        raise invalid("text", f"gives no text for a sample of {item}: {mend}")


def create(session: Session, body: TemplateBody, scope: tuple[str, str], now: datetime) -> Template:
    """The new row.

    Raises:
        Problem: there is one for the very same already (409).
    """
    row = Template(
        id=new_id("tpl", now),
        pool=scope[0],
        queue=scope[1],
        channel=body.channel or "",
        item=body.item or "",
        language=body.language or "",
        title=escaping.clean(body.title),
        text=escaping.clean(body.text),
        created_at=now,
    )
    session.add(row)
    try:
        session.flush()
    except IntegrityError:
        where = scope_of(*scope)
        raise conflict(
            f"{where} already has a template for this channel, item and language; delete it first"
        ) from None
    return row


def find(session: Session, principal: Principal, template_id: str) -> Template:
    """Raises a problem (404) if there is none, or none within the principal's reach."""
    row = session.get(Template, template_id)
    if row is None or not principal.covers(row.pool, row.queue):
        raise not_found("template", template_id)
    return row


def listed(session: Session, principal: Principal, ask: Ask) -> Page[Template]:
    rows = select(Template).where(principal.only(Template.pool, Template.queue))
    return page(session, rows, Template.id, ask)


def document(row: Template) -> TemplateDocument:
    return TemplateDocument(
        id=row.id,
        scope=scope_of(row.pool, row.queue),
        channel=row.channel or None,
        item=row.item or None,
        language=row.language or None,
        title=row.title,
        text=row.text,
        created_at=row.created_at,
    )


def candidates(session: Session, rows: Sequence[Delivery]) -> Mapping[str, tuple[Candidate, ...]]:
    """The templates that are for these deliveries, by delivery, read in one go."""
    known = session.scalars(_OF_POOLS, {"pools": sorted({row.pool for row in rows})}).all()
    if not known:
        return {}
    return {row.id: tuple(_candidates(known, row)) for row in rows}


def pick(found: Sequence[Candidate], language: str) -> OwnWords | None:
    """The most specific of them in that language; nothing if there is none."""
    fitting = [one for one in found if one.language in ("", language)]
    return max(fitting, key=lambda one: (*one.rank, bool(one.language))).words if fitting else None


def _candidates(known: Iterable[Template], row: Delivery) -> Iterable[Candidate]:
    items = (DIGEST,) if row.is_digest else ("", row.item)
    for one in known:
        is_near = one.pool == row.pool and one.queue in ("", row.queue) and one.channel in ("", row.channel)
        if is_near and one.item in items:
            rank = (bool(one.queue), bool(one.channel), bool(one.item))
            yield Candidate(one.language, rank, OwnWords(one.title, one.text))
