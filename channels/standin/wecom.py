"""Plays WeCom's robots: always HTTP 200, no signature, limits in bytes of the content."""

import re

from channels.standin.robots import Reply, Request, Robot, Window

PATH = re.compile(r"/cgi-bin/webhook/send")
WINDOWS = (Window(20, 60.0),)
LIMITS = {"text": 2048, "markdown": 4096, "markdown_v2": 4096}


def token(request: Request) -> str:
    return request.query.get("key", "")


def stranger(request: Request) -> Reply:  # noqa: ARG001  whatever it holds, the key is wrong
    return _no(93000, "invalid webhook url, hint: [1700000000_1_0]")


def judge(request: Request, robot: Robot, now: float) -> Reply:
    if request.method != "POST":
        return _no(43002, "require POST method")
    if robot.meter.over(now):
        return _no(45009, "api freq out of limit")
    body = request.json()
    kind = "" if body is None else str(body.get("msgtype"))
    form = (body or {}).get(kind)
    if kind not in LIMITS or not isinstance(form, dict):
        return _no(40008, "invalid message type")
    content = form.get("content")
    if not isinstance(content, str) or not content.strip():
        return _no(44004, "empty content")
    if len(content.encode()) > LIMITS[kind]:
        return _no(40058, f"{kind}.content exceed max length {LIMITS[kind]}. invalid Request Parameter")
    return Reply(
        {"errcode": 0, "errmsg": "ok"}, code="0", is_accepted=True,
        text=content, called=_called(kind, form),
    )  # fmt: skip


def _called(kind: str, form: dict[str, object]) -> tuple[str, ...]:
    if kind == "markdown":  # neither @all nor phone numbers
        return tuple(
            who for who in re.findall(r"<@([\w.@-]+)>", str(form["content"])) if who not in ("all", "@all")
        )
    if kind == "text":
        lists = (form.get("mentioned_list"), form.get("mentioned_mobile_list"))
        return tuple(str(who) for found in lists if isinstance(found, list) for who in found)
    return ()


def _no(code: int, errmsg: str) -> Reply:
    return Reply({"errcode": code, "errmsg": errmsg}, code=str(code))
