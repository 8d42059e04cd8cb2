"""Golden vectors, computed by others (Python and openssl): PROVIDERS 7."""

from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook as Receiver
from standardwebhooks import WebhookVerificationError

from channels.dingtalk import DingTalkConfig, signature, signed_url
from channels.feishu import FeishuConfig
from channels.feishu import signature as feishu_signature
from channels.feishu import signed as feishu_signed
from channels.webhook import WebhookConfig, signed, signing_key
from channels.webhook import signature as webhook_signature

MOMENT = datetime.fromtimestamp(1_700_000_000, UTC)
DINGTALK_SECRET = "SECtest" + "0" * 60
FEISHU_SIGN = "e3MJ8Q5llVxGJ8pVkGPBhexDAgjvYqpjPP1GkY9XceI="
WHSEC = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"


def test_dingtalk_vector():
    assert signature(DINGTALK_SECRET, 1_700_000_000_000) == "g6wL9xCvUGAPV+Is5LEr8aOWWzCf6zvFQzp8xYyWxhI="


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=8))], ids=["utc", "shanghai"])
def test_dingtalk_url_is_encoded_once(zone):
    config = DingTalkConfig(webhook_url="https://x.example/robot/send?access_token=T", secret=DINGTALK_SECRET)
    url = signed_url(config.webhook_url.get_secret_value(), config, MOMENT.astimezone(zone))
    assert url == (
        "https://x.example/robot/send?access_token=T&timestamp=1700000000000"
        "&sign=g6wL9xCvUGAPV%2BIs5LEr8aOWWzCf6zvFQzp8xYyWxhI%3D"
    )


def test_a_signature_that_was_pasted_with_the_url_is_replaced():
    old = "https://x.example/robot/send?timestamp=1&access_token=T&sign=old#frag"
    config = DingTalkConfig(webhook_url=old, secret=DINGTALK_SECRET)
    query = parse_qs(urlsplit(signed_url(old, config, MOMENT)).query)
    assert (query["timestamp"], query["access_token"], len(query["sign"])) == (["1700000000000"], ["T"], 1)


def test_without_a_secret_nothing_is_signed():
    url = "https://x.example/robot/send?access_token=T"
    assert signed_url(url, DingTalkConfig(webhook_url=url), MOMENT) == url
    assert feishu_signed(FeishuConfig(webhook_url=url), MOMENT) == {}


def test_feishu_vector():
    assert (
        feishu_signature("feishu-test-secret", 1_700_000_000)
        == "e3MJ8Q5llVxGJ8pVkGPBhexDAgjvYqpjPP1GkY9XceI="
    )


def test_feishu_sends_seconds_as_text():
    config = FeishuConfig(webhook_url="https://x.example/hook/1", secret="feishu-test-secret")
    assert feishu_signed(config, MOMENT) == {"timestamp": "1700000000", "sign": FEISHU_SIGN}


def test_standard_webhooks_vector():
    sign = "v1,bYr7Rz93bX8WqNI5XVthzq7NE/LcYrDkos9dgSLYHOc="
    assert webhook_signature(signing_key(WHSEC), "msg_1", 1_700_000_000, b'{"a":1}') == sign


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=8))], ids=["utc", "shanghai"])
def test_standard_webhooks_library_verifies_what_we_sign(zone):
    config = WebhookConfig(url="https://x.example/", secret=WHSEC)
    body = '{"标题":"训练"}'.encode()
    Receiver(WHSEC).verify(body, signed("dlv_1", body, config, datetime.now(zone)))


def test_while_the_secret_is_changed_both_verify():
    other = "whsec_" + "b2xs" * 8
    config = WebhookConfig(url="https://x.example/", secret=f"{other} {WHSEC}")
    headers = signed("dlv_1", b"{}", config, datetime.now(UTC))
    for secret in (WHSEC, other):
        Receiver(secret).verify(b"{}", headers)
    with pytest.raises(WebhookVerificationError):
        Receiver("whsec_" + "cnRy" * 8).verify(b"{}", headers)


@pytest.mark.parametrize("secret", ["", f"{WHSEC} {WHSEC} {WHSEC}", f"{WHSEC} plain", f"{WHSEC},{WHSEC}"])
def test_what_is_neither_one_secret_nor_two(secret):
    with pytest.raises(ValidationError):
        WebhookConfig(url="https://x.example/", secret=secret)


@pytest.mark.parametrize(
    "secret",
    ["plain", "whsec_", "whsec_!!!!", "whsec_" + "AAAA", "whsec_" + "A" * 100, "a2tr" * 8],
)
def test_what_is_not_a_standard_webhooks_secret(secret):
    assert signing_key(secret) is None
