"""What people read: whole, within the provider's bytes, called by name where asked, data as it is."""

import email
import email.policy
import json
import os
import time
from collections.abc import Iterator

import pytest

from channels.registry import ADAPTERS
from channels.standin import Scripted
from notifier.rendering import render
from tests.cases.town import Town, answers, said
from tests.notifier.messages import bodies, incident, recovery

ROBOTS = ("dingtalk", "wecom", "feishu")
KINDS = (*ROBOTS, "email", "webhook")
LINES = "\n".join(
    f"{n:02} 节点 node-{n:02} 的显卡掉线，训练停止，正在换节点重新启动，请检查网卡与显卡" for n in range(60)
)


def test_a_label_with_backslashes_and_quotes_is_still_valid_json(town: Town) -> None:
    """D-S05, ccfos/nightingale#2821: `\\D:` and `a"b` in a label broke a body made by hand."""
    town.channel("lark", "feishu")
    labels = {"path": "\\D:", "name": 'a"b', "where": "C:\\temp\\new"}
    town.settle(*town.publish("lark", labels=labels))
    (arrival,) = town.providers.messages("feishu")
    assert isinstance(arrival.body, dict)
    assert "temp" in json.dumps(arrival.body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("Failed \"scrape_job\".\n\n 'x' > 5\t<b>", id="D-S08"),
        pytest.param('" \\ \n </script> 🔥 100%', id="row 18"),
        pytest.param("{{ not.ours }} %s {0} ${x}", id="other people's templates"),
    ],
)
def test_no_text_breaks_the_body(town: Town, kind: str, words: str) -> None:
    """D-S08 and row 18: prometheus-msteams#56, nightingale pull 3372, grafana#26490, qinglong#1713, #2494."""
    town.channel("ops", kind)
    town.settle(*town.publish("ops", title=f"job {words}", text=words))
    (arrival,) = town.arrived(kind)
    shown = said(arrival) if kind != "webhook" else arrival.body["text"]
    for word in words.split():
        if word.isalnum():
            assert word in shown
    if kind == "webhook":
        assert arrival.body["text"].startswith(words)


def test_a_long_alert_is_told_in_numbered_parts_of_so_many_bytes_whole_lines_each(town: Town) -> None:
    """D-S07 and row 4: domain-admin#82, #152, PrometheusAlert#155, BiliBiliToolPro#702."""
    town.channel("wecom", "wecom")
    assert len(LINES.encode()) > 6000
    town.settle(*town.publish("wecom", text=LINES))
    parts = town.arrived("wecom")
    assert 2 <= len(parts) <= 3
    for n, part in enumerate(parts, 1):
        (form,) = (value for name, value in part.body.items() if name != "msgtype")
        assert len(form["content"].encode()) <= 4096
        assert f"({n}/{len(parts)})" in part.text
    assert [line for line in LINES.splitlines() if not any(line in part.text for part in parts)] == []


def test_a_long_alert_is_delivered_only_when_every_part_is(town: Town) -> None:
    """Row 4, the same threads."""
    town.channel("wecom", "wecom")
    town.providers.script("wecom", Scripted(), answers(-1, "system busy"))
    (one,) = town.publish("wecom", text=LINES)
    town.settle(one, state="retrying")
    assert town.outcomes(one) == ["delivered", "temporary"]
    town.settle_hastened(one, "delivered")
    titles = [part.text.splitlines()[0] for part in town.arrived("wecom")]
    assert len(titles) == len(set(titles)), "a part that was told is not told again"


def test_an_alert_that_is_too_long_for_all_parts_is_cut_visibly_never_dropped(town: Town) -> None:
    """Row 5: prometheus-webhook-dingtalk#30, pull 222: 21 KB; others drop it."""
    town.channel("ding", "dingtalk")
    (one,) = town.publish("ding", title="训练失败", text="罪魁：rank 3\n" + "日志" * 9990)
    town.settle(one)
    arrivals = town.providers.messages("dingtalk")
    assert all(one.is_accepted for one in arrivals), "the stand-in counts the bytes of the whole body"
    assert "罪魁：rank 3" in arrivals[0].text
    assert "…" in arrivals[-1].text, "that it was cut is seen"


@pytest.mark.parametrize("kind", ["dingtalk", "feishu"])
def test_the_keyword_is_in_every_part_and_in_the_recovery(town: Town, kind: str) -> None:
    """Row 6: ZhuLinsen/daily_stock_analysis pull 1554: only the first part had it."""
    town.channel("ops", kind, keyword="训练告警")
    known = {"dedup_key": "k", "source": "s"}
    labels = {f"name{n}": "长" * 250 for n in range(20)}
    town.settle(*town.publish("ops", title="failed", text="日志日志日志\n" * 2800, labels=labels, **known))
    back = town.api.post("/alerts", json={"title": "fine again", "status": "resolved", **known})
    town.settle(*back.json()["deliveries"])
    arrivals = town.providers.messages(kind)
    assert len(arrivals) >= 3
    assert all(one.is_accepted for one in arrivals), "the stand-in asks for the keyword"


def test_a_robots_keyword_is_added_to_what_lacks_it(town: Town) -> None:
    """Row 7: prometheus-webhook-dingtalk#197: robot with a keyword, template without."""
    town.channel("ding", "dingtalk", keyword="训练")
    assert town.test("ding")["outcome"] == "delivered"
    town.settle(*town.publish("ding", title="disk full"))
    assert all("训练" in said(one) for one in town.arrived("dingtalk"))


def test_a_channel_without_any_safety_setting_is_warned_of_when_it_is_saved(town: Town) -> None:
    """Row 7, the same thread: told before the night."""
    url = "https://oapi.dingtalk.com/robot/send?access_token=T"
    made = town.api.post("/channels", json={"name": "d", "kind": "dingtalk", "config": {"webhook_url": url}})
    assert any("keyword" in warning for warning in made.json()["warnings"])


def test_dingtalk_is_given_the_number_twice_or_nobody_is_called(town: Town) -> None:
    """D-S11 and row 9: prometheus-webhook-dingtalk#85, #116, #122; PrometheusAlert#54, #411, #289, #222."""
    town.channel("ding", "dingtalk", at_mobiles=["13900000000"])
    town.settle(*town.publish("ding", severity="critical"))
    assert "13900000000" in {who for one in town.arrived("dingtalk") for who in one.called}


def test_wecom_calls_user_ids_in_markdown_and_numbers_by_a_text_of_their_own(town: Town) -> None:
    """Row 9, the same threads."""
    town.channel("wecom", "wecom", mentioned_user_ids=["zhangsan"], mentioned_mobiles=["13900000000"])
    town.settle(*town.publish("wecom", severity="critical"))
    assert [one.called for one in town.arrived("wecom")] == [("zhangsan",), ("13900000000",)]


def test_an_id_that_nobody_has_does_not_stop_the_alert(town: Town) -> None:
    """Row 9, the same threads: a wrong id is no reason to tell nobody."""
    town.channel("wecom", "wecom", mentioned_user_ids=["nobody-of-that-name"])
    town.settle(*town.publish("wecom"))


@pytest.mark.parametrize("kind", ROBOTS)
@pytest.mark.parametrize(
    "data",
    [
        "<at id=all></at>", '<at user_id="all">', "<@all>", "@all", "@13800001111",
        "[click](http://evil.example)", "<img src=http://evil.example/x>", "<font color=red>", "*a_b* `c`",
        'Traceback:\n  File "x.py", line 1, in <module>\n    a[*b, _c_] = "<script>"',
    ],
)  # fmt: skip
def test_data_calls_nobody_and_is_read_as_it_is(town: Town, kind: str, data: str) -> None:
    """Row 19: hermes-agent#9816, #43437, sonar pull 161, cherry-studio#16578, prom2teams#186."""
    more = {
        "dingtalk": {"at_all": True},
        "wecom": {"mentioned_user_ids": ["@all"]},
        "feishu": {"at_all": True},
    }
    town.channel("ops", kind, **more[kind])
    town.settle(*town.publish("ops", severity="warning", title=f"x {data}", text=data, labels={"path": data}))
    (shown,) = town.arrived(kind)
    assert shown.called == ()
    for markup in ("<at", "<@", "](http://evil", "<font", "<script", "<img"):
        assert markup not in shown.text, "a robot's title is plain text by itself"


def test_a_subject_in_any_script_survives_the_mail(town: Town) -> None:
    """D-S19, zalando-zmon/zmon-worker pull 327, Icinga/icinga2 pull 6369."""
    title = "任务 llm-训练 🔥 失败\u00a0"
    town.channel("mail", "email")
    town.settle(*town.publish("mail", title=title))
    (mail,) = town.arrived("email")
    assert mail.body.partition("\n\n")[0].isascii(), "encoded as RFC 2047 has it"
    parsed = email.message_from_string(mail.body, policy=email.policy.default)
    assert "任务 llm-训练 🔥 失败" in parsed["Subject"]


@pytest.fixture(params=["UTC", "America/New_York"])
def container_timezone(request: pytest.FixtureRequest) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield request.param
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


@pytest.mark.parametrize("kind", KINDS)
def test_times_are_the_channels_own_with_their_offset(kind: str, container_timezone: str) -> None:
    """D-S17 and row 15: PrometheusAlert#220, #325, #99, nightingale#2147, uptime-kuma#2584, #2910."""
    shown = bodies(render(incident(), ADAPTERS[kind], "zh", "Asia/Shanghai", None))
    assert all("2026-09-04 14:14:15 +08:00" in text for text in shown)
    shown = bodies(render(recovery(), ADAPTERS[kind], "en", "America/New_York", None))
    assert all("-04:00" in text for text in shown)
