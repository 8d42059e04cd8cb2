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
TYPES = ("text", "post", "interactive", "share_chat", "image")
FIELDS = {"text": "text", "post": "post", "share_chat": "share_chat_id", "image": "image_key"}


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
        return _bad_card(body.get("card"))
    content = body.get("content")
    if not isinstance(content, dict) or not content.get(FIELDS[kind]):
        return _no(19002, f"params error, content->{FIELDS[kind]} need")
    if kind == "post" and not all(_is_post(one) for one in dict(content["post"]).values()):
        return _no(19002, "params error, content->post need")
    return None


def _bad_card(card: object) -> Reply | None:
    """Form 1.0 has its elements at the top; form 2.0 says so and has them in a body."""
    is_new = isinstance(card, dict) and card.get("schema") == "2.0"
    holder = card.get("body") if isinstance(card, dict) and is_new else card
    if isinstance(holder, dict) and isinstance(holder.get("elements"), list):
        return None
    code = 200621 if is_new else 11246
    return _no(code, "parse card json err, please check whether the card json is correct")


def _is_post(one: object) -> bool:
    lines = one.get("content") if isinstance(one, dict) else None
    return isinstance(lines, list) and all(isinstance(line, list) for line in lines)


def _accept(body: dict[str, Any]) -> Reply:
    if body["msg_type"] == "text":
        title, text = "", str(body["content"]["text"])
        called = re.findall(r'<at user_id="([\w.@-]+)">', text)
    elif body["msg_type"] == "post":
        title, text, called = _post(next(iter(body["content"]["post"].values())))
    elif body["msg_type"] != "interactive":
        title, text, called = "", text_of(body["content"]), []
    else:
        title = text_of(body["card"].get("header", {}).get("title", {}).get("content"))
        elements = body["card"].get("body", body["card"])["elements"]
        text = "\n".join(_words(one) for one in elements)
        called = re.findall(r"<at id=([\w.@-]+)>", text)
    success = {"StatusCode": 0, "StatusMessage": "success", "code": 0, "data": {}, "msg": "success"}
    return Reply(success, code="0", is_accepted=True, title=title, text=text, called=tuple(called))


def _post(post: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Title, text, and who is called, of a text in lines of pieces."""
    pieces = [piece for line in post["content"] for piece in line]
    lines = ("".join(str(piece.get("text", "")) for piece in line) for line in post["content"])
    called = [str(piece.get("user_id")) for piece in pieces if piece.get("tag") == "at"]
    return str(post.get("title", "")), "\n".join(lines), called


def _words(element: Any) -> str:
    """All that a card's element shows, from top to bottom; a button as a link."""
    if isinstance(element, list):
        return "\n".join(_words(one) for one in element)
    if not isinstance(element, dict):
        return ""
    if element.get("tag") == "button":
        return f"[{_words(element.get('text'))}]({element.get('url')})"
    shown = [str(element["content"])] if element.get("content") else []
    inside = (_words(element.get(name)) for name in ("text", "fields", "actions", "elements"))
    return "\n".join([*shown, *(words for words in inside if words)])


def _no(code: int, msg: str, status: int = 200) -> Reply:
    return Reply({"code": code, "msg": msg, "data": {}}, status=status, code=str(code))
