"""`/healthz`: the process lives. `/readyz`: it can do its work. `/metrics`: figures for Prometheus."""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from master.checks import Check, look
from master.controller import Controller
from master.figures import Training
from notifier.api.deps import Services
from notifier.auth import Role, authenticate
from notifier.clock import utcnow
from notifier.exposition import exposition

KEPT_S = 1.0  # anybody may ask, and a look writes to the database: it is shared for so long
PATIENCE_S = 5.0  # with a look that somebody else began
ROLES = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)

router = APIRouter(include_in_schema=False)


class Health:
    """The last look, and a new one when that is old. One look at a time."""

    def __init__(self, look: Callable[[], list[Check]]) -> None:
        self._look = look
        self._checks: list[Check] = []
        self._looked_at = float("-inf")
        self._looking = threading.Lock()

    def checks(self) -> list[Check]:
        if not self._looking.acquire(timeout=PATIENCE_S):
            return [Check("database", ok=False, needed=True, detail="does not answer in time")]
        try:
            if time.monotonic() - self._looked_at > KEPT_S:
                self._checks = self._look()
                self._looked_at = time.monotonic()
            return self._checks
        finally:
            self._looking.release()


def mount(app: FastAPI, services: Services, controller: Controller) -> Health:
    """The three pages; answers what `/readyz` is made of."""
    health = Health(lambda: look(services, controller))
    app.state.health = health
    app.router.routes += router.routes
    return health


@router.get("/healthz")
async def healthz() -> PlainTextResponse:  # so that it is answered while all threads wait for the database
    return PlainTextResponse("ok\n")


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    health: Health = request.app.state.health
    checks = health.checks()
    is_ready = all(check.ok for check in checks if check.needed)
    document = {"ready": is_ready, "checks": [asdict(check) for check in checks]}
    return JSONResponse(document, 200 if is_ready else 503)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    """Channels are named to whoever may see all of them (a token of no scope), and to nobody else."""
    services: Services = request.app.state.services
    shown = exposition(services.store, Training(services.store), names=_may_see_all(request, services))
    return Response(shown, media_type=CONTENT_TYPE_LATEST)


def _may_see_all(request: Request, services: Services) -> bool:
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not bearer:
        return False
    try:
        with services.store.read() as session:
            found = authenticate(session, bearer, utcnow())
    except SQLAlchemyError:
        return False
    return found is not None and found.pool is None and found.role in ROLES
