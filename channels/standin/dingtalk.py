"""Plays DingTalk's robots: always HTTP 200, the truth is in `errcode`."""

import base64
import hmac
import re

from channels.standin.robots import Reply, Request, Robot, Window, text_of

PATH = re.compile(r"/robot/send")
WINDOWS = (Window(20, 60.0, penalty_s=600.0),)
MAX_BODY = 20000
HOUR_MS = 3_600_000


def token(request: Request) -> str:
    return request.query.get("access_token", "")


def stranger(request: Request) -> Reply:
    """For a token that nobody registered."""
    if not token(request):
        return _no(40035, "缺少参数 access_token")
    return _no(300005, "token is not exist")


def judge(request: Request, robot: Robot, now: float) -> Reply:
    refusal = _refusal(request, robot, now)
    return refusal if refusal is not None else _accept(request)


def _refusal(request: Request, robot: Robot, now: float) -> Reply | None:
    if request.method != "POST":
        return _no(43002, "需要POST请求")
    if robot.meter.over(now):
        return _no(130101, "send too fast, exceed 20 times per minute")
    if not request.headers.get("content-type", "").startswith("application/json"):
        return _no(43004, "无效的HTTP HEADER Content-Type")
    if len(request.body) > MAX_BODY:
        return _no(460101, "message too long, exceed 20000 bytes")
    body = request.json()
    if body is None:
        return _no(40035, "不合法的参数")
    return _unsafe(request, robot, now) or _malformed(body)


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
    if kind not in ("text", "markdown") or not isinstance(form, dict):
        return _no(400105, "不支持的消息类型")
    wanted = {"text": ("content",), "markdown": ("title", "text")}[str(kind)]
    missing = next((name for name in wanted if not form.get(name)), None)
    code = 400402 if missing == "title" else 400403
    return _no(code, f"miss param : {kind}->{missing}") if missing else None


def _accept(request: Request) -> Reply:
    body = request.json() or {}
    kind = body["msgtype"]
    title = body[kind].get("title", "")
    text = body[kind]["text" if kind == "markdown" else "content"]
    at = body.get("at") or {}
    named = [*at.get("atMobiles", ()), *at.get("atUserIds", ())]
    # A markdown message notifies only those whom its text names as well.
    called = [who for who in named if kind == "text" or f"@{who}" in text]
    called += ["all"] if at.get("isAtAll") else []
    return Reply(
        {"errcode": 0, "errmsg": "ok"}, code="0", is_accepted=True,
        title=title, text=text, called=tuple(called), id=str(body.get("msgUuid", "")),
    )  # fmt: skip


def _no(code: int, errmsg: str) -> Reply:
    return Reply({"errcode": code, "errmsg": errmsg}, code=str(code))
