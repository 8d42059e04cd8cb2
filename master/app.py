"""The one FastAPI app of a server: the notifier's routes, the master's, health and the console."""

from importlib.metadata import version

from fastapi import FastAPI

from master import health
from master.api import router as master_api
from master.console.app import mount_console
from master.controller import Controller
from master.heads import Heads
from notifier.api import router as notifier_api
from notifier.api.deps import Services

DESCRIPTION = "Keeps PyTorch training jobs alive and tells people what happened, on every channel they use."


def create_app(services: Services, controller: Controller) -> FastAPI:
    """Everything that is served at one address."""
    app = FastAPI(
        title="Faultcast",
        version=version("faultcast"),
        description=DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    notifier_api.mount(app, services)
    master_api.mount(app, controller)
    health.mount(app, services, controller)
    mount_console(app, services, controller)
    app.add_middleware(Heads)
    return app
