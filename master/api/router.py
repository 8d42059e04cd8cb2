"""All routes of the master."""

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from master.api import events, ingest, insight, jobs, pools, reports
from master.controller import Controller
from master.runtimes.base import RuntimeFailure
from notifier.api.openapi import PREFIX
from notifier.problems import Problem

router = APIRouter(prefix=PREFIX)
for part in (jobs, insight, events, pools, reports, ingest):
    router.include_router(part.router)


def mount(app: FastAPI, controller: Controller) -> None:
    """Puts the master into an app that holds the notifier already."""
    app.state.controller = controller
    app.include_router(router)
    app.add_exception_handler(RuntimeFailure, _runtime_failed)


async def _runtime_failed(_request: Request, error: Exception) -> Response:
    """What the runtime could not do just now; it says why."""
    return Problem(409, detail=str(error)).response()
