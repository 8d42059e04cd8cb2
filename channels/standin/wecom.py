"""Plays WeCom's robots: always HTTP 200, no signature, limits in bytes of the content."""

import base64
import binascii
import hashlib
import re
from typing import Any

from channels.standin.robots import Reply, Request, Robot, Window

PATH = re.compile(r"/cgi-bin/webhook/send")
WINDOWS = (Window(20, 60.0),)
LIMITS = {"text": 2048, "markdown": 4096, "markdown_v2": 4096}
MAX_ARTICLES, MAX_NEWS_TITLE, MAX_NEWS_TEXT = 8, 128, 512  # longer words of an article are cut by WeCom
MAX_IMAGE = 2 * 1024 * 1024


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
    if kind not in (*LIMITS, "news", "image") or not isinstance(form, dict):
        return _no(40008, "invalid message type")
    return _FORMS.get(kind, _words)(kind, form)


def _words(kind: str, form: dict[str, Any]) -> Reply:
    content = form.get("content")
    if not isinstance(content, str) or not content.strip():
        return _no(44004, "empty content")
    if len(content.encode()) > LIMITS[kind]:
        return _no(40058, f"{kind}.content exceed max length {LIMITS[kind]}. invalid Request Parameter")
    return _ok(content, _called(kind, form))


def _news(_kind: str, form: dict[str, Any]) -> Reply:
    articles = form.get("articles")
    if not isinstance(articles, list) or not 1 <= len(articles) <= MAX_ARTICLES:
        return _no(40058, "news.articles size out of limit. invalid Request Parameter")
    if not all(isinstance(one, dict) and one.get("title") and one.get("url") for one in articles):
        return _no(40058, "news.articles title or url missing. invalid Request Parameter")
    return _ok("\n".join(_article(one) for one in articles))


def _article(one: dict[str, Any]) -> str:
    title, text = _cut(one["title"], MAX_NEWS_TITLE), _cut(one.get("description", ""), MAX_NEWS_TEXT)
    return f"{title}\n{text}\n{one['url']}"


def _image(_kind: str, form: dict[str, Any]) -> Reply:
    try:
        content = base64.b64decode(str(form.get("base64", "")), validate=True)
    except binascii.Error:
        return _no(40058, "image.base64 invalid. invalid Request Parameter")
    if not content or len(content) > MAX_IMAGE:
        return _no(40009, "invalid image size")
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()  # what WeCom asks for
    return (
        _ok("") if form.get("md5") == digest else _no(40058, "image.md5 invalid. invalid Request Parameter")
    )


_FORMS = {"news": _news, "image": _image}


def _ok(text: str, called: tuple[str, ...] = ()) -> Reply:
    return Reply({"errcode": 0, "errmsg": "ok"}, code="0", is_accepted=True, text=text, called=called)


def _cut(text: str, size: int) -> str:
    return text.encode()[:size].decode("utf-8", "ignore")


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
