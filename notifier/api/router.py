"""All routes of the notifier, and what makes an app answer in its manner."""

from fastapi import APIRouter, FastAPI

from notifier import problems
from notifier.api import ackpage, alerts, channels, deliveries, oncall, rules, silences, templates, tokens
from notifier.api.deps import Services
from notifier.api.edge import Edge
from notifier.api.openapi import PREFIX, describe

router = APIRouter(prefix=PREFIX)
for part in (alerts, channels, deliveries, oncall, rules, silences, templates, tokens):
    router.include_router(part.router)


def mount(app: FastAPI, services: Services) -> None:
    """Puts the notifier into `app`: routes, problem documents, the edge, the OpenAPI document."""
    app.state.services = services
    app.include_router(router)
    app.include_router(ackpage.router)
    app.add_middleware(Edge)
    problems.install(app)
    describe(app)
