"""The plain `GET /deliveries` goes past the web framework, whose part was nearly half of a page's time.

Only what is sure to be well goes here, as with alerts (`direct`): whatever else is asked, and whoever is not
known, goes the framework's way, which has the words for it. A token is looked at on the same connection, in
the same thread.
"""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl

from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from notifier import deliveries
from notifier.api.deliveries import FilterBody
from notifier.api.deps import READERS, Services, bearer
from notifier.api.openapi import PREFIX
from notifier.auth import authenticate
from notifier.clock import utcnow
from notifier.deliveries import Filters
from notifier.documents import WholeText
from notifier.pages import DEFAULT_LIMIT, MAX_LIMIT, Ask

PATH = f"{PREFIX}/deliveries"


class _Query(FilterBody):
    """All that the list takes."""

    limit: Annotated[WholeText, Field(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT
    cursor: Annotated[str | None, Field(max_length=100)] = None


async def answer(scope: Scope) -> Response | None:
    """None: it is not for us, and nothing was done. Raises what a route would."""
    if scope["path"] != PATH or scope["method"] != "GET":
        return None
    token, query = bearer(Headers(scope=scope)), _query(scope["query_string"])
    if query is None or token is None:
        return None
    filters = Filters(**{name: getattr(query, name) for name in FilterBody.model_fields})
    ask, services = Ask(query.limit, query.cursor), scope["app"].state.services
    text = await run_in_threadpool(_listed, services, token, filters, ask)
    return None if text is None else Response(text, media_type="application/json")


def _listed(services: Services, token: str, filters: Filters, ask: Ask) -> str | None:
    with services.store.look() as session:
        principal = authenticate(session.connection(), token, utcnow())
        if principal is None or principal.role not in READERS:
            return None
        return deliveries.listed_as_json(session, principal, filters, ask)


def _query(text: bytes) -> _Query | None:
    """None: something in it is not as it should be, or stands there twice."""
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, strict_parsing=bool(text))
        given: Mapping[str, Any] = dict(pairs)
        return _Query.model_validate(given) if len(given) == len(pairs) else None
    except (ValueError, ValidationError):
        return None
