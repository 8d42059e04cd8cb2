"""`/healthz`: the process lives. `/readyz`: it can do its work. `/metrics`: figures for Prometheus."""

from dataclasses import asdict, dataclass
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from redis import RedisError
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from notifier.api.deps import Services
from notifier.doorbell import connect
from notifier.metrics import exposition
from notifier.migrations import head
from notifier.model import Delivery
from notifier.settle import OPEN

OVERDUE = timedelta(seconds=30)  # what waits for so long has no worker that cares for it

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Check:
    """One thing looked at. Only what is `needed` makes us unready."""

    name: str
    ok: bool
    needed: bool
    detail: str = ""


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


@router.get("/healthz")
def healthz() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    checks = look(_services(request))
    is_ready = all(check.ok for check in checks if check.needed)
    document = {"ready": is_ready, "checks": [asdict(check) for check in checks]}
    return JSONResponse(document, 200 if is_ready else 503)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    return Response(exposition(_services(request).store), media_type=CONTENT_TYPE_LATEST)


def look(services: Services) -> list[Check]:
    """Database, doorbell, workers. Without a doorbell alerts are a second late; that is no outage."""
    try:
        return [_database(services), _doorbell(services), _workers(services)]
    except SQLAlchemyError as error:
        return [Check("database", ok=False, needed=True, detail=type(error).__name__)]


def _database(services: Services) -> Check:
    with services.store.read() as session:
        revision = session.execute(text("select version_num from alembic_version")).scalar_one_or_none()
    if revision == head():
        return Check("database", ok=True, needed=True)
    return Check("database", ok=False, needed=True, detail=f"at revision {revision}: run faultcast migrate")


def _doorbell(services: Services) -> Check:
    url = services.settings.redis_url
    if url is None:
        return Check("doorbell", ok=True, needed=False, detail="none is set; workers look by themselves")
    client = connect(url.get_secret_value(), retries=0)
    try:
        client.ping()
    except (RedisError, OSError) as error:
        return Check("doorbell", ok=False, needed=False, detail=type(error).__name__)
    finally:
        client.close()
    return Check("doorbell", ok=True, needed=False)


def _workers(services: Services) -> Check:
    """Seen by what they leave undone: it holds for workers on any machine."""
    with services.store.read() as session:
        now = services.store.now(session)
        oldest = session.scalar(select(func.min(Delivery.next_attempt_at)).where(OPEN))
    if oldest is None or now - oldest < OVERDUE:
        return Check("workers", ok=True, needed=False)
    seconds = (now - oldest).total_seconds()
    return Check("workers", ok=False, needed=False, detail=f"a delivery is overdue by {seconds:.0f} s")
