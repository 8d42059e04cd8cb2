"""Feishu's and Lark's answers. Mostly with HTTP 200; 9499 with 400 too, 99991400 with 400 or 429.

Sources:
    [bot] open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
    [rates] open.larkoffice.com/document/ukTMukTMukTM/uUzN04SN3QjL1cDN.md
    owner/repository#n: a thread on GitHub that shows the answer
"""

from datetime import timedelta

from channels.answers import BAD_FORM, DELIVERED, TOO_LONG, Verdict
from channels.base import Mend, Outcome
from channels.outcomes import Row

# 5 a second and 100 a minute [rates]; the full and the half hour are the busy ones.
RATE = Verdict(Outcome.THROTTLED, retry_after=timedelta(seconds=1), repeated_after=timedelta(minutes=1))

_NO_TOKEN = Verdict(Outcome.CHANNEL_BROKEN, hint="the token in webhook_url is not known to Feishu")
_SIGNATURE = Verdict(
    Outcome.CHANNEL_BROKEN, Mend.SIGN_AGAIN, hint="the channel's secret is wrong, or this machine's clock"
)
_ADDRESS = Verdict(Outcome.CHANNEL_BROKEN, hint="the robot's IP list does not hold this machine's address")
_KEYWORD = Verdict(Outcome.REFUSED, hint="the robot asks for a keyword: set the channel's keyword to it")

TABLE = (
    # code, what it means, what its words say       source
    Row(0, DELIVERED),  #                           [bot] success
    Row(11232, RATE),  #                            [rates] frequency limited psm[…]
    Row(9499, RATE, "too many|frequency|limit"),  # ccfos/nightingale#1437: too many request
    Row(9499, TOO_LONG, "large|size"),  #           [bot] a request has at most 20 KB
    Row(9499, BAD_FORM),  #                         ccfos/nightingale#2821: Bad Request
    Row(99991400, RATE),  #                         [rates] with x-ogw-ratelimit-reset
    Row(19021, _SIGNATURE),  #                      feiyu563/PrometheusAlert#422
    Row(19022, _ADDRESS),  #                        [bot] Ip Not Allowed
    Row(19024, _KEYWORD),  #                        [bot] Key Words Not Found
    Row(19001, _NO_TOKEN, "token"),  #              [bot] incoming webhook access token invalid
    Row(19001, BAD_FORM),  #                        [bot] param invalid
    Row(19002, BAD_FORM),  #                        [bot] params error, msg_type need
    Row(19036, BAD_FORM),  #                        [bot] bad payload
    Row(11246, BAD_FORM),  #                        [bot] parse card json err
    Row(200621, BAD_FORM),  #                       the same of cards in form 2.0
)  # fmt: skip
