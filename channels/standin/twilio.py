"""Plays Twilio's Messages and Calls: Basic authentication, senders, forms of numbers, and what became of it.

https://www.twilio.com/docs/usage/api, https://www.twilio.com/docs/api/errors
"""

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree as ET

from channels.standin.robots import Reply, Request
from channels.standin.telecom import PHONE, QUERY, SMS, Account, Fate, Line

PATH = re.compile(r"/2010-04-01/Accounts/(?P<sid>\w+)/(?P<resource>Messages|Calls)(?:/(?P<one>\w+))?\.json")
KINDS = {"Messages": SMS, "Calls": PHONE}
MAX_TEXT, MAX_TWIML = 1600, 4000
STATUSES: Mapping[str, Mapping[Fate, str]] = {
    SMS: {Fate.DELIVERED: "delivered", Fate.PENDING: "sent"},
    PHONE: {
        Fate.DELIVERED: "completed", Fate.PENDING: "ringing", Fate.BUSY: "busy", Fate.NO_ANSWER: "no-answer",
    },
}  # fmt: skip
BLOCKED = {SMS: 21610, PHONE: 21216}
UNREACHABLE = 30003
_NUMBER = re.compile(r"\+[1-9]\d{6,14}")


class _Refusal(Exception):  # noqa: N818  what the provider says no with
    def __init__(self, code: int, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


def takes(request: Request) -> bool:
    return PATH.fullmatch(request.path) is not None


def token(request: Request) -> str:
    return _login(request)[0]


def stranger(request: Request) -> Reply:  # noqa: ARG001  it says no more than this
    return _error(_Refusal(20003, "Authenticate", 401), "")


def judge(request: Request, account: Account, now: float) -> Reply:
    found = PATH.fullmatch(request.path)
    kind = KINDS[found["resource"]] if found is not None else ""
    try:
        _check_login(request, account)
        if request.method == "POST":
            return _create(kind, dict(parse_qsl(request.body.decode())), account, now)
        return _look(kind, found["one"] if found is not None else None, request.query, account)
    except _Refusal as refusal:
        return _error(refusal, kind if request.method == "POST" else QUERY)


def _check_login(request: Request, account: Account) -> None:
    if not hmac.compare_digest(_login(request)[1].encode(), account.secret.encode()):
        raise _Refusal(20003, "Authenticate", 401)
    if not request.path.startswith(f"/2010-04-01/Accounts/{account.key}/"):
        raise _Refusal(20404, "The requested resource was not found", 404)


def _login(request: Request) -> tuple[str, str]:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    try:
        user, _, password = base64.b64decode(given, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return (user, password) if scheme == "Basic" else ("", "")


def _create(kind: str, form: Mapping[str, str], account: Account, now: float) -> Reply:
    to = form.get("To", "")
    sender = form.get("From") or form.get("MessagingServiceSid")
    if _NUMBER.fullmatch(to) is None:
        raise _Refusal(21211, f"Invalid 'To' Phone Number: {to[:-4]}XXXX")
    if sender not in account.senders:
        code = 21606 if kind == SMS else 21210
        raise _Refusal(code, "The 'From' phone number provided is not a valid one for your account")
    text = form.get("Body", "") if kind == SMS else _heard(form.get("Twiml", ""))
    if not text:
        raise _Refusal(21602, "Message body is required.")
    if len(text) > MAX_TEXT and kind == SMS:
        raise _Refusal(21617, "The concatenated message body exceeds the 1600 character limit")
    if account.balance < 1:
        raise _Refusal(20005, "Account not active", 403)
    if to in account.blocked:
        raise _Refusal(BLOCKED[kind], "The recipient cannot be reached")
    (line,) = account.take(kind, (to,), text, str(sender), now)
    row = {**_row(line, Fate.PENDING), "status": "queued"}
    return Reply(row, 201, "201", is_accepted=True, text=text, called=(to,), kind=kind)


def _heard(twiml: str) -> str:
    """What the called person hears."""
    if not 0 < len(twiml) <= MAX_TWIML:
        raise _Refusal(20422, "Twiml must be 1 to 4000 characters")
    try:
        root = ET.fromstring(twiml)  # noqa: S314  from our own adapter
    except ET.ParseError:
        raise _Refusal(12100, "Document parse failure") from None
    says = root.findall("Say")
    if root.tag != "Response" or not says:
        raise _Refusal(12200, "Schema validation warning")
    times = int(says[0].get("loop", "1"))
    return "\n".join([says[0].text or ""] * times)


def _look(kind: str, one: str | None, query: Mapping[str, str], account: Account) -> Reply:
    mine = [line for line in reversed(account.lines) if line.kind == kind]
    if one is not None:
        found = next((line for line in mine if _sid(line) == one), None)
        if found is None:
            raise _Refusal(20404, "The requested resource was not found", 404)
        return Reply(_row(found, account.fate(found)), code="200", kind=QUERY)
    size = int(query.get("PageSize", "50"))
    listed = [line for line in mine if query.get("To") in (None, line.to)][:size]
    rows = [_row(line, account.fate(line)) for line in listed]
    name = "messages" if kind == SMS else "calls"
    return Reply({name: rows, "page_size": size, "next_page_uri": None}, code="200", kind=QUERY)


def _row(line: Line, fate: Fate) -> dict[str, Any]:
    failed = "undelivered" if line.kind == SMS else "failed"
    status = STATUSES[line.kind].get(fate, failed)
    row = {
        "sid": _sid(line), "to": line.to, "from": line.reference, "status": status,
        "date_created": format_datetime(datetime.fromtimestamp(int(line.at), UTC)),
    }  # fmt: skip
    code = UNREACHABLE if status == "undelivered" else None
    return {**row, "body": line.text, "error_code": code} if line.kind == SMS else row


def _sid(line: Line) -> str:
    return ("SM" if line.kind == SMS else "CA") + sha256(line.id.encode()).hexdigest()[:32]


def _error(refusal: _Refusal, kind: str) -> Reply:
    info = f"https://www.twilio.com/docs/errors/{refusal.code}"
    body = {"code": refusal.code, "message": refusal.message, "more_info": info, "status": refusal.status}
    return Reply(body, refusal.status, str(refusal.code), kind=kind)
