"""Plays Tencent Cloud's texts and calls: TC3 signatures, applications, templates, quotas, receipts of texts.

https://cloud.tencent.com/document/api/382/52072 (signature)
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from channels.standin.robots import Reply, Request, Window
from channels.standin.telecom import PHONE, QUERY, SMS, Account, Fate, Line, fill, has_web

ALGORITHM = "TC3-HMAC-SHA256"
CLOCK_S = 5 * 60
CHINA = timezone(timedelta(hours=8))
NIGHT = Window(1, 10 * 3600.0)  # 22:00 to 08:00
WINDOWS = {
    SMS: (Window(1, 30.0), Window(10, 86400.0)),
    PHONE: (Window(1, 30.0), Window(2, 600.0), Window(5, 86400.0)),
}
SMS_LIMITS = {30.0: "PhoneNumberThirtySecondLimit", 86400.0: "PhoneNumberDailyLimit"}
STATES = {Fate.DELIVERED: ("SUCCESS", "DELIVRD")}
_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=([^/]+)/(\d{{4}}-\d\d-\d\d)/(\w+)/tc3_request, "
    r"SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})"
)
_NUMBER = re.compile(r"\+[1-9]\d{6,14}")


class _Refusal(Exception):  # noqa: N818  what the provider says no with
    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(code)
        self.code, self.message = code, message or code.rpartition(".")[2]


def takes(request: Request) -> bool:
    return request.path == "/" and "x-tc-action" in request.headers


def token(request: Request) -> str:
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    return found[1] if found else ""


def stranger(request: Request) -> Reply:
    code = "SecretIdNotFound" if token(request) else "InvalidAuthorization"
    return _error(_Refusal(f"AuthFailure.{code}"), "")


def judge(request: Request, account: Account, now: float) -> Reply:
    action = request.headers["x-tc-action"], request.headers.get("x-tc-version", "")
    kind, do = ACTIONS.get(action, ("", _unknown))
    try:
        _check_signature(request, account, now)
        return do(_asked(request), account, now)
    except _Refusal as refusal:
        return _error(refusal, kind)


def signature(request: Request, signed: str, date: str, service: str, secret: str) -> str:
    """What the request's signature must be; `signed` are the names of the headers that it covers."""
    headers = "".join(f"{name}:{request.headers.get(name, '').strip()}\n" for name in signed.split(";"))
    digest = hashlib.sha256(request.body).hexdigest()
    canonical = f"{request.method}\n{request.path}\n\n{headers}\n{signed}\n{digest}"
    stamp, scope = request.headers.get("x-tc-timestamp", ""), f"{date}/{service}/tc3_request"
    told = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"TC3{secret}".encode()
    for piece in (date, service, "tc3_request"):
        key = hmac.digest(key, piece.encode(), hashlib.sha256)
    return hmac.new(key, told.encode(), hashlib.sha256).hexdigest()


def _check_signature(request: Request, account: Account, now: float) -> None:
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None or not {"content-type", "host"} <= set(found[4].split(";")):
        raise _Refusal("AuthFailure.InvalidAuthorization")
    _, date, service, signed, given = found.groups()
    if given != signature(request, signed, date, service, account.secret):
        raise _Refusal("AuthFailure.SignatureFailure")
    stamp = request.headers.get("x-tc-timestamp", "")
    day = datetime.fromtimestamp(int(stamp), UTC).strftime("%Y-%m-%d") if stamp.isdigit() else ""
    if day != date or abs(int(stamp) - now) > CLOCK_S:
        raise _Refusal("AuthFailure.SignatureExpire")


def _asked(request: Request) -> Mapping[str, Any]:
    if "x-tc-region" not in request.headers:
        raise _Refusal("MissingParameter", "The request misses the parameter Region")
    asked = request.json()
    if asked is None:
        raise _Refusal("FailedOperation.JsonParseFail")
    return asked


def _unknown(_asked: Mapping[str, Any], _account: Account, _now: float) -> Reply:
    raise _Refusal("InvalidAction")


def _send_sms(asked: Mapping[str, Any], account: Account, now: float) -> Reply:
    numbers = asked.get("PhoneNumberSet")
    if not isinstance(numbers, list) or not numbers:
        raise _Refusal("MissingParameter.EmptyPhoneNumberSet")
    if len(numbers) > 200:
        raise _Refusal("LimitExceeded.PhoneNumberCountLimit")
    if asked.get("SmsSdkAppId") != account.app_id:
        raise _Refusal("UnauthorizedOperation.SmsSdkAppIdVerifyFail")
    filled = _filled(asked, account, total=500)
    homely = [str(number).startswith("+86") for number in numbers]
    if any(homely) != all(homely):
        code = "UnsupportedOperation.ContainDomesticAndInternationalPhoneNumber"
        return _statuses([_status(str(number), code) for number in numbers], ())
    sign = asked.get("SignName", "")
    if all(homely) and sign not in account.signs:
        code = "FailedOperation.SignatureIncorrectOrUnapproved"
        return _statuses([_status(str(number), code) for number in numbers], ())
    text, reference = (f"【{sign}】" if sign else "") + filled, str(asked.get("SessionContext", ""))
    told = [_sent(str(number), text, reference, account, now) for number in numbers]
    return _statuses([status for status, _ in told], tuple(line for _, line in told if line is not None))


def _sent(
    number: str, text: str, reference: str, account: Account, now: float
) -> tuple[dict[str, Any], Line | None]:
    full = account.over(SMS, (number,), WINDOWS[SMS], now)
    if _NUMBER.fullmatch(number) is None:
        return _status(number, "InvalidParameterValue.IncorrectPhoneNumber"), None
    if number in account.blocked:
        return _status(number, "FailedOperation.PhoneNumberInBlacklist"), None
    if account.balance < 1:
        return _status(number, "FailedOperation.InsufficientBalanceInSmsPackage"), None
    if full is not None:
        return _status(number, f"LimitExceeded.{SMS_LIMITS[full.seconds]}"), None
    (line,) = account.take(SMS, (number,), text, reference, now)
    return _status(number, "Ok", line), line


def _send_tts(asked: Mapping[str, Any], account: Account, now: float) -> Reply:
    number, times = asked.get("CalledNumber", ""), asked.get("PlayTimes", 2)
    if asked.get("VoiceSdkAppid") != account.app_id:
        raise _Refusal("UnauthorizedOperation.VoiceSdkAppidVerifyFail")
    if not isinstance(number, str) or _NUMBER.fullmatch(number) is None:
        raise _Refusal("InvalidParameterValue.CalledNumberVerifyFail")
    if times not in (1, 2, 3):
        raise _Refusal("FailedOperation.InvalidParameters")
    filled = _filled(asked, account, total=350)
    if account.balance < 1:
        raise _Refusal("FailedOperation.InsufficientBalanceInVoicePackage")
    hour = datetime.fromtimestamp(now, CHINA).hour
    windows = WINDOWS[PHONE] if 8 <= hour < 22 else (*WINDOWS[PHONE], NIGHT)
    if account.over(PHONE, (number,), windows, now) is not None:
        raise _Refusal("LimitExceeded.DeliveryFrequencyLimit")
    reference = str(asked.get("SessionContext", ""))
    (line,) = account.take(PHONE, (number,), filled, reference, now)
    body = {"SendStatus": {"CallId": line.id, "SessionContext": reference}}
    return _reply(body, PHONE, "Ok", (line,))


def _pull(asked: Mapping[str, Any], account: Account, _now: float) -> Reply:
    """A text is listed once a carrier has reported on it."""
    if asked.get("SmsSdkAppId") != account.app_id:
        raise _Refusal("UnauthorizedOperation.SmsSdkAppIdVerifyFail")
    begin, end, limit = asked.get("BeginTime"), asked.get("EndTime"), asked.get("Limit")
    if not isinstance(begin, int) or not isinstance(end, int) or begin > end:
        raise _Refusal("InvalidParameterValue.InvalidStartTime")
    if not isinstance(limit, int) or limit > 100:
        raise _Refusal("InvalidParameterValue.LimitVerifyFail")
    mine = [line for line in account.lines if line.kind == SMS and line.to == asked.get("PhoneNumber")]
    known = [line for line in mine if begin <= line.at <= end and account.fate(line) is not Fate.PENDING]
    rows = [_report(line, account.fate(line)) for line in known[:limit]]
    return _reply({"PullSmsSendStatusSet": rows}, QUERY)


def _report(line: Line, fate: Fate) -> dict[str, Any]:
    status, words = STATES.get(fate, ("FAIL", "MK:0001"))
    return {
        "UserReceiveTime": int(line.at) + 1, "CountryCode": "86", "SubscriberNumber": line.to[3:],
        "PhoneNumber": line.to, "SerialNo": line.id, "ReportStatus": status, "Description": words,
        "SessionContext": line.reference,
    }  # fmt: skip


ACTIONS: Mapping[tuple[str, str], tuple[str, Callable[[Mapping[str, Any], Account, float], Reply]]] = {
    ("SendSms", "2021-01-11"): (SMS, _send_sms),
    ("PullSmsSendStatusByPhoneNumber", "2021-01-11"): (QUERY, _pull),
    ("SendTtsVoice", "2020-09-02"): (PHONE, _send_tts),
}


def _filled(asked: Mapping[str, Any], account: Account, total: int) -> str:
    template, values = account.templates.get(str(asked.get("TemplateId"))), asked.get("TemplateParamSet", [])
    if template is None:
        raise _Refusal("FailedOperation.TemplateUnapprovedOrNotExist")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise _Refusal("InvalidParameter")
    wanted = len(set(re.findall(r"\{(\d+)\}", template)))
    text = fill(template, {str(n): value for n, value in enumerate(values, 1)})
    if text is None or wanted != len(values):
        raise _Refusal("FailedOperation.TemplateParamSetNotMatchApprovedTemplate")
    if any(has_web(value) for value in values):
        raise _Refusal("InvalidParameterValue.ProhibitedUseUrlInTemplateParameter")
    if len(text) > total:
        raise _Refusal("InvalidParameterValue.ContentLengthLimit")
    return text


def _status(number: str, code: str, line: Line | None = None) -> dict[str, Any]:
    return {
        "SerialNo": line.id if line else "", "PhoneNumber": number, "Fee": 1 if line else 0,
        "SessionContext": line.reference if line else "", "Code": code, "IsoCode": "CN",
        "Message": "send success" if line else code.rpartition(".")[2],
    }  # fmt: skip


def _statuses(statuses: list[dict[str, Any]], lines: tuple[Line, ...]) -> Reply:
    code = next((status["Code"] for status in statuses if status["Code"] != "Ok"), "Ok")
    return _reply({"SendStatusSet": statuses}, SMS, code, lines)


def _reply(body: Mapping[str, Any], kind: str, code: str = "Ok", lines: tuple[Line, ...] = ()) -> Reply:
    return Reply(
        {"Response": {**body, "RequestId": "R"}}, code=code, is_accepted=bool(lines), kind=kind,
        text=lines[0].text if lines else "", called=tuple(line.to for line in lines),
        id=lines[0].reference if lines else "",
    )  # fmt: skip


def _error(refusal: _Refusal, kind: str) -> Reply:
    """A refusal comes with HTTP 200."""
    body = {"Error": {"Code": refusal.code, "Message": refusal.message}, "RequestId": "R"}
    return Reply({"Response": body}, code=refusal.code, kind=kind)
