"""The few things that the console does: each a form of our own page, each what the API would do."""

from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Form, Request
from pydantic import ValidationError
from starlette.responses import RedirectResponse, Response

from master.api import jobs, pools
from master.console.render import HEADERS
from master.console.session import Acting, Refused, controller_of, local_path, services_of
from notifier.api import channels, deliveries

router = APIRouter(include_in_schema=False)

Next = Annotated[str, Form(max_length=500)]


@router.post("/jobs/{job_id}/stop")
def stop_job(request: Request, visitor: Acting, job_id: str, next: Next = "/") -> Response:  # noqa: A002
    jobs.stop(job_id, visitor.principal, services_of(request), controller_of(request))
    return _back(next)


@router.post("/nodes/{name}/isolate")
def isolate(request: Request, visitor: Acting, name: str, next: Next = "/nodes") -> Response:  # noqa: A002
    pools.isolate(name, visitor.principal, services_of(request), controller_of(request))
    return _back(next)


@router.post("/nodes/{name}/restore")
def restore(request: Request, visitor: Acting, name: str, next: Next = "/nodes") -> Response:  # noqa: A002
    pools.restore(name, visitor.principal, services_of(request), controller_of(request))
    return _back(next)


@router.post("/deliveries/resend")
def resend_all(request: Request, visitor: Acting, filters: Annotated[str, Form(max_length=2000)]) -> Response:
    """Leads to what is under way now. `filters`: those whose count was shown, as a query."""
    try:
        asked = deliveries.FilterBody(**dict(parse_qsl(filters)))
    except ValidationError:
        raise Refused(422, "bad_input") from None
    body = deliveries.BulkResendBody(filter=asked)
    deliveries.send_all_again(body, visitor.principal, services_of(request))
    return _back("/deliveries?state=pending")


@router.post("/deliveries/{delivery_id}/resend")
def resend(request: Request, visitor: Acting, delivery_id: str) -> Response:
    """Leads to the delivery that is sent now."""
    sent = deliveries.sent_again(delivery_id, visitor.principal, services_of(request))
    return _back(f"/deliveries/{sent.body['id']}")


@router.post("/channels/{name}/test")
def send_test(
    request: Request, visitor: Acting, name: str, scope: Annotated[str | None, Form(max_length=200)] = None
) -> Response:
    """Leads to what the provider said."""
    told = channels.try_out(name, visitor.principal, services_of(request), scope)
    return _back(f"/deliveries/{told.delivery_id}")


def _back(path: str) -> Response:
    return RedirectResponse(local_path(path), 303, HEADERS)
