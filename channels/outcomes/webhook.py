"""What a receiver of webhooks says: its HTTP status, and nothing else; it owes no body.

Sources:
    [spec] www.standardwebhooks.com, "Delivering webhooks": what is tried again and what is not
    [RFC n] of the status itself
"""

from channels.answers import DELIVERED, REDIRECTED, REFUSED, TEMPORARY, THROTTLED, TOO_LONG, Verdict
from channels.base import Outcome
from channels.outcomes import Row

_GONE = Verdict(Outcome.REFUSED, hint="the receiver is gone")

TABLE = (
    # status, what it means              source
    Row(range(200, 300), DELIVERED),  #  [spec] any 2xx
    Row(range(300, 400), REDIRECTED),  # [spec] not followed: it would lead past the address guard
    Row(408, TEMPORARY),  #              [RFC 9110] the request came too slowly
    Row(410, _GONE),  #                  [spec] the receiver wants no more
    Row(413, TOO_LONG),  #               [RFC 9110] content too large
    Row(425, TEMPORARY),  #              [RFC 8470] too early
    Row(429, THROTTLED),  #              [RFC 6585] with Retry-After
    Row(range(400, 500), REFUSED),  #    [spec] the same request would be refused again
    Row(range(500, 600), TEMPORARY),  #  [spec] with Retry-After where it is given
)  # fmt: skip
