"""The one FastAPI app of a server: the notifier's routes, the master's, health and the console."""

from importlib.metadata import version

from fastapi import FastAPI

from master import health
from master.console.app import mount_console
from notifier.api.deps import Services
from notifier.api.router import mount

DESCRIPTION = "Keeps PyTorch training jobs alive and tells people what happened, on every channel they use."


def create_app(services: Services) -> FastAPI:
    """Everything that is served at one address."""
    app = FastAPI(
        title="Faultcast",
        version=version("faultcast"),
        description=DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    mount(app, services)
    app.include_router(health.router)
    mount_console(app, services)
    return app
