"""All routes of the master."""

from fastapi import APIRouter, FastAPI

from master.api import events, insight, jobs, pools, reports
from master.controller import Controller
from notifier.api.openapi import PREFIX

router = APIRouter(prefix=PREFIX)
for part in (jobs, insight, events, pools, reports):
    router.include_router(part.router)


def mount(app: FastAPI, controller: Controller) -> None:
    """Puts the master into an app that holds the notifier already."""
    app.state.controller = controller
    app.include_router(router)
