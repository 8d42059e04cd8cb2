"""All routes of the master."""

from fastapi import FastAPI, Request
from starlette.responses import Response

from master.api import events, ingest, injections, insight, jobs, pools, reports
from master.controller import Controller
from master.runtimes.base import RuntimeFailure
from notifier.api.refusals import answer
from notifier.problems import Problem

PARTS = (jobs, insight, injections, events, pools, reports, ingest)


def mount(app: FastAPI, controller: Controller) -> None:
    """Puts the master into an app that holds the notifier already."""
    app.state.controller = controller
    for part in PARTS:
        app.router.routes += part.router.routes
    app.add_exception_handler(RuntimeFailure, _runtime_failed)


async def _runtime_failed(_request: Request, error: Exception) -> Response:
    """What the runtime could not do just now; it says why."""
    return answer(Problem(409, detail=str(error)))
