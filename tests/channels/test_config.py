"""A config on its way between API, database and adapter; and what the kinds accept."""

import json

import pytest
from pydantic import SecretStr, ValidationError

from channels.base import Outcome
from channels.config import join, masked, merge, secrets_of, split
from channels.registry import ADAPTERS, adapter

WHSEC = "whsec_" + "a2tr" * 8
CONFIGS = {
    "dingtalk": {
        "webhook_url": "https://oapi.dingtalk.com/robot/send?access_token=TOKEN123",
        "secret": "SECsecret", "keyword": "告警", "at_mobiles": ["13800001111"], "at_all": True,
    },
    "wecom": {
        "webhook_url": "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=TOKEN123",
        "mentioned_user_ids": ["zhangsan", "@all"],
    },
    "feishu": {"webhook_url": "https://open.feishu.cn/open-apis/bot/v2/hook/TOKEN123", "secret": "SECsecret"},
    "email": {
        "to": ["a@example.com"], "cc": ["b@example.com"], "from": "Faultcast <f@example.com>",
        "smtp_url": "smtp://user:TOKEN123@mail.example.com:587",
    },
    "webhook": {
        "url": "https://hooks.example.com:8443/TOKEN123", "secret": WHSEC, "format": "cloudevents",
        "headers": {"Authorization": "Bearer TOKEN123", "X-Team": "nlp"},
    },
    "sms": {
        "provider": "aliyun", "to": ["+8613800001111"], "template_id": "SMS_1", "sign_name": "训练平台",
        "credentials": {"access_key_id": "LTAI-TOKEN123", "access_key_secret": "TOKEN123"},
        "params": {"job": "{{ job.name }}"},
    },
    "phone": {
        "provider": "twilio", "to": ["+4915112345678"], "from": "+14155550100", "play_times": 2,
        "credentials": {"account_sid": "AC-TOKEN123", "auth_token": "TOKEN123"},
    },
    "apprise": {"url": "gotify://push.example.com/TOKEN123"},
}  # fmt: skip


def parsed(kind, **changes):
    return ADAPTERS[kind].Config.model_validate({**CONFIGS[kind], **changes})


def faults(kind, given, stored=None):
    with pytest.raises(ValidationError) as refused:
        merge(ADAPTERS[kind].Config, given, stored)
    return {".".join(map(str, one["loc"])): one["msg"] for one in refused.value.errors()}


@pytest.fixture(params=CONFIGS)
def kind(request):
    return request.param


def test_every_kind_has_an_adapter_that_knows_its_name(kind):
    assert adapter(kind).kind == kind
    assert sorted(ADAPTERS) == sorted(CONFIGS)


def test_a_kind_whose_package_is_gone_says_so():
    gone = adapter("fax")
    (part,) = gone.parts(None, None)
    answer = gone.send(part, None, None, None)
    assert (answer.outcome, answer.code) == (Outcome.CHANNEL_BROKEN, "no_adapter")
    assert "fax" in answer.message
    assert "fax" not in ADAPTERS


def test_a_kind_whose_package_is_gone_shows_nothing_of_its_config():
    assert masked(join(adapter("fax").Config, {"number": "1"}, {"pin": "CANARY"})) == {}


def test_split_and_join_are_inverse(kind):
    plain, secret = split(parsed(kind))
    assert join(ADAPTERS[kind].Config, *map(json.loads, map(json.dumps, (plain, secret)))) == parsed(kind)


def test_the_plain_half_holds_no_secret(kind):
    plain, secret = split(parsed(kind))
    assert "TOKEN123" not in json.dumps(plain)
    assert "TOKEN123" in json.dumps(secret)


def test_masked_holds_no_secret_and_still_tells_where_to(kind):
    shown = json.dumps(masked(parsed(kind)))
    for secret in ("TOKEN123", "SECsecret", WHSEC, "nlp"):
        assert secret not in shown
    assert "/***" in shown or '"to"' in shown


def test_masked_urls():
    assert masked(parsed("webhook"))["url"] == "https://hooks.example.com:8443/***"
    assert masked(parsed("email"))["smtp_url"] == "smtp://mail.example.com:587/***"
    assert masked(parsed("webhook"))["headers"] == {"Authorization": "***", "X-Team": "***"}


def test_neither_prints_its_secrets(kind):
    for text in (repr(parsed(kind)), str(parsed(kind)), parsed(kind).model_dump_json()):
        assert "TOKEN123" not in text
        assert "SECsecret" not in text


def test_what_is_masked_keeps_what_is_stored(kind):
    assert merge(ADAPTERS[kind].Config, masked(parsed(kind)), parsed(kind)) == parsed(kind)


def test_one_header_changed_the_other_kept():
    given = {
        **masked(parsed("webhook")),
        "headers": {"Authorization": "***", "X-Team": "vision", "X-New": "1"},
    }
    merged = merge(ADAPTERS["webhook"].Config, given, parsed("webhook"))
    assert split(merged)[1]["headers"] == {
        "Authorization": "Bearer TOKEN123",
        "X-Team": "vision",
        "X-New": "1",
    }


def test_a_secret_left_out_is_taken_away():
    given = {name: value for name, value in masked(parsed("dingtalk")).items() if name != "secret"}
    assert merge(ADAPTERS["dingtalk"].Config, given, parsed("dingtalk")).secret is None


@pytest.mark.parametrize(
    ("kind", "changes", "field"),
    [
        ("dingtalk", {"secret": "***"}, "secret"),
        ("dingtalk", {"webhook_url": "https://oapi.dingtalk.com/***"}, "webhook_url"),
        ("webhook", {"headers": {"Authorization": "***"}}, "headers.Authorization"),
        ("email", {"smtp_url": "smtp://mail.example.com/***"}, "smtp_url"),
    ],
)
def test_a_mask_where_nothing_is_stored(kind, changes, field):
    assert field in faults(kind, {**CONFIGS[kind], **changes})


def test_a_mask_does_not_carry_a_secret_to_another_host():
    given = {**masked(parsed("webhook")), "url": "https://evil.example.com/***"}
    assert "url" in faults("webhook", given, parsed("webhook"))


@pytest.mark.parametrize(
    ("kind", "changes", "field"),
    [
        ("dingtalk", {"webhook_url": ""}, "webhook_url"),
        ("dingtalk", {"webhook_url": "oapi.dingtalk.com/robot"}, "webhook_url"),
        ("dingtalk", {"webhook_url": "https://user:pw@oapi.dingtalk.com/"}, "webhook_url"),
        ("dingtalk", {"webhook_url": "https://x.example/\r\nX: 1"}, "webhook_url"),
        ("dingtalk", {"webhook_url": "https://x.example/" + "a" * 3000}, "webhook_url"),
        ("dingtalk", {"webhook_url": 7}, "webhook_url"),
        ("dingtalk", {"webhook_url": {"a": "***"}}, "webhook_url.a"),
        ("dingtalk", {"webhook_url": {"a": "b"}}, "webhook_url"),
        ("dingtalk", {"secret": ""}, "secret"),
        ("dingtalk", {"secret": "a\nb"}, "secret"),
        ("dingtalk", {"keyword": "<at>"}, "keyword"),
        ("dingtalk", {"keyword": "k" * 65}, "keyword"),
        ("dingtalk", {"at_mobiles": ["call me"]}, "at_mobiles.0"),
        ("dingtalk", {"at_all": "no"}, "at_all"),
        ("feishu", {"at_all": 1}, "at_all"),
        ("phone", {"play_times": True}, "play_times"),
        ("dingtalk", {"at_mobiles": ["1３800001111"]}, "at_mobiles.0"),
        ("wecom", {"mentioned_mobiles": ["٣٤٥٦٧٨٩"]}, "mentioned_mobiles.0"),
        ("dingtalk", {"at_mobiles": ["13800001111"] * 21}, "at_mobiles"),
        ("dingtalk", {"at_user_ids": ["a b"]}, "at_user_ids.0"),
        ("dingtalk", {"at_all": "perhaps"}, "at_all"),
        ("dingtalk", {"surprise": 1}, "surprise"),
        ("wecom", {"mentioned_user_ids": ["<@all>"]}, "mentioned_user_ids.0"),
        ("feishu", {"at_open_ids": ['x"></at>']}, "at_open_ids.0"),
        ("email", {"to": []}, "to"),
        ("email", {"to": ["a@example.com\r\nBcc: b@example.com"]}, "to.0"),
        ("email", {"to": ["nobody"]}, "to.0"),
        ("email", {"from": "Eve <eve@example.com>\r\nBcc: x@example.com"}, "from"),
        ("email", {"smtp_url": "http://mail.example.com"}, "smtp_url"),
        ("email", {"smtp_url": "smtp://mail.example.com?starttls=maybe"}, "smtp_url"),
        ("email", {"smtp_url": "smtp://u:p#ss@mail.example.com"}, "smtp_url"),
        ("webhook", {"secret": "not-a-whsec"}, "secret"),
        ("webhook", {"format": "xml"}, "format"),
        ("webhook", {"headers": {"Host": "x"}}, "headers"),
        ("webhook", {"headers": {"webhook-signature": "x"}}, "headers"),
        ("webhook", {"headers": {"X Y": "x"}}, "headers"),
        ("webhook", {"headers": {"X": "a\r\nY: b"}}, "headers"),
        ("webhook", {"headers": {"X": "训"}}, "headers"),
    ],
)
def test_what_is_refused(kind, changes, field):
    assert field in faults(kind, {**CONFIGS[kind], **changes})


def test_a_refusal_tells_no_secret():
    with pytest.raises(ValidationError) as refused:
        parsed("dingtalk", webhook_url="https://TOKEN123@x.example/", secret="TOKEN123\n\x00")
    assert "TOKEN123" not in str(refused.value)


def test_a_key_pasted_with_blanks_is_trimmed():
    pasted = parsed("dingtalk", secret=" SECsecret\n", webhook_url="\thttps://x.example/a ")
    assert pasted.secret == SecretStr("SECsecret")
    assert pasted.targets() == ("https://x.example/a",)


@pytest.mark.parametrize(
    ("kind", "changes", "word"),
    [
        ("dingtalk", {"webhook_url": "https://relay.example/robot"}, "webhook_url"),
        ("dingtalk", {"secret": None, "keyword": None}, "IP list"),
        ("wecom", {"mentioned_mobiles": ["13800001111"]}, "second message"),
        ("feishu", {"at_all": True}, "at_all"),
        ("email", {"smtp_url": "smtp://mail.example.com?starttls=off"}, "clear"),
        ("webhook", {"url": "http://hooks.example.com/"}, "clear"),
        ("webhook", {"secret": None}, "secret"),
    ],
)
def test_lint_warns(kind, changes, word):
    assert any(word in warning for warning in parsed(kind, **changes).lint())


def test_a_usual_config_has_no_warnings():
    assert parsed("dingtalk", at_all=False).lint() == ()
    for kind in ("feishu", "email", "webhook"):
        assert parsed(kind).lint() == ()


def test_secrets_of_knows_every_piece(kind):
    assert "TOKEN123" in secrets_of(parsed(kind))


MOVES = {
    "a webhook's headers": ("webhook", {"url": "https://attacker.example.com/x"}, "headers.Authorization"),
    "the same host without TLS": ("webhook", {"url": "http://hooks.example.com:8443/x"}, "headers.X-Team"),
    "credentials to an endpoint": ("phone", {"endpoint": "attacker.example.com"}, "credentials.auth_token"),
}


@pytest.mark.parametrize(("kind", "change", "field"), MOVES.values(), ids=MOVES.keys())
def test_masked_secrets_do_not_follow_to_another_address(kind, change, field):
    stored = parsed(kind)
    assert "for this address" in faults(kind, {**masked(stored), **change}, stored)[field]


def test_masked_secrets_stay_where_the_address_does():
    stored = parsed("webhook")
    kept = merge(type(stored), {**masked(stored), "url": "https://hooks.example.com:8443/other"}, stored)
    assert kept.headers == stored.headers
    called = parsed("phone", endpoint="api.example.com")
    assert merge(type(called), {**masked(called), "play_times": 1}, called).credentials == called.credentials
