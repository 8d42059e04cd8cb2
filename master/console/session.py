"""Who looks at the console: a token in a cookie, and forms that only our own pages can send."""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Form, Request
from starlette.responses import Response

from master.console.words import LANGUAGES, Translate, translator
from master.controller import Controller
from notifier.api.deps import Services
from notifier.api.queries import check_query
from notifier.auth import Principal, Role, authenticate
from notifier.clock import utcnow

COOKIE = "faultcast_session"
LANGUAGE_COOKIE = "faultcast_language"
AGE_S = 12 * 3600
LANGUAGE_AGE_S = 365 * 86400
ROLES = frozenset({Role.ADMIN, Role.OPERATOR, Role.VIEWER})
ACTING = frozenset({Role.ADMIN, Role.OPERATOR})


class SignInFirst(Exception):  # noqa: N818  nothing is wrong: the visitor has yet to say who they are
    """Leads to the login page and back."""

    def __init__(self, back: str) -> None:
        super().__init__(back)
        self.back = back


class Refused(Exception):  # noqa: N818  as above
    """A page that says no. `word` names the sentence."""

    def __init__(self, status: int, word: str) -> None:
        super().__init__(word)
        self.status, self.word = status, word


@dataclass(frozen=True)
class Visitor:
    """Who is signed in. `csrf` stands in every form of theirs."""

    principal: Principal
    csrf: str

    @property
    def may_act(self) -> bool:
        return self.principal.role in ACTING


def services_of(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def controller_of(request: Request) -> Controller:
    controller: Controller = request.app.state.controller
    return controller


def signed_in(request: Request) -> Visitor:
    token = request.cookies.get(COOKIE, "")
    principal = authenticated(request, token)
    if principal is None or principal.role not in ROLES:
        raise SignInFirst(_here(request))
    check_query(request)  # here, for every page asks who looks
    return Visitor(principal, csrf_of(token))


def authenticated(request: Request, token: str) -> Principal | None:
    with services_of(request).store.read() as session:
        return authenticate(session, token, utcnow())


def acting(request: Request, csrf: Annotated[str, Form(max_length=200)] = "") -> Visitor:
    """Who sends a form: signed in, of a role that may act, and from one of our own pages."""
    visitor = signed_in(request)
    check_form(request, visitor, csrf)
    if not visitor.may_act:
        raise Refused(403, "forbidden")
    return visitor


def check_form(request: Request, visitor: Visitor, csrf: str) -> None:
    """The form came from one of our own pages, made for this session."""
    check_origin(request)
    if not hmac.compare_digest(csrf.encode(), visitor.csrf.encode()):
        raise Refused(403, "stale_form")


def check_origin(request: Request) -> None:
    """A form posted from another site says so (every browser sends Origin with a POST)."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in {"same-origin", "none"}:
        raise Refused(403, "stale_form")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise Refused(403, "stale_form")


def csrf_of(token: str) -> str:
    """Derived from the token: it lives as long as the session does and needs no store."""
    return hmac.new(token.encode(), b"faultcast console form", hashlib.sha256).hexdigest()


def sign_in(response: Response, token: str, *, is_secure: bool) -> None:
    response.set_cookie(COOKIE, token, max_age=AGE_S, httponly=True, samesite="lax", secure=is_secure)


def sign_out(response: Response) -> None:
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")


def language_of(request: Request) -> str:
    """The one chosen here, else the browser's if we speak it, else the operator's."""
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return chosen
    for wish in request.headers.get("accept-language", "").split(","):
        tag = wish.partition(";")[0].strip().lower()[:2]
        if tag in LANGUAGES:
            return tag
    return services_of(request).settings.language


def words_of(request: Request) -> Translate:
    return translator(language_of(request))


def local_path(path: str) -> str:
    """A path of this console, whatever was asked for: never another site's."""
    parts = urlsplit(path)
    is_ours = (
        path.startswith("/") and not path.startswith(("//", "/\\")) and not (parts.scheme or parts.netloc)
    )
    return path if is_ours and path.isprintable() and "\\" not in path else "/"


def _here(request: Request) -> str:
    if request.method != "GET":
        return "/"
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


SignedIn = Annotated[Visitor, Depends(signed_in)]
Acting = Annotated[Visitor, Depends(acting)]
