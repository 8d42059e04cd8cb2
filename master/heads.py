"""HEAD for every page: what GET answers, without its body. What the API takes its routes say themselves."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

API = "/api/"


class Heads:
    """ASGI middleware: monitors and load balancers ask so whether somebody is there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(API):
            await self._app(scope, receive, send)
            return

        async def bodiless(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, bodiless)
