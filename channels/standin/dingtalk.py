"""Plays DingTalk's robots: always HTTP 200, the truth is in `errcode`."""

import base64
import hmac
import re
from collections.abc import Iterator
from typing import Any

from channels.standin.robots import Reply, Request, Robot, Window, text_of

PATH = re.compile(r"/robot/send")
WINDOWS = (Window(20, 60.0, penalty_s=600.0),)
MAX_BODY = 20000
HOUR_MS = 3_600_000
WANTED = {
    "text": ("content",),
    "markdown": ("title", "text"),
    "link": ("title", "text", "messageUrl"),
    "actionCard": ("title", "text"),
    "feedCard": ("links",),
}
BUTTON, FEED = ("title", "actionURL"), ("title", "messageURL", "picURL")
CALLING = ("text", "markdown")  # no other form calls anybody


def token(request: Request) -> str:
    return request.query.get("access_token", "")


def stranger(request: Request) -> Reply:
    """For a token that nobody registered."""
    if not token(request):
        return _no(40035, "缺少参数 access_token")
    return _no(300005, "token is not exist")


def judge(request: Request, robot: Robot, now: float) -> Reply:
    refusal = _refusal(request, robot, now)
    if refusal is None and robot.quota is not None:
        robot.quota -= 1
    return refusal if refusal is not None else _accept(request)


def _refusal(request: Request, robot: Robot, now: float) -> Reply | None:
    if request.method != "POST":
        return _no(43002, "需要POST请求")
    if (spent := _spent(robot, now)) is not None:
        return spent
    if not request.headers.get("content-type", "").startswith("application/json"):
        return _no(43004, "无效的HTTP HEADER Content-Type")
    if len(request.body) > MAX_BODY:
        return _no(460101, "message too long, exceed 20000 bytes")
    body = request.json()
    if body is None:
        return _no(40035, "不合法的参数")
    return _unsafe(request, robot, now) or _malformed(body)


def _spent(robot: Robot, now: float) -> Reply | None:
    if robot.meter.over(now):
        return _no(130101, "send too fast, exceed 20 times per minute")
    return _no(90030, "webhook over limit") if robot.quota == 0 else None


def _unsafe(request: Request, robot: Robot, now: float) -> Reply | None:
    if robot.secret is not None:
        stamp = request.query.get("timestamp", "")
        if not stamp.isdigit() or abs(int(stamp) - now * 1000) > HOUR_MS:
            return _no(310000, "invalid timestamp")
        digest = hmac.new(robot.secret.encode(), f"{stamp}\n{robot.secret}".encode(), "sha256").digest()
        if request.query.get("sign") != base64.b64encode(digest).decode():
            return _no(310000, "sign not match")
    if robot.keyword is not None and robot.keyword not in text_of(request.json()):
        return _no(310000, "keywords not in content")
    return None


def _malformed(body: dict[str, object]) -> Reply | None:
    kind = body.get("msgtype")
    form = body.get(str(kind))
    if kind not in WANTED or not isinstance(form, dict):
        return _no(400105, "不支持的消息类型")
    missing = next(_missing(str(kind), form), None)
    code = 400402 if missing == "title" else 400403
    return _no(code, f"miss param : {kind}->{missing}") if missing else None


def _missing(kind: str, form: dict[str, Any]) -> Iterator[str]:
    """What the form lacks; a card has either one button or a list of them."""
    yield from (name for name in WANTED[kind] if not form.get(name))
    if kind == "actionCard":
        buttons = form.get("btns")
        if buttons is None:
            yield from (name for name in ("singleTitle", "singleURL") if not form.get(name))
        else:
            yield from _each("btns", buttons, BUTTON)
    if kind == "feedCard":
        yield from _each("links", form["links"], FEED)


def _each(name: str, given: object, wanted: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(given, list) or not given:
        yield name
        return
    for one in given:
        yield from (f"{name}->{field}" for field in wanted if not isinstance(one, dict) or not one.get(field))


def _accept(request: Request) -> Reply:
    body = request.json() or {}
    kind = body["msgtype"]
    form = body[kind]
    title, text = (
        form.get("title", ""),
        "\n\n".join([form.get("content") or form.get("text", ""), *_links(form)]),
    )
    at = (body.get("at") or {}) if kind in CALLING else {}
    named = [*at.get("atMobiles", ()), *at.get("atUserIds", ())]
    # A markdown message notifies only those whom its text names as well.
    called = [who for who in named if kind == "text" or f"@{who}" in text]
    called += ["all"] if at.get("isAtAll") else []
    return Reply(
        {"errcode": 0, "errmsg": "ok"}, code="0", is_accepted=True,
        title=title, text=text, called=tuple(called), id=str(body.get("msgUuid", "")),
    )  # fmt: skip


def _links(form: dict[str, Any]) -> list[str]:
    """Buttons and links as people may press them."""
    one = (
        [(form["singleTitle"], form["singleURL"])] if form.get("singleTitle") and not form.get("btns") else []
    )
    one += [("", form["messageUrl"])] if form.get("messageUrl") else []
    one += [(button["title"], button["actionURL"]) for button in form.get("btns") or ()]
    one += [(link["title"], link["messageURL"]) for link in form.get("links") or ()]
    return [f"[{title}]({url})" for title, url in one]


def _no(code: int, errmsg: str) -> Reply:
    return Reply({"errcode": code, "errmsg": errmsg}, code=str(code))
