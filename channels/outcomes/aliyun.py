"""What Aliyun's answers and receipts mean, as tables. A code that stands in none of them is temporary."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from channels.answers import REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.base import Outcome, Recipient, Sent
from channels.outcomes import broken, throttled
from channels.telecom.base import PHONE, SMS
from channels.telecom.exchange import ACCEPTED

HOUR = timedelta(hours=1)
NEVER_AFTER = timedelta(minutes=5)  # what is not in its books by then did not arrive


PERMISSION = broken("the RAM user lacks AliyunDysmsFullAccess or AliyunDyvmsFullAccess")
BALANCE = broken("the account has no money left")
PRODUCT = broken("the account has not opened this service")
ACCOUNT = broken("the account behind access_key_id does not exist or is suspended")
KEY_ID = broken("access_key_id is wrong or disabled")
KEY_SECRET = broken("access_key_secret is wrong")
CLOCK = broken("this machine's clock is off")
SIGN = broken("sign_name is not an approved signature of this account")
TEMPLATE = broken("template_id is not an approved template of this account")
PARAMS = broken("params do not fit the template's variables")
MAINLAND = broken("Aliyun refuses senders outside mainland China")
SCENE = broken("sign_name is not for notifications")
ABROAD = broken("the template is for numbers outside mainland China only")
SHOWN = broken("called_show_number is not a number of this account")
RATE = throttled(timedelta(seconds=5))
QUOTA = throttled(HOUR)
QUIET = throttled(timedelta(minutes=10))  # tried until the call is too old; others are called meanwhile

# [texts] help.aliyun.com/document_detail/101346.html, [calls] help.aliyun.com/document_detail/178344.html,
# [both] of them, with HTTP 200. The gateway's own come with 4xx and 5xx: [openapi]
# developer.aliyun.com/ask/278265, [common] help.aliyun.com/document_detail/30137.htm, [gateway]
# help.aliyun.com/document_detail/51132.html. [detail] api.alidayu.com/docs/api.htm?apiId=33933, [abroad]
# alibabacloud.com/help/doc-detail/116206.htm.
COMMON: Mapping[str, Verdict] = {
    "OK": ACCEPTED,                                 # [both] accepted, not delivered: the receipt tells
    "isp.RAM_PERMISSION_DENY": PERMISSION,          # [both]
    "isv.OUT_OF_SERVICE": BALANCE,                  # [both] no money, whatever is left in a package
    "isv.AMOUNT_NOT_ENOUGH": BALANCE,               # [both]
    "isv.PRODUCT_UN_SUBSCRIPT": PRODUCT,            # [both]
    "isv.PRODUCT_UNSUBSCRIBE": PRODUCT,             # [both]
    "isv.ACCOUNT_NOT_EXISTS": ACCOUNT,              # [both]
    "isv.ACCOUNT_ABNORMAL": ACCOUNT,                # [both]
    "isv.DENY_IP_RANGE": MAINLAND,                  # [texts]
    "isv.INVALID_PARAMETERS": TOO_LONG,             # [both] and what old templates say: .../ask/220871
    "isv.MOBILE_NUMBER_ILLEGAL": REFUSED,           # [both]
    "isv.MOBILE_COUNT_OVER_LIMIT": REFUSED,         # [both]
    "isv.BLACK_KEY_CONTROL_LIMIT": REFUSED,         # [both] a word in a variable, or the number
    "isv.PARAM_NOT_SUPPORT_URL": REFUSED,           # [both]
    "isv.PARAM_LENGTH_LIMIT": TOO_LONG,             # [both]
    "isv.TEMPLATE_MISSING_PARAMETERS": PARAMS,      # [both]
    "isv.INVALID_JSON_PARAM": PARAMS,               # [texts]
    "isp.SYSTEM_ERROR": TEMPORARY,                  # [both]
    "isv.SYSTEM_ERROR": TEMPORARY,                  # [detail] the same, as calls spell it
    "isp.GATEWAY_ERROR": TEMPORARY,                 # [abroad]
    "ServiceUnavailable": TEMPORARY,                # [common]
    "InternalError": TEMPORARY,                     # [common]
    "Throttling": RATE,                             # [common]
    "Throttling.User": RATE,                        # [openapi]
    "Throttling.Api": RATE,                         # [openapi]
    "SignatureDoesNotMatch": KEY_SECRET,            # [openapi]
    "IncompleteSignature": KEY_SECRET,              # [gateway]
    "InvalidAccessKeyId.NotFound": KEY_ID,          # [openapi]
    "InvalidAccessKeyId.Inactive": KEY_ID,          # [openapi]
    "Forbidden": PERMISSION,                        # [common]
    "Forbidden.RAM": PERMISSION,                    # [gateway]
    "InvalidTimeStamp.Expired": CLOCK,              # [openapi]
    "InvalidTimeStamp.Format": CLOCK,               # [openapi]
    "SignatureNonceUsed": TEMPORARY,                # [openapi] signed anew, it passes
}  # fmt: skip

TEXTS: Mapping[str, Verdict] = {
    "isv.SMS_SIGNATURE_ILLEGAL": SIGN,              # [texts]
    "isv.SMS_SIGN_ILLEGAL": SIGN,                   # [texts]
    "isv.SIGN_STATE_ILLEGAL": SIGN,                 # [texts]
    "isv.SMS_SIGNATURE_SCENE_ILLEGAL": SCENE,       # [texts]
    "isv.SMS_TEMPLATE_ILLEGAL": TEMPLATE,           # [texts]
    "isv.TEMPLATE_PARAMS_ILLEGAL": REFUSED,         # [texts] a value breaks the rule of its variable
    "isv.EXTEND_CODE_ERROR": PARAMS,                # [texts]
    "isv.DOMESTIC_NUMBER_NOT_SUPPORTED": ABROAD,    # [texts]
    "isv.SMS_CONTENT_ILLEGAL": REFUSED,             # [texts]
    "isv.DAY_LIMIT_CONTROL": QUOTA,                 # [texts] the account's own limit for the day
    "isv.MONTH_LIMIT_CONTROL": QUOTA,               # [texts] for the month
}  # fmt: skip

CALLS: Mapping[str, Verdict] = {
    "isv.TTS_TEMPLATE_ILLEGAL": TEMPLATE,           # [calls]
    "isv.TEMPLATE_ILLEGAL": TEMPLATE,               # [calls]
    "isv.TEMPLATE_PARAMS_ILLEGAL": REFUSED,         # [calls] a forbidden word in a variable
    "isv.DISPLAY_NUMBER_ILLEGAL": SHOWN,            # [calls]
    "isv.BILLID_NOT_EXIST": SHOWN,                  # [calls]
    "isv.COMPLAINT_REJECT": REFUSED,                # [calls] somebody complained of calls
    "isv.VOICE_ROBOT_CALLEE_LIMIT": REFUSED,        # [calls]
    "isv.VOICE_CALL_FAIL": TEMPORARY,               # [calls]
    "isv.VOICE_ROBOT_NOT_PERIOD": QUIET,            # [calls]
    "isv.VOICE_CALL_PERIOD_ERROR": QUIET,           # [calls]
}  # fmt: skip
TABLES: Mapping[str, Mapping[str, Verdict]] = {SMS: {**COMMON, **TEXTS}, PHONE: {**COMMON, **CALLS}}

# "触发天级流控Permits:10", "触发小时级流控Permits:5", "触发分钟级流控Permits:1": only the words tell which.
# Its windows slide, so that there is room again before a whole one has gone by.
FLOW = "isv.BUSINESS_LIMIT_CONTROL"
LEVELS = (
    ("分钟|minute", timedelta(minutes=1)),
    ("小时|hour", timedelta(minutes=20)),
    ("天级|日级|day", timedelta(hours=2)),
)

# SendStatus of a text: help.aliyun.com/zh/sms/developer-reference/api-dysmsapi-2017-05-25-querysenddetails
FAILED, DONE = "2", "3"  # 1: on its way

# The end of a call: help.aliyun.com/document_detail/55085.html. An end that is not listed was no answer.
HEARD = {
    "200000": "heard to the end",
    "200001": "hung up before the end",  # it was picked up: somebody knows
}
# "200": taken, and its end not known yet (help.aliyun.com/zh/vms/support/api-sdk-faq); the rest: under way
# (help.aliyun.com/document_detail/112804.htm).
UNDER_WAY = frozenset({"", "200", "200100", "200101", "200102", "200103", "200201", "300000", "9996"})


def verdict(kind: str, code: str | None, said: str) -> Verdict | None:
    if code == FLOW:
        fits = (wait for words, wait in LEVELS if re.search(words, said, re.IGNORECASE))
        wait = next(fits, timedelta(minutes=20))
        return throttled(wait)
    if code is not None and code.startswith("Throttling."):
        return COMMON["Throttling"]
    return TABLES[kind].get(code or "")


def text_receipt(one: Sent, rows: Sequence[Mapping[str, Any]], now: datetime) -> Recipient | None:
    """`rows` are those of this text, if the provider has any."""
    if not rows:
        if one.message_id or now - one.at < NEVER_AFTER:
            return None
        return Recipient(one.to, Outcome.TEMPORARY, "never_arrived")
    status, code = str(rows[0].get("SendStatus")), str(rows[0].get("ErrCode") or "") or None
    if status == DONE:
        return Recipient(one.to, Outcome.DELIVERED, code, one.message_id)
    if status == FAILED:
        return Recipient(one.to, Outcome.REFUSED, code, one.message_id)
    # Its answer was lost, and it has it all the same: from now on it waits like any other.
    return None if one.message_id else Recipient(one.to, Outcome.ACCEPTED, code)


def call_receipt(one: Sent, state: Mapping[str, Any]) -> Recipient | None:
    code = str(state.get("state") or "")
    if code in UNDER_WAY:
        return None
    return Recipient(one.to, Outcome.DELIVERED if code in HEARD else Outcome.REFUSED, code, one.message_id)
