"""What looks wrong is said when a channel is saved, and refused only where it could never be sent."""

from typing import Any

import httpx
import pytest

DING = "https://oapi.dingtalk.com/robot/send?access_token=T"
RELAY = "https://relay.example/x"
CROWD = [f"{n:02}" + "u" * 40 for n in range(20)]
OPEN_MAIL = "smtp://mail.example.com?starttls=off"
LARK = "https://open.feishu.cn/open-apis/bot/v2/hook/T"
WECOM = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=T"
SMS: dict[str, Any] = {
    "provider": "aliyun", "to": ["+8613800001111"], "template_id": "SMS_1", "sign_name": "训练",
    "credentials": {"access_key_id": "a", "access_key_secret": "CANARY"},
}  # fmt: skip
TENCENT: dict[str, Any] = {
    **SMS, "provider": "tencent", "app_id": "1400000000",
    "credentials": {"secret_id": "a", "secret_key": "CANARY"},
}  # fmt: skip


def save(client: httpx.Client, kind: str, **config: Any) -> httpx.Response:
    return client.post("/channels", json={"name": "c", "kind": kind, "config": config})


CLEAN = {
    "dingtalk": ("dingtalk", {"webhook_url": DING, "secret": "SECx"}),
    "wecom": ("wecom", {"webhook_url": WECOM, "mentioned_user_ids": ["zhangsan"]}),
    "feishu": ("feishu", {"webhook_url": LARK, "secret": "x"}),
    "webhook": ("webhook", {"url": "https://example.com/x", "secret": "whsec_" + "a2tr" * 8}),
    "email": ("email", {"to": ["a@example.com"]}),
    "sms": ("sms", {**SMS, "params": {"text": "{{ title }}"}}),
    "sms by list": ("sms", {**TENCENT, "params": ["{{ title }}", "{{ job }}"]}),
}


@pytest.mark.parametrize(("kind", "config"), CLEAN.values(), ids=CLEAN)
def test_what_is_as_it_should_be_is_not_warned_of(
    admin: httpx.Client, kind: str, config: dict[str, Any]
) -> None:
    answer = save(admin, kind, **config)
    assert answer.status_code == 201, answer.text
    assert answer.json()["warnings"] == []


ODD = {
    "a keyword": ("dingtalk", {"webhook_url": DING, "keyword": "告警"}, "keyword:"),
    "no safety setting": ("dingtalk", {"webhook_url": DING}, "secret, keyword:"),
    "a secret of something else": ("dingtalk", {"webhook_url": DING, "secret": "whsec"}, "secret: Ding"),
    "everybody": ("dingtalk", {"webhook_url": DING, "secret": "SECx", "at_all": True}, "at_all:"),
    "another host": ("dingtalk", {"webhook_url": RELAY, "secret": "SECx"}, "webhook_url:"),
    "feishu without any": ("feishu", {"webhook_url": LARK}, "secret, keyword:"),
    "feishu and everybody": ("feishu", {"webhook_url": LARK, "secret": "x", "at_all": True}, "at_all:"),
    "wecom and numbers": ("wecom", {"webhook_url": WECOM, "mentioned_mobiles": ["13800001111"]}, "a second"),
    "wecom and a crowd": (
        "wecom", {"webhook_url": WECOM, "mentioned_user_ids": CROWD}, "bytes",
    ),
    "mail in the clear": (
        "email", {"to": ["a@example.com"], "smtp_url": OPEN_MAIL}, "in the clear",
    ),
    "webhook in the clear": ("webhook", {"url": "http://example.com/x"}, "in the clear"),
    "a name that is no fact": ("sms", {**SMS, "params": {"text": "{{ jobb }}"}}, "params.text:"),
    "a name in a list": ("sms", {**TENCENT, "params": ["{{ title }}", "{{ jobb }}"]}, "params.1:"),
    "an address in a param": ("sms", {**SMS, "params": {"text": "https://x.example/y"}}, "link or address"),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "config", "warning"), ODD.values(), ids=ODD)
def test_what_is_odd_is_warned_of_and_never_refused(
    admin: httpx.Client, kind: str, config: dict[str, Any], warning: str
) -> None:
    answer = save(admin, kind, **config)
    assert answer.status_code == 201, answer.text
    assert any(warning in said for said in answer.json()["warnings"]), answer.json()["warnings"]
    assert "CANARY" not in answer.text


@pytest.mark.parametrize(
    ("config", "field"),
    [
        pytest.param({**SMS, "params": {"text": "{{ title"}}, "config.params.text", id="by name"),
        pytest.param({**TENCENT, "params": ["{{ title }}", "{% if %}"]}, "config.params.1", id="in a list"),
        pytest.param(
            {**SMS, "params": {"text": "{{ title | nofilter }}"}}, "config.params.text", id="a filter"
        ),
        pytest.param({**SMS, "params": {"text": "{{ 1 / 0 }}"}}, "config.params.text", id="by nought"),
    ],
)
def test_a_param_that_can_never_be_filled_is_refused(
    admin: httpx.Client, config: dict[str, Any], field: str
) -> None:
    answer = save(admin, "sms", **config)
    assert answer.status_code == 422
    assert [one["field"] for one in answer.json()["errors"]] == [field]
    assert "CANARY" not in answer.text


def test_a_channel_that_is_changed_is_looked_at_again(admin: httpx.Client) -> None:
    assert save(admin, "sms", **SMS, params={"text": "{{ title }}"}).status_code == 201
    config = {**SMS, "params": {"text": "{{ jobb }}"}}
    changed = admin.put("/channels/c", json={"config": config})
    assert any("params.text" in said for said in changed.json()["warnings"])
