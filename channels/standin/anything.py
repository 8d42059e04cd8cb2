"""Plays a provider that takes whatever it is sent: for adapters whose provider nobody has written yet."""

import re
from urllib.parse import unquote_plus

from channels.standin.robots import Reply, Request, Robot, Window, text_of

PATH = re.compile(r"/any/(?P<token>[^/]+)(/.*)?")
WINDOWS: tuple[Window, ...] = ()


def token(request: Request) -> str:
    found = PATH.fullmatch(request.path)
    return found["token"] if found else ""


def stranger(request: Request) -> Reply:  # noqa: ARG001  whatever it holds, nobody listens here
    return Reply({"error": "not found"}, status=404, code="404")


def judge(request: Request, robot: Robot, now: float) -> Reply:  # noqa: ARG001  it has no limit
    text = text_of(request.json()) or unquote_plus(request.body.decode("utf-8", "replace"))
    return Reply(dict(robot.success), code="200", is_accepted=True, text=text)
