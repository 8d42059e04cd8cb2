"""What Twilio's answers and receipts mean, as tables. A code that stands in none of them is temporary.

Codes: twilio.com/docs/api/errors/CODE, each with a page of its own. Unlike others, Twilio says what it means
by the HTTP status too; the code is in the body.
"""

from collections.abc import Mapping
from datetime import timedelta

from channels.answers import REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.base import Outcome
from channels.outcomes import broken, refused, throttled

SOON, LATER = throttled(timedelta(seconds=5)), throttled(timedelta(hours=1))
UNKNOWN = Verdict(Outcome.AMBIGUOUS, hint="Twilio failed on the way: it may have sent it")
ACCOUNT = broken("the account is suspended, closed or out of money")
KEYS = broken("account_sid or auth_token is wrong")
TRIAL = refused("a trial account reaches verified numbers only")
SENDER = broken("from is not a number of this account that can do this")
COUNTRY = refused("the account may not reach this country: see Geo Permissions in the console")

TABLE: Mapping[int, Verdict] = {
    # The account
    10001: ACCOUNT,
    10002: ACCOUNT,  # a trial account lacks this feature
    20003: KEYS,
    20005: ACCOUNT,
    20006: broken("the key may not do this"),
    20008: broken("test credentials send nothing"),
    20403: ACCOUNT,
    20404: KEYS,  # of POST: the account in the path does not exist
    63018: SOON,  # the channel's rate
    63038: LATER,  # the account's messages of a day
    # The API
    20001: REFUSED,
    20004: REFUSED,
    20422: REFUSED,
    20429: SOON,  # "429 = never processed, always safe to retry"
    20500: UNKNOWN,  # "retrying a POST may duplicate"
    20503: TEMPORARY,
    21730: TEMPORARY,  # maintenance
    # Texts
    14107: SOON,
    21211: REFUSED,
    21212: SENDER,
    21213: SENDER,
    21408: COUNTRY,
    21602: REFUSED,
    21603: SENDER,
    21604: REFUSED,
    21605: TOO_LONG,
    21606: SENDER,
    21607: SENDER,
    21608: TRIAL,
    21610: refused("the person has answered STOP to this sender"),
    21611: SOON,  # this sender's queue is full
    21612: refused("no way from this sender to this number"),
    21614: refused("not a mobile number"),
    21617: TOO_LONG,
    21619: REFUSED,
    21659: SENDER,
    21660: SENDER,
    21701: SENDER,  # from names a messaging service
    21703: SENDER,
    21705: SENDER,
    # Calls
    10003: ACCOUNT,
    10004: SOON,  # calls at once
    21201: REFUSED,
    21202: REFUSED,
    21203: COUNTRY,
    21205: REFUSED,
    21210: SENDER,
    21214: REFUSED,
    21215: COUNTRY,
    21216: refused("Twilio blocks calls to this number"),
    21217: REFUSED,
    21219: TRIAL,
    13223: REFUSED,
    13224: REFUSED,
    13225: REFUSED,
    13227: COUNTRY,
}

# Where the body holds no code: what is said of 20429 and 20500 is said of the status.
STATUS: Mapping[int, Verdict] = {429: SOON, 500: UNKNOWN}

# twilio.com/docs/messaging/api/message-resource (status), twilio.com/docs/voice/api/call-resource.
# What is not listed is under way: "sent" is the carrier's word, not the handset's.
TEXT_ENDS: Mapping[str, Outcome] = {
    "delivered": Outcome.DELIVERED,
    "read": Outcome.DELIVERED,
    "undelivered": Outcome.REFUSED,
    "failed": Outcome.REFUSED,
    "canceled": Outcome.REFUSED,
}
CALL_ENDS: Mapping[str, Outcome] = {
    "completed": Outcome.DELIVERED,  # it was picked up
    "busy": Outcome.REFUSED,
    "no-answer": Outcome.REFUSED,
    "failed": Outcome.REFUSED,
    "canceled": Outcome.REFUSED,
}
QUEUE_OVERFLOW = 30001  # twilio.com/docs/api/errors/30001: it never left Twilio, so it may be sent again


def verdict(status: int, code: int | None) -> Verdict | None:
    return TABLE.get(code) if code is not None else STATUS.get(status)
