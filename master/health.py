"""`/healthz`: the process lives. `/readyz`: it can do its work. `/metrics`: figures for Prometheus."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, replace

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError

from master.checks import Check, look
from master.controller import Controller
from master.figures import Training
from notifier.api.deps import READERS, Services, entitled
from notifier.auth import Role, authenticate
from notifier.clock import utcnow
from notifier.exposition import exposition

KEPT_S = 1.0  # anybody may ask, and a look writes to the database: it is shared for so long
PATIENCE_S = 5.0  # with a look
LATE = [Check("database", ok=False, needed=True, detail="does not answer in time")]

router = APIRouter(include_in_schema=False)


class Health:
    """The last look, and a new one when that is old: one at a time, in a thread of its own, for all."""

    def __init__(self, look: Callable[[], list[Check]]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._current: Future[list[Check]] | None = None
        self._looked_at = float("-inf")

    def checks(self) -> list[Check]:
        """Waits in the caller's thread."""
        try:
            return self._looking().result(PATIENCE_S)
        except TimeoutError:
            return LATE

    async def soon(self) -> list[Check]:
        """Waits in the event loop: it asks for none of the threads that others may keep waiting."""
        looking = asyncio.wrap_future(self._looking())
        looking.add_done_callback(lambda one: one.cancelled() or one.exception())  # though nobody waits
        done, _ = await asyncio.wait([looking], timeout=PATIENCE_S)
        return looking.result() if done else LATE

    def _looking(self) -> Future[list[Check]]:
        """The look that is under way, the last one while it is fresh, or else a new one."""
        with self._lock:
            current = self._current
            is_old = current is not None and current.done() and time.monotonic() - self._looked_at > KEPT_S
            if current is None or is_old:
                current = Future()
                threading.Thread(target=self._run, args=(current,), name="health", daemon=True).start()
                self._current = current
            return current

    def _run(self, current: Future[list[Check]]) -> None:
        try:
            found = self._look()
        except BaseException as error:  # noqa: BLE001  a border: whoever asks gets it
            self._looked_at = time.monotonic()
            current.set_exception(error)
        else:
            self._looked_at = time.monotonic()
            current.set_result(found)


def mount(app: FastAPI, services: Services, controller: Controller) -> Health:
    """The three pages; answers what `/readyz` is made of."""
    health = Health(lambda: _apart(services, controller))
    app.state.health = health
    app.router.routes += router.routes
    return health


def _apart(services: Services, controller: Controller) -> list[Check]:
    """By a connection of its own: those of the pool may all be at others' work."""
    store = services.store.alike()
    try:
        return look(replace(services, store=store), controller)
    finally:
        store.engine.dispose()


@router.get("/healthz")
async def healthz() -> PlainTextResponse:  # so that it is answered while all threads wait for the database
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def readyz(request: Request) -> JSONResponse:  # as above
    health: Health = request.app.state.health
    checks = await health.soon()
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
    """Nobody needs a token here, but whoever sends a void one is told so, instead of missing something.

    Raises:
        Problem: 401.
    """
    given = request.headers.get("authorization")
    if given is None:
        return False
    try:
        with services.store.read() as session:
            found = entitled(
                authenticate(session, given.removeprefix("Bearer ").strip(), utcnow()), tuple(Role)
            )
    except SQLAlchemyError:
        return False
    return found.pool is None and found.role in READERS
