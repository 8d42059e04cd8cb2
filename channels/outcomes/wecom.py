"""WeCom's answers. All of them come with HTTP 200.

The code decides, never the message [errors], but for 93000 and 40058, which have carried "content exceed
max length" too.

Sources:
    [robot] developer.work.weixin.qq.com/document/path/91770
    [errors] developer.work.weixin.qq.com/document/path/90455 and path/90313
    owner/repository#n: a thread on GitHub that shows the answer
"""

from datetime import timedelta

from channels.answers import BAD_FORM, DELIVERED, REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.base import Outcome
from channels.outcomes import Row

# 20 a minute [robot], and nothing is said of a penalty.
RATE = Verdict(Outcome.THROTTLED, retry_after=timedelta(minutes=1), repeated_after=timedelta(minutes=1))

_NO_KEY = Verdict(Outcome.CHANNEL_BROKEN, hint="the key in webhook_url is wrong or the robot was removed")

TABLE = (
    # code, what it means, what its words say     source
    Row(0, DELIVERED),  #                         [robot] ok
    Row(-1, TEMPORARY),  #                        [errors] system busy: at most three tries
    Row(6000, TEMPORARY),  #                      [errors] two changes at once
    Row(45009, RATE),  #                          [robot] api freq out of limit
    Row(45033, RATE),  #                          [errors] too many at once
    Row(45035, RATE),  #                          [errors] likewise
    Row(93000, TOO_LONG, "exceed max length"),  # older robots: content exceed max length
    Row(93000, _NO_KEY),  #                       [errors] invalid webhook url
    Row(40058, TOO_LONG, "exceed max length"),  # dromara/domain-admin#82, feiyu563/PrometheusAlert#155
    Row(40058, BAD_FORM),  #                      [errors] invalid request parameter
    Row(40008, BAD_FORM),  #                      [errors] invalid message type
    Row(40035, BAD_FORM),  #                      [errors] invalid parameter
    Row(40006, TOO_LONG),  #                      [errors] invalid media size
    Row(40009, TOO_LONG),  #                      [errors] invalid image size
    Row(45002, TOO_LONG),  #                      [errors] content size out of limit
    Row(44004, REFUSED),  #                       [errors] empty content
    Row(40014, REFUSED),  #                       [errors] invalid access token
    Row(range(301000, 302000), REFUSED),  #       [errors] 301002, 301019 …: not allowed
)  # fmt: skip
