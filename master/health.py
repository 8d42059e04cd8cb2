"""`/healthz`: the process lives. `/readyz`: it can do its work. `/metrics`: figures for Prometheus."""

from dataclasses import asdict, dataclass

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from notifier.api.deps import Services
from notifier.migrations import head

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class Check:
    """One thing looked at. Only what is `needed` makes us unready."""

    name: str
    ok: bool
    needed: bool
    detail: str = ""


@router.get("/healthz")
def healthz() -> PlainTextResponse:
    return PlainTextResponse("ok\n")


@router.get("/readyz")
def readyz(request: Request) -> JSONResponse:
    services: Services = request.app.state.services
    checks = [_database(services)]
    is_ready = all(check.ok for check in checks if check.needed)
    document = {"ready": is_ready, "checks": [asdict(check) for check in checks]}
    return JSONResponse(document, 200 if is_ready else 503)


@router.get("/metrics")
def metrics() -> Response:
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


def _database(services: Services) -> Check:
    try:
        with services.store.read() as session:
            revision = session.execute(text("select version_num from alembic_version")).scalar_one_or_none()
    except SQLAlchemyError as error:
        return Check("database", ok=False, needed=True, detail=type(error).__name__)
    if revision != head():
        return Check(
            "database", ok=False, needed=True, detail=f"at revision {revision}: run faultcast migrate"
        )
    return Check("database", ok=True, needed=True)
