"""What a service reached through Apprise says by its HTTP status, where Apprise reports a failure.

Apprise itself tells success and failure only; its success is taken for no more than `accepted`. A status
that is not listed is tried again. Source: RFC 9110, and RFC 6585 for 429; the services' own pages agree on
401, 403, 404 and 410 for a token, a room or a webhook that is wrong or gone.
"""

from channels.answers import REDIRECTED, REFUSED, TEMPORARY, THROTTLED, TOO_LONG, Verdict
from channels.base import Outcome
from channels.outcomes import Row

_WRONG = Verdict(Outcome.CHANNEL_BROKEN, hint="a token, a target or the host in url is wrong")

TABLE = (
    # status, what it means              why
    Row(range(200, 300), TEMPORARY),  #  the service's own code in the body says no
    Row(range(300, 400), REDIRECTED),  # not followed: it would lead past the address guard
    Row(401, _WRONG),
    Row(403, _WRONG),
    Row(404, _WRONG),
    Row(407, TEMPORARY),  #              our proxy's word, not the service's
    Row(408, TEMPORARY),
    Row(410, _WRONG),
    Row(413, TOO_LONG),
    Row(423, TEMPORARY),
    Row(425, TEMPORARY),
    Row(429, THROTTLED),  #              with Retry-After
    Row(range(400, 500), REFUSED),  #    the same request would be refused again
    Row(range(500, 600), TEMPORARY),
)  # fmt: skip
