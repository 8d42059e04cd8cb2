"""Plays Feishu's and Lark's robots: the signature in the body, the size of the whole request, two rates."""

import base64
import hashlib
import hmac
import re
from typing import Any

from channels.standin.robots import Reply, Request, Robot, Window, text_of

PATH = re.compile(r"/open-apis/bot/v2/hook/(?P<token>[^/]+)")
PER_SECOND, PER_MINUTE = Window(5, 1.0), Window(100, 60.0)
WINDOWS = (PER_SECOND, PER_MINUTE)
MAX_BODY = 20 * 1024
HOUR_S = 3600
TYPES = ("text", "post", "interactive")


def token(request: Request) -> str:
    found = PATH.fullmatch(request.path)
    return found["token"] if found else ""


def stranger(request: Request) -> Reply:  # noqa: ARG001  whatever it holds, the hook is wrong
    return _no(19001, "param invalid: incoming webhook access token invalid")


def judge(request: Request, robot: Robot, now: float) -> Reply:
    window = robot.meter.over(now)
    if window is PER_SECOND:
        return _no(9499, "too many request", status=400)
    if window is PER_MINUTE:
        return _no(11232, "frequency limited psm[lark.oapi.app_platform_runtime]appID[1500]")
    body = request.json()
    if request.method != "POST" or body is None or len(request.body) > MAX_BODY:
        return _no(9499, "Bad Request", status=400)
    return _unsafe(body, robot, now) or _malformed(body) or _accept(body)


def _unsafe(body: dict[str, Any], robot: Robot, now: float) -> Reply | None:
    if robot.secret is not None:
        stamp = str(body.get("timestamp", ""))
        key = f"{stamp}\n{robot.secret}".encode()
        right = base64.b64encode(hmac.new(key, digestmod=hashlib.sha256).digest()).decode()
        if not stamp.isdigit() or abs(int(stamp) - now) > HOUR_S or body.get("sign") != right:
            return _no(19021, "sign match fail or timestamp is not within one hour from current time")
    if robot.keyword is not None and robot.keyword not in text_of(body):
        return _no(19024, "Key Words Not Found")
    return None


def _malformed(body: dict[str, Any]) -> Reply | None:
    kind = body.get("msg_type")
    if kind not in TYPES:
        return _no(19002, "params error, msg_type need")
    if kind == "interactive":
        card = body.get("card")
        if not isinstance(card, dict) or not isinstance(card.get("elements"), list):
            return _no(11246, "parse card json err, please check whether the card json is correct")
        return None
    content = body.get("content")
    if not isinstance(content, dict) or not content.get("text"):
        return _no(19002, "params error, content need")
    return None


def _accept(body: dict[str, Any]) -> Reply:
    if body["msg_type"] == "text":
        title, text = "", str(body["content"]["text"])
        called = re.findall(r'<at user_id="([\w.@-]+)">', text)
    else:
        title = text_of(body["card"].get("header", {}).get("title", {}).get("content"))
        elements = body["card"]["elements"]
        text = "\n".join(str(one.get("text", {}).get("content", one.get("content", ""))) for one in elements)
        called = re.findall(r"<at id=([\w.@-]+)>", text)
    success = {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"}
    return Reply(success, code="0", is_accepted=True, title=title, text=text, called=tuple(called))


def _no(code: int, msg: str, status: int = 200) -> Reply:
    return Reply({"code": code, "msg": msg, "data": {}}, status=status, code=str(code))
