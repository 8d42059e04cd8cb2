"""DingTalk's answers. All of them come with HTTP 200.

Sources:
    [page] open.dingtalk.com/document/orgapp/custom-robots-send-group-messages
    [safety] the same handbook's page on security settings (customize-robot-security-settings)
    owner/repository#n: a thread on GitHub that shows the answer
"""

from datetime import timedelta

from channels.answers import BAD_FORM, BROKEN, DELIVERED, REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.base import Mend, Outcome
from channels.outcomes import Row

# Over 20 a minute the robot is shut for ten minutes [page], so a second refusal waits that long.
RATE = Verdict(Outcome.THROTTLED, retry_after=timedelta(minutes=1), repeated_after=timedelta(minutes=10))
FLOOD = 1111  # `status` of the flood guard, which answers without an errcode

_NO_TOKEN = Verdict(Outcome.CHANNEL_BROKEN, hint="the access token in webhook_url is not known to DingTalk")
_KEYWORD = Verdict(Outcome.REFUSED, hint="the robot asks for a keyword: set the channel's keyword to it")
_SIGNATURE = Verdict(
    Outcome.CHANNEL_BROKEN, Mend.SIGN_AGAIN, hint="the channel's secret is wrong, or this machine's clock"
)
_ADDRESS = Verdict(Outcome.CHANNEL_BROKEN, hint="the robot's IP list does not hold this machine's address")
_QUOTA = Verdict(
    Outcome.CHANNEL_BROKEN,
    hint="the organisation's quota of robot messages is used up: test the channel once it is renewed",
)
_DISBANDED = Verdict(Outcome.CHANNEL_BROKEN, hint="the group was disbanded")
_STOPPED = Verdict(Outcome.CHANNEL_BROKEN, hint="the robot was stopped")
_REMOVED = Verdict(Outcome.CHANNEL_BROKEN, hint="the robot is no longer in the group")

TABLE = (
    # code, what it means, what its words say                 source
    Row(0, DELIVERED),  #                                     [page] "ok"; its sample shows "0" as text
    Row(-1, TEMPORARY),  #                                    [page] 系统繁忙
    Row(130101, RATE),  #                                     [page] send too fast, exceed 20 times per minute
    Row(410100, RATE),  #                                     [page] 发送速度太快而限流
    Row(FLOOD, RATE),  #                                      kubesphere/notification-manager
    Row(90030, _QUOTA),  #                                    opsre/WatchAlert#91: webhook over limit
    Row(310000, _KEYWORD, "keyword|关键词"),  #               timonwong/prometheus-webhook-dingtalk#197
    Row(310000, _SIGNATURE, "sign|签名|timestamp|时间戳"),  # [safety], megaease/easeprobe#202
    Row(310000, _ADDRESS, r"\bip\b|whitelist|白名单"),  #     [safety] ip X not in whitelist
    Row(310000, BROKEN),  #                                   [safety] one of the three, unsaid which
    Row(300001, RATE, "too fast|limit|frequen|频|限流"),  #   elsewhere it says that it was too fast
    Row(300001, _NO_TOKEN),  #                                [page] token is not exist
    Row(300005, _NO_TOKEN),  #                                seen live: an unknown token
    Row(400101, _NO_TOKEN),  #                                [page] access_token不存在
    Row(400013, _DISBANDED),  #                               [page] 群已被解散
    Row(400102, _STOPPED),  #                                 [page] 机器人已停用
    Row(400106, _REMOVED),  #                                 [page] 机器人不存在
    Row(40035, _NO_TOKEN, "access_token"),  #                 seen live: 缺少参数 access_token
    Row(40035, BAD_FORM),  #                                  [page] 不合法的参数
    Row(400105, BAD_FORM),  #                                 [page] 不支持的消息类型
    Row(range(400402, 400500), BAD_FORM),  #                  blinkbean/dingtalk#4, PrometheusAlert#63
    Row(43002, REFUSED),  #                                   seen live: a relay made a GET of it
    Row(43004, REFUSED),  #                                   [page] 无效的HTTP HEADER Content-Type
    Row(460101, TOO_LONG),  #                                 timonwong/prometheus-webhook-dingtalk#30
    Row(101002, TOO_LONG),  #                                 the same, as older robots say it
)  # fmt: skip
