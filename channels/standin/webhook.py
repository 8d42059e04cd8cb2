"""Plays a user's own receiver: it checks the signature with the Standard Webhooks library."""

import re
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from channels.standin.robots import Reply, Request, Robot, Window

PATH = re.compile(r"/webhook/(?P<token>[\w.-]+)")
WINDOWS: tuple[Window, ...] = ()


def token(request: Request) -> str:
    found = PATH.fullmatch(request.path)
    return found["token"] if found else ""


def stranger(request: Request) -> Reply:  # noqa: ARG001  whatever it holds, nobody listens here
    return Reply({"error": "no such receiver"}, status=404, code="404")


def judge(request: Request, robot: Robot, now: float) -> Reply:  # noqa: ARG001  the library has its own clock
    if robot.secret is not None:
        try:
            Webhook(robot.secret).verify(request.body, dict(request.headers))
        except WebhookVerificationError as error:
            return Reply({"error": str(error)}, status=401, code="401")
    body = request.json()
    if body is None:
        return Reply({"error": "not a JSON object"}, status=400, code="400")
    title, text = _told(body)
    return Reply(
        {"ok": True}, code="200", is_accepted=True, id=request.headers.get("webhook-id", ""),
        title=title, text=text,
    )  # fmt: skip


def _told(body: dict[str, Any]) -> tuple[str, str]:
    """Title and text, wherever the three formats have them."""
    if body.get("version") == "4":
        notes = [one["annotations"] for one in body["alerts"]]
        return notes[0]["summary"], "\n".join(note["description"] for note in notes)
    told = body.get("data", body)
    return str(told.get("title", "")), str(told.get("text", ""))
