"""All routes of the notifier, and what makes an app answer in its manner."""

from fastapi import FastAPI

from notifier.api import ackpage, alerts, channels, deliveries, oncall, rules, silences, templates, tokens
from notifier.api.deps import Services
from notifier.api.edge import Edge
from notifier.api.openapi import describe
from notifier.api.refusals import answers_problems

PARTS = (alerts, channels, deliveries, oncall, rules, silences, templates, tokens, ackpage)


def mount(app: FastAPI, services: Services) -> None:
    """Puts the notifier into `app`: routes, problem documents, the edge, the OpenAPI document."""
    app.state.services = services
    for part in PARTS:
        app.router.routes += part.router.routes  # `include_router` would analyse each a second and third time
    app.add_middleware(Edge)
    answers_problems(app)
    describe(app)
