"""By what robots are known: one robot has one limit, however its URL is written."""

import pytest

from channels.registry import ADAPTERS

DING = "https://oapi.dingtalk.com/robot/send?access_token=token-of-it"
WECOM = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=token-of-it"
FEISHU = "https://open.feishu.cn/open-apis/bot/v2/hook/token-of-it"
RELAY = "https://relay.example.com/robots/7?via=x"


def meter(kind: str, url: str) -> str:
    (name,) = ADAPTERS[kind].Config.model_validate({"webhook_url": url}).meters().values()
    return name


SAME = {
    "trailing &": ("dingtalk", DING, f"{DING}&"),
    "trailing #": ("dingtalk", DING, f"{DING}#"),
    "scheme and host in capitals": ("dingtalk", DING, DING.replace("https://oapi", "HTTPS://OAPI")),
    "default port": ("dingtalk", DING, DING.replace(".com/", ".com:443/")),
    "plain HTTP": ("dingtalk", DING, DING.replace("https", "http")),
    "plain HTTP's port": ("dingtalk", DING, DING.replace("https", "http").replace(".com/", ".com:80/")),
    "left over from a request": ("dingtalk", DING, f"{DING}&timestamp=1&sign=x%3D"),
    "before the token": ("dingtalk", DING, DING.replace("?", "?a=1&")),
    "escaped": ("dingtalk", DING, DING.replace("=token", "=%74oken")),
    "WeCom": ("wecom", WECOM, f"{WECOM}&debug=1"),
    "Feishu": ("feishu", FEISHU, f"{FEISHU}/?x=1#y"),
    "a relay's robot": ("dingtalk", RELAY, f"{RELAY}&timestamp=1#"),
}
OTHERS = {
    "token": ("dingtalk", DING, f"{DING}d"),
    "token's case": ("dingtalk", DING, DING.replace("=token", "=TOKEN")),
    "host": ("feishu", FEISHU, FEISHU.replace("feishu.cn", "larksuite.com")),
    "port": ("wecom", WECOM, WECOM.replace(".com/", ".com:8443/")),
    "Feishu's token": ("feishu", FEISHU, f"{FEISHU}d"),
    "a relay's path": ("dingtalk", RELAY, RELAY.replace("7", "8")),
    "a relay's query": ("feishu", RELAY, f"{RELAY}y"),
}


@pytest.mark.parametrize(("kind", "one", "other"), SAME.values(), ids=SAME)
def test_the_same_robot(kind: str, one: str, other: str) -> None:
    assert meter(kind, one) == meter(kind, other)
    assert "token-of-it" not in meter(kind, one)


@pytest.mark.parametrize(("kind", "one", "other"), OTHERS.values(), ids=OTHERS)
def test_another_robot(kind: str, one: str, other: str) -> None:
    assert meter(kind, one) != meter(kind, other)


def test_another_provider() -> None:
    assert meter("dingtalk", RELAY) != meter("wecom", RELAY)
