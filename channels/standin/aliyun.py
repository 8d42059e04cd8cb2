"""Plays Aliyun's texts and calls: signatures of version 3, signs, templates, quotas, and what became of it.

https://help.aliyun.com/zh/sdk/product-overview/v3-request-structure-and-signature
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

from channels.standin.robots import Reply, Request, Window
from channels.standin.telecom import PHONE, QUERY, SMS, Account, Fate, Line, fill, has_web

ALGORITHM = "ACS3-HMAC-SHA256"
CHINA = timezone(timedelta(hours=8))
CLOCK_S = 15 * 60
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
WINDOWS = {
    SMS: (Window(50, DAY),),
    PHONE: (Window(1, MINUTE), Window(5, HOUR), Window(20, DAY)),
}
LEVELS = {MINUTE: "分钟", HOUR: "小时", DAY: "天"}
STATES = {Fate.DELIVERED: "200000", Fate.FAILED: "200010", Fate.BUSY: "200002", Fate.NO_ANSWER: "200003"}
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=([^,]+),SignedHeaders=([^,]+),Signature=([0-9a-f]{{64}})"
)
_NUMBER = re.compile(r"(?:\+?86|0086)?(1\d{10})|\+?(?!86)([1-9]\d{6,14})")


def takes(request: Request) -> bool:
    return request.path == "/" and "x-acs-action" in request.headers


def token(request: Request) -> str:
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    return found[1] if found else ""


def stranger(request: Request) -> Reply:
    if not token(request):
        return _error(400, "IncompleteSignature", "The request signature does not conform to the standards.")
    return _error(404, "InvalidAccessKeyId.NotFound", "Specified access key is not found.")


def judge(request: Request, account: Account, now: float) -> Reply:
    refusal = _unsigned(request, account, now)
    if refusal is not None:
        return refusal
    action = request.headers["x-acs-action"]
    if action not in ACTIONS:
        return _error(404, "InvalidAction.NotFound", "Specified api is not found")
    return ACTIONS[action](request.query, account, now)


def signature(request: Request, signed: str, secret: str) -> str:
    """What the request's signature must be; `signed` are the names of the headers that it covers."""
    query = "&".join(f"{_quoted(name)}={_quoted(request.query[name])}" for name in sorted(request.query))
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in signed.split(";"))
    digest = hashlib.sha256(request.body).hexdigest()
    canonical = f"{request.method}\n{request.path}\n{query}\n{headers}\n{signed}\n{digest}"
    told = f"{ALGORITHM}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    return hmac.new(secret.encode(), told.encode(), hashlib.sha256).hexdigest()


def _unsigned(request: Request, account: Account, now: float) -> Reply | None:
    found = _AUTHORIZATION.fullmatch(request.headers["authorization"])
    signed = found[2] if found else ""
    must = {name for name in request.headers if name.startswith("x-acs-")} | {"host"}
    if not must <= set(signed.split(";")):
        return _error(400, "IncompleteSignature", "Not all headers that count are signed.")
    if found is None or found[3] != signature(request, signed, account.secret):
        return _error(400, "SignatureDoesNotMatch", "Specified signature does not match our calculation.")
    if request.headers.get("x-acs-content-sha256") != hashlib.sha256(request.body).hexdigest():
        return _error(400, "InvalidContentSha256", "The digest is not the body's.")
    return _untimely(request, account, now)


def _untimely(request: Request, account: Account, now: float) -> Reply | None:
    try:
        date = datetime.strptime(request.headers.get("x-acs-date", "") + "+0000", "%Y-%m-%dT%H:%M:%SZ%z")
    except ValueError:
        return _error(400, "InvalidTimeStamp.Format", "Specified time stamp is not well formatted.")
    if abs(date.timestamp() - now) > CLOCK_S:
        return _error(400, "InvalidTimeStamp.Expired", "Specified time stamp or date value is expired.")
    nonce = request.headers.get("x-acs-signature-nonce", "")
    if not nonce or nonce in account.nonces:
        return _error(400, "SignatureNonceUsed", "Specified signature nonce was used already.")
    account.nonces.add(nonce)
    return None


def _send_sms(query: Mapping[str, str], account: Account, now: float) -> Reply:
    numbers = [_e164(one) for one in query.get("PhoneNumbers", "").split(",")]
    to = tuple(number for number in numbers if number is not None)
    text = account.templates.get(query.get("TemplateCode", ""))
    if len(to) < len(numbers):
        return _no(SMS, "isv.MOBILE_NUMBER_ILLEGAL", "号码格式非法")
    if len(to) > 1000:
        return _no(SMS, "isv.MOBILE_COUNT_OVER_LIMIT", "手机号码数量超过限制")
    if query.get("SignName") not in account.signs:
        return _no(SMS, "isv.SMS_SIGNATURE_ILLEGAL", "该账号下找不到对应签名")
    if text is None:
        return _no(SMS, "isv.SMS_TEMPLATE_ILLEGAL", "该账号下找不到对应模板")
    filled = _filled(text, query.get("TemplateParam", ""), each=35)
    if isinstance(filled, Reply):
        return filled
    text = f"【{query['SignName']}】{filled}"
    lines = _taken(SMS, to, text, query.get("OutId", ""), account, now)
    return lines if isinstance(lines, Reply) else _yes(SMS, {"BizId": lines[0].batch}, lines)


def _single_call(query: Mapping[str, str], account: Account, now: float) -> Reply:
    number = _e164(query.get("CalledNumber", ""))
    text = account.templates.get(query.get("TtsCode", ""))
    shown = query.get("CalledShowNumber")
    if number is None:
        return _no(PHONE, "isv.MOBILE_NUMBER_ILLEGAL", "号码格式非法")
    if text is None:
        return _no(PHONE, "isv.TTS_TEMPLATE_ILLEGAL", "TTS模板不合法")
    if shown is not None and shown not in account.senders:
        return _no(PHONE, "isv.DISPLAY_NUMBER_ILLEGAL", "号显不合法")
    if query.get("PlayTimes", "1") not in ("1", "2", "3") or len(query.get("OutId", "")) > 15:
        return _no(PHONE, "isv.INVALID_PARAMETERS", "参数异常")
    filled = _filled(text, query.get("TtsParam", ""), total=250)
    if isinstance(filled, Reply):
        return filled
    lines = _taken(PHONE, (number,), filled, query.get("OutId", ""), account, now)
    return lines if isinstance(lines, Reply) else _yes(PHONE, {"CallId": lines[0].id}, lines)


def _send_details(query: Mapping[str, str], account: Account, _now: float) -> Reply:
    number, day, batch = _e164(query.get("PhoneNumber", "")), query.get("SendDate", ""), query.get("BizId")
    if number is None or not re.fullmatch(r"\d{8}", day) or not query.get("PageSize", "").isdigit():
        return _no(QUERY, "isv.INVALID_PARAMETERS", "参数异常")
    of_day = [line for line in account.lines if line.kind == SMS and line.to == number and _day(line) == day]
    found = [line for line in reversed(of_day) if batch in (None, line.batch)]
    size, page = int(query["PageSize"]), int(query.get("CurrentPage", "1"))
    rows = [_detail(line, account.fate(line)) for line in found[size * (page - 1) : size * page]]
    body = {"TotalCount": str(len(found)), "SmsSendDetailDTOs": {"SmsSendDetailDTO": rows}}
    return Reply({"Code": "OK", "Message": "OK", "RequestId": "R", **body}, code="OK", kind=QUERY)


def _detail(line: Line, fate: Fate) -> dict[str, Any]:
    status, code = {Fate.PENDING: (1, ""), Fate.DELIVERED: (3, "DELIVERED")}.get(fate, (2, "MK:0001"))
    return {
        "PhoneNum": line.to.removeprefix("+86").removeprefix("+"), "Content": line.text, "SendStatus": status,
        "ErrCode": code, "OutId": line.reference, "SendDate": _moment(line.at),
    }  # fmt: skip


def _call_detail(query: Mapping[str, str], account: Account, _now: float) -> Reply:
    asked = [line for line in account.lines if line.kind == PHONE and line.id == query.get("CallId")]
    if query.get("ProdId") != "11010000138001" or not query.get("QueryDate", "").isdigit():
        return _no(QUERY, "isv.INVALID_PARAMETERS", "参数异常")
    since = int(query["QueryDate"]) / 1000
    lines = [line for line in asked if since <= line.at <= since + DAY]
    data = ""
    if lines:
        state = STATES.get(account.fate(lines[0]), "200")
        data = json.dumps({"state": state, "callee": lines[0].to, "gmtCreate": _moment(lines[0].at)})
    body = {"Code": "OK", "Message": "OK", "RequestId": "R", "Data": data}
    return Reply(body, code="OK", kind=QUERY)


ACTIONS = {
    "SendSms": _send_sms,
    "QuerySendDetails": _send_details,
    "SingleCallByTts": _single_call,
    "QueryCallDetailByCallId": _call_detail,
}


def _filled(template: str, given: str, each: int | None = None, total: int | None = None) -> str | Reply:
    try:
        params = json.loads(given or "{}")
    except ValueError:
        params = None
    if not isinstance(params, dict) or not all(isinstance(value, str) for value in params.values()):
        return _no(SMS, "isv.INVALID_JSON_PARAM", "JSON参数不合法，只接受字符串值")
    values = list(params.values())
    if any(has_web(value) for value in values):
        return _no(SMS, "isv.PARAM_NOT_SUPPORT_URL", "变量不支持URL参数")
    longest = max((len(value) for value in values), default=0)
    if (each and longest > each) or (total and sum(map(len, values)) > total):
        return _no(SMS, "isv.PARAM_LENGTH_LIMIT", "参数长度受限")
    text = fill(template, params)
    if text is None or "" in values:
        return _no(SMS, "isv.TEMPLATE_MISSING_PARAMETERS", "模板变量缺少对应参数值")
    return text


def _taken(
    kind: str, to: tuple[str, ...], text: str, reference: str, account: Account, now: float
) -> tuple[Line, ...] | Reply:
    if account.balance < len(to):
        return _no(kind, "isv.AMOUNT_NOT_ENOUGH", "账户余额不足")
    if account.blocked.intersection(to):
        return _no(kind, "isv.BLACK_KEY_CONTROL_LIMIT", "黑名单管控")
    full = account.over(kind, to, WINDOWS[kind], now)
    if full is not None:
        return _no(
            kind, "isv.BUSINESS_LIMIT_CONTROL", f"触发{LEVELS[full.seconds]}级流控Permits:{full.count}"
        )
    return account.take(kind, to, text, reference, now)


def _yes(kind: str, ids: Mapping[str, str], lines: tuple[Line, ...]) -> Reply:
    return Reply(
        {"Code": "OK", "Message": "OK", "RequestId": "R", **ids}, code="OK", is_accepted=True, kind=kind,
        text=lines[0].text, called=tuple(line.to for line in lines), id=lines[0].reference,
    )  # fmt: skip


def _no(kind: str, code: str, message: str) -> Reply:
    """A refusal of the service itself comes with HTTP 200."""
    return Reply({"Code": code, "Message": message, "RequestId": "R"}, code=code, kind=kind)


def _error(status: int, code: str, message: str) -> Reply:
    body = {"Code": code, "Message": message, "RequestId": "R", "HostId": "standin"}
    return Reply(body, status=status, code=code)


def _e164(number: str) -> str | None:
    found = _NUMBER.fullmatch(number)
    if found is None:
        return None
    return f"+86{found[1]}" if found[1] else f"+{found[2]}"


def _quoted(text: str) -> str:
    return quote(text, safe="~")


def _day(line: Line) -> str:
    return datetime.fromtimestamp(line.at, CHINA).strftime("%Y%m%d")


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, CHINA).strftime("%Y-%m-%d %H:%M:%S")
