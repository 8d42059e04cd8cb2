"""`/templates`: words of one's own, checked when they are saved and to be looked at before."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy.orm import Session

from channels.registry import ADAPTERS
from notifier import channels, usertemplates
from notifier.api.deps import Asked, IdempotencyKey, Operator, Reader, Served, answered
from notifier.api.openapi import PREFIX
from notifier.auth import Principal
from notifier.clock import utcnow
from notifier.directory import check_scope
from notifier.documents import Document, Listed, scope_of
from notifier.idempotency import Answer, Call, once
from notifier.lookup import lookup
from notifier.problems import invalid
from notifier.rendering import OwnWords, render, render_digest
from notifier.samples import DIGEST, sample
from notifier.usertemplates import TemplateBody, TemplateDocument

router = APIRouter(prefix=f"{PREFIX}/templates", tags=["templates"])
Ident = Annotated[str, Path()]
USUAL = "dingtalk"


class PreviewBody(TemplateBody):
    """A template to be looked at. Without `kind` it is shown as its channel would get it, or DingTalk."""

    kind: Annotated[str, Field(max_length=32, examples=["dingtalk"])] | None = None


class PreviewDocument(Document):
    title: str
    text: str
    format: str = Field(description="of `text`, as the channel's kind wants it")
    error: str | None = Field(description="why the built-in words are shown instead")


@router.post("", status_code=201, response_model=TemplateDocument)
def create(
    body: TemplateBody, principal: Operator, services: Served, key: IdempotencyKey = None
) -> JSONResponse:
    """422 names the field and the line of what is wrong with a template."""
    now = utcnow()
    scope = channels.own_scope(principal, body.scope)
    usertemplates.check(body)
    call = Call(principal.token_id, key, "/templates", body.model_dump(mode="json"), now)
    with services.store.write() as session:

        def work() -> Answer:
            check_scope(session, services.directory, body.scope)
            row = usertemplates.create(session, body, scope, now)
            return Answer(201, usertemplates.document(row).model_dump(mode="json"))

        answer = once(session, services.box, call, work)
    return answered(answer)


@router.get("")
def list_templates(principal: Reader, services: Served, ask: Asked) -> Listed[TemplateDocument]:
    with services.store.read() as session:
        found = usertemplates.listed(session, principal, ask)
        items = [usertemplates.document(row) for row in found.rows]
    return Listed(items=items, next_cursor=found.next_cursor)


@router.post("/preview")
def preview(body: PreviewBody, principal: Reader, services: Served) -> PreviewDocument:
    """How a template that need not be kept tells a sample of its item (`jobFT` if it is for all)."""
    with services.store.read() as session:
        kind = body.kind or _kind_of(session, principal, body)
    if kind not in ADAPTERS:
        raise invalid("kind", f"there is no such kind of channel; give one of {', '.join(ADAPTERS)}")
    adapter, own = ADAPTERS[kind], OwnWords(body.title, body.text)
    language = body.language or services.settings.language
    how = (adapter, language, services.settings.timezone, services.settings.public_url, own)
    view = sample(body.item or "jobFT", language)
    if body.item == DIGEST:
        rendered = render_digest([sample("jobRunning", language), view], view.delivery_id, *how)
    else:
        rendered = render(view, *how)
    message = rendered.message
    return PreviewDocument(
        title=message.title,
        text=message.html or message.text,
        format=adapter.format,
        error=rendered.template_error,
    )


@router.get("/{template_id}")
def get(template_id: Ident, principal: Reader, services: Served) -> TemplateDocument:
    with services.store.read() as session:
        return usertemplates.document(usertemplates.find(session, principal, template_id))


@router.delete("/{template_id}", status_code=204)
def delete(template_id: Ident, principal: Operator, services: Served) -> Response:
    """From now on the built-in words are told again, or those of a less specific template."""
    with services.store.write() as session:
        session.delete(usertemplates.find(session, principal, template_id))
    return Response(status_code=204)


def _kind_of(session: Session, principal: Principal, body: PreviewBody) -> str:
    """Of the template's channel, where there is one of that name."""
    if body.channel is None:
        return USUAL
    pool, queue = channels.own_scope(principal, body.scope)
    found = lookup(session, pool, queue, {body.channel}).get(body.channel)
    if found is None:
        raise invalid(
            "channel", f"{scope_of(pool, queue)} has no channel {body.channel}; name one, or a kind"
        )
    return found.kind
