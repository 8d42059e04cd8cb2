"""The provider's own code decides, never HTTP 200: what each answer must come to, through the engine."""

import json
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest

from channels.dingtalk import DingTalkConfig, signature, signed_url
from channels.feishu import signature as feishu_signature
from channels.standin import Scripted
from notifier.clock import utcnow
from tests.cases.town import Town, answers, said

SECRET = "SECtest" + "0" * 60
NOT_ONE_HOUR = "sign match fail or timestamp is not within one hour from current time"


def test_a_refusal_that_comes_with_http_200_fails_for_good_and_the_fallback_is_told(town: Town) -> None:
    """D-S01, blinkbean/dingtalk#4: 400402 "markdown title missing"."""
    town.channel("ding", "dingtalk")
    town.channel("mail", "email")
    town.providers.script("dingtalk", *[answers(400402, "markdown title missing")] * 3)
    (one,) = town.publish("ding", fallback=["mail"])
    with town.working():
        town.house.told(one, state="failed")
        town.house.until(lambda: town.arrived("email"))
    row = town.delivery(one)
    assert (row["error"]["code"], row["error"]["permanent"]) == ("400402", True)
    bodies = [json.dumps(one.body, sort_keys=True) for one in town.providers.messages("dingtalk")]
    assert len(bodies) == len(set(bodies)) == 2, "once more as plain text, never the same body again"


@pytest.mark.parametrize(
    ("code", "words", "setting"),
    [
        pytest.param(310000, "keywords not in content", "keyword", id="keyword"),
        pytest.param(310000, "sign not match", "secret", id="signature"),
        pytest.param(310000, "ip 192.0.2.1 not in whitelist", "IP list", id="address"),
        pytest.param(300005, "token is not exist", "access token", id="token"),
    ],
)
def test_the_owner_is_told_which_safety_setting_fails(
    town: Town, code: int, words: str, setting: str
) -> None:
    """D-S02, develop202/kgcheckin pull 29; prometheus-webhook-dingtalk#197."""
    town.channel("ding", "dingtalk")
    town.providers.script("dingtalk", *[answers(code, words)] * 2)
    found = town.test("ding")
    assert (found["http_status"], found["provider_code"]) == (200, str(code))
    assert found["outcome"] in ("refused", "channel_broken")
    assert words in found["provider_message"]
    assert setting in found["provider_message"]


def test_feishu_is_signed_in_seconds_with_the_secret_in_the_key(town: Town) -> None:
    """D-S03, feiyu563/PrometheusAlert#422: 19021 with milliseconds or the HMAC's halves swapped."""
    town.channel("lark", "feishu", secret="feishu-test-secret")
    town.settle(*town.publish("lark"))
    (shown,) = town.arrived("feishu")
    assert len(shown.body["timestamp"]) == 10
    assert (
        feishu_signature("feishu-test-secret", 1700000000) == "e3MJ8Q5llVxGJ8pVkGPBhexDAgjvYqpjPP1GkY9XceI="
    )


def test_feishu_is_signed_anew_once_and_then_the_channel_is_broken(town: Town) -> None:
    """D-S03, the same thread: for good after one more signature, with a word on the clock."""
    town.channel("lark", "feishu", secret="a-secret")
    town.providers.script("feishu", *[answers(19021, NOT_ONE_HOUR, kind="feishu")] * 5)
    (one,) = town.publish("lark")
    town.settle(one, state="failed")
    assert [attempt.trigger for attempt in town.attempts(one)] == ["alert", "sign_again"]
    channel = town.api.get("/channels/lark").json()
    assert channel["health"] == "broken"
    assert "clock" in town.attempts(one)[-1].provider_message


def test_every_try_is_signed_for_its_own_moment(town: Town) -> None:
    """D-S04, leitingting08/ding-bot-sdk#3: signed once at the start, refused an hour later."""
    town.channel("ding", "dingtalk", secret=SECRET)
    town.providers.script("dingtalk", Scripted(500), Scripted(502))
    (one,) = town.publish("ding")
    town.settle_hastened(one, "delivered")
    stamps = [arrival.query["timestamp"] for arrival in town.providers.messages("dingtalk")]
    assert len(set(stamps)) == 3
    assert stamps == sorted(stamps)


def test_a_stale_signature_is_made_anew_and_goes_through(town: Town) -> None:
    """D-S04, the same thread: 310000 "invalid timestamp" once."""
    town.channel("ding", "dingtalk", secret=SECRET)
    town.providers.script("dingtalk", answers(310000, "invalid timestamp"))
    (one,) = town.publish("ding")
    town.settle(one)
    assert town.outcomes(one) == ["channel_broken", "delivered"]
    assert town.api.get("/channels/ding").json()["health"] == "ok"


@pytest.mark.parametrize("n", range(8))
def test_the_signature_is_percent_encoded_exactly_once(town: Town, n: int) -> None:
    """D-S06 and row 8: x-cold/dingtalk-robot#7, wowiwj/ding-notice#11, jenkinsci/dingtalk-plugin#413."""
    secret = f"SEC{n}" + "x" * n
    town.channel("ding", "dingtalk", secret=secret)
    town.settle(*town.publish("ding"))  # the stand-in decodes once and checks the HMAC
    (arrival,) = town.providers.messages("dingtalk")
    assert arrival.query["sign"] == signature(secret, int(arrival.query["timestamp"]))


def test_the_golden_vector_of_dingtalk(town: Town) -> None:
    """Row 8: megaease/easeprobe#202, AI-Codereview-Gitlab#196; `+`, `/` and `=` in one signature."""
    right = "g6wL9xCvUGAPV+Is5LEr8aOWWzCf6zvFQzp8xYyWxhI="
    assert signature(SECRET, 1700000000000) == right
    config = DingTalkConfig(webhook_url="https://oapi.dingtalk.com/robot/send?access_token=T", secret=SECRET)
    moment = utcnow().replace(year=2023, month=11, day=14, hour=22, minute=13, second=20, microsecond=0)
    url = signed_url(config.webhook_url.get_secret_value(), config, moment)
    assert url.endswith("&sign=g6wL9xCvUGAPV%2BIs5LEr8aOWWzCf6zvFQzp8xYyWxhI%3D")
    assert dict(parse_qsl(urlsplit(url).query))["sign"] == right


def test_a_malformed_body_and_too_many_requests_are_told_apart_though_the_code_is_one(town: Town) -> None:
    """D-S05, ccfos/nightingale#2821: the 9499 that is for good, and D-S09's that is not."""
    town.channel("lark", "feishu")
    town.channel("mail", "email")
    town.providers.script("feishu", *[answers(9499, "Bad Request", status=400, kind="feishu")] * 5)
    (bad,) = town.publish("lark", fallback=["mail"])
    town.settle(bad, state="failed")
    assert [attempt.trigger for attempt in town.attempts(bad)] == ["alert", "plain_text"]
    town.providers.clear()
    town.providers.script("feishu", answers(9499, "too many request", status=400, kind="feishu"))
    (busy,) = town.publish("lark")
    town.settle(busy)
    assert town.outcomes(busy) == ["throttled", "delivered"]


def test_too_many_requests_are_no_success_and_nothing_is_lost(town: Town) -> None:
    """D-S09 and row 1: ccfos/nightingale#1437, #369: 400 and 9499 after the fifth, logged as sent, lost."""
    town.channel("lark", "feishu", limited=False)
    busy = answers(9499, "too many request", status=400, kind="feishu")
    town.providers.script("feishu", *[Scripted()] * 5, busy)
    ids = [town.publish("lark", title=f"alert {n:02}")[0] for n in range(30)]
    town.tell_all(ids)
    shown = "".join(said(message) for message in town.arrived("feishu"))
    assert [n for n in range(30) if f"alert {n:02}" not in shown] == []
    logged = [attempt for row in town.house.rows() for attempt in town.attempts(row.id)]
    assert {attempt.outcome for attempt in logged if attempt.provider_code != "0"} == {"throttled"}


def test_a_receiver_is_asked_again_when_it_said_so_and_its_alert_is_told_though_it_is_over(
    town: Town,
) -> None:
    """Row 11: prometheus/alertmanager#2121, #2205, SigNoz#12891: 429 with Retry-After: 7."""
    town.channel("hook")
    town.providers.script("webhook", Scripted(429, headers={"Retry-After": "7"}))
    (one,) = town.publish("hook", dedup_key="k", source="s", title="disk full")
    town.settle(one, state="retrying")
    row = town.house.row(one)
    assert 6 < (row.next_attempt_at - town.attempts(one)[0].finished_at).total_seconds() <= 8
    assert row.tries == 0
    town.api.post(
        "/alerts", json={"title": "disk full", "dedup_key": "k", "source": "s", "status": "resolved"}
    )
    town.house.edit_channel(row.channel_id, paused_until=None)
    town.house.hasten(one)
    town.tell_all([one])
    assert "disk full" in "".join(said(message) for message in town.arrived())


def test_a_receiver_that_is_down_is_asked_seldom(town: Town) -> None:
    """Row 12: prometheus/alertmanager#2286: 200 tries in ten minutes."""
    town.channel("hook")
    town.providers.script("webhook", *[Scripted(500)] * 60)
    (one,) = town.publish("hook")
    waited, tries = timedelta(0), 0
    with town.working():
        while waited < timedelta(minutes=10):
            tries += 1
            count = tries
            town.house.until(lambda count=count: len([a for a in town.attempts(one) if a.outcome]) == count)
            town.house.told(one, state="retrying")
            waited += town.house.row(one).next_attempt_at - town.attempts(one)[-1].finished_at
            town.house.hasten(one)
    assert 4 <= tries <= 8


def test_a_test_shows_the_providers_code_and_words(town: Town) -> None:
    """Row 22: kubesphere#6247: "test returns success, bot gets nothing"."""
    known = town.robot("wecom", token="known").url
    town.channel("wecom", "wecom", webhook_url=known.replace("known", "unknown"))
    found = town.test("wecom")
    assert (found["outcome"], found["http_status"], found["provider_code"]) == (
        "channel_broken",
        200,
        "93000",
    )
    assert "invalid webhook url" in found["provider_message"]


def test_a_used_up_quota_fails_over_and_says_once_that_the_channel_fails(town: Town) -> None:
    """Row 24: opsre/WatchAlert#91: the month's messages of a robot are used up."""
    robot = town.robot("dingtalk", quota=1)
    town.channel("ding", "dingtalk", webhook_url=robot.url)
    town.channel("mail", "email")
    town.api.put(
        "/pools/default/alerts", json={"rules": [{"channels": ["mail"], "items": ["channelFailing"]}]}
    )
    (told,) = town.publish("ding", title="first")
    town.settle(told)
    (refused,) = town.publish("ding", title="second", fallback=["mail"])
    town.settle(refused, state="failed")
    held, *_ = town.publish("ding", title="third", fallback=["mail"])
    with town.working():
        town.house.until(lambda: len(town.arrived("email")) >= 3)
    assert town.delivery(held)["state"] == "held"
    assert town.delivery(refused)["error"]["code"] == "90030"
    mails = [said(mail) for mail in town.arrived("email")]
    assert [any(word in mail for mail in mails) for word in ("second", "third")] == [True, True]
    assert sum("second" not in mail and "third" not in mail for mail in mails) == 1, "one word on the channel"
