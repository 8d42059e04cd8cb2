"""Plays Baidu's texts, version 3: bce-auth-v1, signatures and templates by id, a word on each number.

https://cloud.baidu.com/doc/Reference/s/njwvz1yfu (signature), cloud.baidu.com/doc/SMS/s/zjwvxry6e (codes)
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from channels.standin.robots import Reply, Request, Window
from channels.standin.telecom import SMS, Account, fill

PATH = "/api/v3/sendSms"
WINDOWS = (Window(3, 60.0), Window(10, 3600.0), Window(50, 86400.0))
MAX_TEXT = 600
USUALLY_SIGNED = ("host", "content-md5", "content-length", "content-type")  # where none are named
_AUTHORIZATION = re.compile(
    r"bce-auth-v1/(?P<key>[^/]+)/(?P<at>[^/]+)/(?P<seconds>\d{1,6})/(?P<signed>[^/]*)/(?P<sign>[0-9a-f]{64})"
)
_NUMBER = re.compile(r"(?:\+?86)?(1\d{10})|\+(?!86)([1-9]\d{6,14})")


def takes(request: Request) -> bool:
    return request.path == PATH


def token(request: Request) -> str:
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    return found["key"] if found else ""


def stranger(request: Request) -> Reply:
    if not token(request):
        return _error(400, "InvalidHTTPAuthHeader", "The HTTP authorization header is invalid.")
    return _error(403, "InvalidAccessKeyId", "The Access Key ID you provided does not exist in our records.")


def judge(request: Request, account: Account, now: float) -> Reply:
    refusal = _unsigned(request, account, now)
    if refusal is not None:
        return refusal
    body = request.json()
    if body is None:
        return _error(400, "MalformedJSON", "The JSON you provided was not well-formed.")
    return _send(body, account, now)


def signature(request: Request, secret: str) -> str:
    """What the signature in `Authorization` must be."""
    found = _AUTHORIZATION.fullmatch(request.headers["authorization"])
    if found is None:
        return ""
    prefix = f"bce-auth-v1/{found['key']}/{found['at']}/{found['seconds']}"
    key = hmac.new(secret.encode(), prefix.encode(), hashlib.sha256).hexdigest()
    query = "&".join(sorted(f"{_quoted(name)}={_quoted(value)}" for name, value in request.query.items()))
    usual = [name for name in request.headers if name in USUALLY_SIGNED or name.startswith("x-bce-")]
    covered = found["signed"].split(";") if found["signed"] else usual
    headers = sorted(f"{_quoted(name)}:{_quoted(request.headers.get(name, '').strip())}" for name in covered)
    canonical = "\n".join([request.method, quote(request.path), query, *headers])
    return hmac.new(key.encode(), canonical.encode(), hashlib.sha256).hexdigest()


def _unsigned(request: Request, account: Account, now: float) -> Reply | None:
    found = _AUTHORIZATION.fullmatch(request.headers["authorization"])
    if found is None or "host" not in found["signed"].split(";"):
        return _error(400, "InvalidHTTPAuthHeader", "The HTTP authorization header is invalid.")
    if found["sign"] != signature(request, account.secret):
        return _error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
    try:
        at = datetime.strptime(found["at"] + "+0000", "%Y-%m-%dT%H:%M:%SZ%z").timestamp()
    except ValueError:
        return _error(400, "InvalidHTTPAuthHeader", "The HTTP authorization header is invalid.")
    if not at - 300 <= now <= at + int(found["seconds"]):
        return _error(400, "RequestExpired", "Request has expired.")
    return None


def _send(body: Mapping[str, Any], account: Account, now: float) -> Reply:
    numbers, params = str(body.get("mobile") or "").split(","), body.get("contentVar") or {}
    template = account.templates.get(str(body.get("template")))
    if body.get("signatureId") not in account.signs:
        return _no("6006", "账号签名不可用")
    if template is None:
        return _no("4602", "未找到对应模板")
    if len(numbers) > 200:
        return _no("4511", "批量发送短信错误")
    if account.balance < len(numbers):
        return _no("6012", "账号已停服")
    text = _filled(template, params)
    if isinstance(text, Reply):
        return text
    return _answered(numbers, f"【{body['signatureId']}】{text}", str(body.get("custom") or ""), account, now)


def _filled(template: str, params: Any) -> str | Reply:
    if not isinstance(params, dict) or not all(isinstance(value, str) for value in params.values()):
        return _no("4601", "模板参数异常")
    if "" in params.values():
        return _no("4610", "模板参数内容为空")
    if any(re.search(r"[()\[\]【】（）\t]", value) for value in params.values()):
        return _no("4608", "模板参数不合法")
    text = fill(template, params)
    if text is None:
        return _no("4605", "模板参数不匹配")
    return text if len(text) <= MAX_TEXT else _no("4508", "短信内容过长")


def _answered(numbers: list[str], text: str, reference: str, account: Account, now: float) -> Reply:
    rows, called = [], []
    for given in numbers:
        number = _e164(given)
        code, said = _verdict(number, account, now)
        row = {"mobile": given, "code": code, "message": said}
        if code == "1000" and number is not None:
            (line,) = account.take(SMS, (number,), text, reference, now)
            row["messageId"] = line.id
            called.append(number)
        rows.append(row)
    return Reply(
        {"requestId": "R", "code": "1000", "message": "成功", "data": rows}, code="1000",
        is_accepted=bool(called), kind=SMS, text=text, called=tuple(called), id=reference,
    )  # fmt: skip


def _verdict(number: str | None, account: Account, now: float) -> tuple[str, str]:
    if number is None:
        return "4503", "手机号码格式不正确"
    if number in account.blocked:
        return "4643", "命中账号黑名单"
    if account.over(SMS, (number,), WINDOWS, now) is not None:
        return "S:00194", "小时级流控"
    return "1000", "成功"


def _no(code: str, message: str) -> Reply:
    return Reply({"requestId": "R", "code": code, "message": message, "data": []}, code=code, kind=SMS)


def _error(status: int, code: str, message: str) -> Reply:
    return Reply({"requestId": "R", "code": code, "message": message}, status=status, code=code)


def _e164(number: str) -> str | None:
    found = _NUMBER.fullmatch(number)
    if found is None:
        return None
    return f"+86{found[1]}" if found[1] else f"+{found[2]}"


def _quoted(text: str) -> str:
    return quote(text, safe="~")
