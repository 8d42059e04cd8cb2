"""What no route has caught ends here, inside the server's own net: that one would log an error's words."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Border:
    """ASGI middleware. `answer` makes the response to an error of ours, and logs it without its words.

    Where a response has begun already, it breaks off and the connection is closed.
    """

    def __init__(self, app: ASGIApp, answer: Callable[[Request, BaseException], Awaitable[Response]]) -> None:
        self._app, self._answer = app, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  a border; no request ends us
            response = await self._answer(Request(scope), error)
            if not has_begun:
                await response(scope, receive, send)
