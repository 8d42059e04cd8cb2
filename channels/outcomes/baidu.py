"""What Baidu's answers mean, as tables. A code that stands in none of them is temporary."""

from collections.abc import Mapping
from datetime import timedelta

from channels.answers import REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.outcomes import broken, throttled
from channels.telecom.exchange import ACCEPTED

SUCCESS = "1000"


KEYS = broken("access_key_id or access_key_secret is wrong, or this address is not on the IP list")
ACCOUNT = broken("the account may not send texts: it is closed, in debt or has not opened the service")
SIGN = broken("sign_name is not the id of an approved signature: sms-sign…")
TEMPLATE = broken("template_id is not the id of an approved template: sms-tmpl-…")
PARAMS = broken("params do not fit the template's variables")
BLOCKED = REFUSED  # the number is on a black list or complained

# Of a request and of each number in it: cloud.baidu.com/doc/SMS/s/zjwvxry6e
TEXTS: Mapping[str, Verdict] = {
    SUCCESS: ACCEPTED,  # taken; what became of it Baidu tells by a callback only
    "6002": KEYS,
    "6005": ACCOUNT,
    "6006": SIGN,
    "6012": ACCOUNT,
    "6013": ACCOUNT,
    "4501": REFUSED,  # a parameter is wrong
    "4502": REFUSED,  # or empty
    "4503": REFUSED,  # the number's form
    "4504": TOO_LONG,
    "4505": REFUSED,
    "4506": REFUSED,
    "4507": REFUSED,  # no such number
    "4508": TOO_LONG,  # over 600 characters with the template's own
    "4511": REFUSED,  # too many numbers
    "4512": REFUSED,
    "4518": broken("endpoint is not that of Baidu's SMS service"),
    "4601": PARAMS,
    "4602": TEMPLATE,
    "4603": TEMPLATE,
    "4605": PARAMS,
    "4606": TOO_LONG,
    "4607": TEMPLATE,
    "4608": REFUSED,  # brackets in a value
    "4609": broken("signature and template are for different countries"),
    "4610": PARAMS,
    "4641": BLOCKED,
    "4642": BLOCKED,
    "4643": BLOCKED,
    "4651": BLOCKED,
    "4652": BLOCKED,
    "4653": BLOCKED,
}

# The platform's own and the carriers' codes: cloud.baidu.com/doc/SMS/s/Dkho9df2a
PLATFORM: Mapping[str, Verdict] = {
    "B:00001": PARAMS,
    "B:00002": KEYS,
    "B:00003": REFUSED,  # a URL
    "B:00004": TOO_LONG,
    "B:00005": REFUSED,
    "B:00006": ACCOUNT,
    "B:00007": TEMPLATE,
    "B:00008": SIGN,
    "B:00009": SIGN,
    "B:00010": REFUSED,
    "B:00011": REFUSED,  # a forbidden word
    "B:00012": BLOCKED,
    "B:00013": REFUSED,
    "B:00014": PARAMS,
    "B:00015": REFUSED,
    "B:00016": ACCOUNT,
    "B:00017": TEMPORARY,
    "B:00018": ACCOUNT,
    "B:00019": throttled(timedelta(minutes=10)),
    "B:00027": throttled(timedelta(minutes=1)),
    "B:00028": TEMPORARY,
    "B:00033": BLOCKED,
    "B:00034": BLOCKED,
    "B:00035": BLOCKED,
    "S:00193": throttled(timedelta(minutes=10)),
    "S:00194": throttled(timedelta(minutes=20)),  # the hour's limit; its window slides
}

# The gateway in front of every service: cloud.baidu.com/doc/Reference/s/Bjz3uz3qj-en
GATEWAY: Mapping[str, Verdict] = {
    "AccessDenied": KEYS,
    "InvalidAccessKeyId": KEYS,
    "InvalidHTTPAuthHeader": KEYS,
    "SignatureDoesNotMatch": KEYS,
    "RequestExpired": broken("this machine's clock is off"),
    "OptInRequired": ACCOUNT,
    "InappropriateJSON": REFUSED,
    "MalformedJSON": REFUSED,
    "InvalidHTTPRequest": REFUSED,
    "InternalError": TEMPORARY,
}
CODES: Mapping[str, Verdict] = {**TEXTS, **PLATFORM, **GATEWAY}
