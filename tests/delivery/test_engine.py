"""One engine, real databases, real HTTP: what is told, in which order, and what becomes of it."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from channels.standin import Scripted
from notifier.clock import utcnow
from notifier.model import Alert
from notifier.plan import RELEASED

if TYPE_CHECKING:
    from tests.delivery.conftest import House

pytestmark = pytest.mark.timeout(60)
DOWN = Scripted(status=500)


def test_an_alert_is_told_and_logged(house: "House") -> None:
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one)
    (attempt,) = house.attempts(one)
    row = house.row(one)
    assert house.arrived() == ["it broke"]
    assert (attempt.outcome, attempt.http_status, attempt.n, attempt.part) == ("delivered", 200, 1, 1)
    assert "it broke" in row.message["title"]
    assert (row.attempt_count, row.tries, row.error_code, row.lease_token) == (1, 0, None, None)
    assert row.delivered_at >= row.first_attempt_at >= row.created_at
    assert house.get_channel(row.channel_id).health == "ok"


def test_a_failed_try_is_logged_and_tried_again(house: "House") -> None:
    house.providers.script("webhook", DOWN)
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one, state="retrying")
        row = house.row(one)
        assert (row.tries, row.error_code, row.error_permanent) == (1, "500", False)
        assert 3.9 <= (row.next_attempt_at - house.attempts(one)[0].finished_at).total_seconds() <= 6
        house.hasten(one)
        house.told(one)
    assert [(a.n, a.outcome, a.trigger) for a in house.attempts(one)] == [
        (1, "temporary", "alert"),
        (2, "delivered", "retry"),
    ]
    assert house.row(one).error_code is None


def test_alerts_of_one_job_arrive_in_order(house: "House") -> None:
    channel = house.channel()
    house.providers.script("webhook", *[Scripted(delay_s=0.05)] * 3)
    with house.working() as engine:
        ids = []
        for n in range(3):
            ids += house.alert(channel, job="j", title=f"{n}")
            engine.wake(house.shards)
            house.told(*ids)
    assert house.arrived() == ["0", "1", "2"]


def test_a_later_one_waits_for_one_on_its_way(house: "House") -> None:
    channel = house.channel()
    house.providers.script("webhook", Scripted(delay_s=0.5))
    with house.working() as engine:
        (first,) = house.alert(channel, job="j", title="first")
        engine.wake(house.shards)
        house.told(first, state="sending")
        (second,) = house.alert(channel, job="j", title="second")
        engine.wake(house.shards)
        house.told(first, second)
        sent = [house.attempts(one)[0] for one in (first, second)]
    assert house.arrived() == ["first", "second"]
    assert sent[1].started_at >= sent[0].finished_at
    assert (sent[1].started_at - sent[0].finished_at).total_seconds() < 0.5  # it did not wait for the poll


def test_several_unsent_ones_are_told_in_one_message(house: "House") -> None:
    channel = house.channel()
    ids = [
        house.alert(channel, job="j", title=f"{n}", severity=s)[0]
        for n, s in enumerate(("info", "error", "info"))
    ]
    with house.working():
        house.told(*ids, state="merged")
    (digest,) = [row for row in house.rows() if row.is_digest]
    assert len(house.arrived()) == 1
    assert (digest.state, digest.alert_id, digest.severity, digest.job_id) == (
        "delivered",
        None,
        "error",
        "j",
    )
    assert {house.row(one).merged_into for one in ids} == {digest.id}
    assert all(house.row(one).delivered_at == digest.delivered_at for one in ids)
    assert all(title in digest.message["text"] for title in "012")


def test_what_waits_between_tries_is_told_with_newcomers_by_the_next_try(house: "House") -> None:
    channel = house.channel()
    house.providers.script("webhook", DOWN, DOWN)
    with house.working() as engine:
        (first,) = house.alert(channel, job="j", title="first")
        house.told(first, state="retrying")
        (second,) = house.alert(channel, job="j", title="second")
        engine.wake(house.shards)
        house.hasten(first, second)
        engine.wake(house.shards)
        house.told(house.digest_of(first, second), state="retrying")
        (third,) = house.alert(channel, job="j", title="third")
        assert house.states([first, second, third]) == ["retrying", "pending", "pending"]
        house.hasten(house.digest_of(first), third)
        engine.wake(house.shards)
        house.told(first, second, third, state="merged")
    digest = house.row(house.digest_of(first, second, third))
    assert (digest.state, digest.attempt_count, digest.tries) == ("delivered", 2, 2)
    assert len(house.arrived()) == 1


def test_refused_is_final_and_does_not_block_the_next(house: "House") -> None:
    channel = house.channel()
    house.providers.script("webhook", Scripted(status=410))
    with house.working() as engine:
        (first,) = house.alert(channel, job="j")
        house.told(first, state="failed")
        (second,) = house.alert(channel, job="j", title="second")
        engine.wake(house.shards)
        house.told(second)
    row = house.row(first)
    assert (row.error_permanent, row.error_code) == (True, "410")
    assert "receiver is gone" in row.why


def test_too_old_expires_with_its_reason_and_tells_the_fallback(house: "House") -> None:
    channel, mail = house.channel(), house.channel("mail", "email")
    (one,) = house.alert(channel, fallback=["mail"])
    house.edit(one, expires_at=utcnow() - timedelta(seconds=1))
    with house.working():
        house.told(one, state="expired")
        house.told(house.fallback_of(one, mail))
    assert house.row(one).why
    assert house.attempts(one) == []


def test_a_failed_delivery_goes_to_the_first_fallback_that_can_tell(house: "House") -> None:
    channel, mail = house.channel(), house.channel("mail", "email")
    broken = house.channel("gone", "wecom")
    house.edit_channel(broken, health="broken")
    house.providers.script("webhook", Scripted(status=400))
    (one,) = house.alert(channel, fallback=["nobody", "gone", "mail"])
    with house.working():
        house.told(one, state="failed")
        instead = house.fallback_of(one, mail)
        house.told(instead)
    row = house.row(instead)
    assert (row.trigger, row.fallback, row.alert_id) == ("fallback", [], house.row(one).alert_id)


def test_a_broken_channel_fails_its_delivery_and_holds_the_others(house: "House") -> None:
    wrong = f"{house.providers.url}/robot/send?access_token=no"
    ding, mail = house.channel("ding", "dingtalk", webhook_url=wrong), house.channel("mail", "email")
    ids = [house.alert(ding, fallback=["mail"], title=f"{n}")[0] for n in range(3)]
    with house.working(concurrency=1):
        until_all = [house.fallback_of(one, mail) for one in ids]
        house.told(*until_all)
    assert sorted(house.states(ids)) == ["failed", "held", "held"]
    channel = house.get_channel(ding)
    assert channel.health == "broken"
    assert channel.health_why
    with house.store.read() as session:
        assert [alert.item for alert in session.query(Alert) if alert.item != "custom"] == ["channelFailing"]


def test_a_digest_on_a_broken_channel_is_taken_apart(house: "House") -> None:
    channel, mail = house.channel(), house.channel("mail", "email")
    house.providers.script("webhook", DOWN)
    ids = [house.alert(channel, job="j", title=f"{n}", fallback=["mail"])[0] for n in range(2)]
    with house.working() as engine:
        digest = house.digest_of(*ids)
        house.told(digest, state="retrying")
        house.edit_channel(channel, health="broken")
        house.hasten(digest)
        engine.wake(house.shards)
        house.told(*ids, state="held")
        house.told(*[house.fallback_of(one, mail) for one in ids], state="merged")
    assert {house.row(one).merged_into for one in ids} == {None}
    assert house.states([digest]) == ["suppressed"]


def test_a_mended_channel_tells_what_it_held_in_one_digest(house: "House") -> None:
    channel = house.channel()
    ids = [house.alert(channel, job=f"j{n}", title=f"{n}")[0] for n in range(3)]
    for one in ids:
        house.edit(one, why=RELEASED)
    with house.working():
        house.told(*ids, state="merged")
    assert len(house.arrived()) == 1


def test_a_message_that_is_too_long_is_shortened_once(house: "House") -> None:
    house.providers.script("webhook", Scripted(status=413))
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one)
    assert [(a.n, a.outcome, a.trigger) for a in house.attempts(one)] == [
        (1, "refused", "alert"),
        (2, "delivered", "shorten"),
    ]
    assert (house.row(one).mends, house.row(one).tries) == (["shorten"], 0)


def test_a_message_that_stays_too_long_fails(house: "House") -> None:
    house.providers.script("webhook", Scripted(status=413), Scripted(status=413))
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one, state="failed")
    assert len(house.attempts(one)) == 2


def test_a_lost_answer_is_asked_for_again_with_the_same_id(house: "House") -> None:
    house.providers.script("webhook", Scripted(close="before"))
    (one,) = house.alert(house.channel())
    with house.working() as engine:
        house.told(one, state="retrying")
        house.hasten(one)
        engine.wake(house.shards)
        house.told(one)
    assert [(a.outcome, a.possible_duplicate) for a in house.attempts(one)] == [
        ("ambiguous", False),
        ("delivered", True),
    ]
    assert [message.id for message in house.providers.messages()] == [one, one]


def test_every_recipient_of_a_mail_is_told_once(house: "House") -> None:
    mail = house.channel("mail", "email", to=["a@example.com", "later@example.com", "no@example.com"])
    house.providers.mail.recipients = {"later@example.com": "451 later", "no@example.com": "550 unknown"}
    (one,) = house.alert(mail)
    with house.working() as engine:
        house.told(one, state="retrying")
        house.providers.mail.reset()
        house.hasten(one)
        engine.wake(house.shards)
        house.told(one, state="failed")
    assert {r["to"]: r["outcome"] for r in house.row(one).recipients} == {
        "a@example.com": "delivered",
        "later@example.com": "delivered",
        "no@example.com": "refused",
    }
    told = [one.called for one in house.providers.messages("email", accepted=True)]
    assert told == [("a@example.com",), ("later@example.com",)]


def test_a_template_that_fails_is_told_in_built_in_words(
    house: "House", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "custom.txt.j2").write_text("{{ title.no_such_method() }}")
    monkeypatch.setattr("notifier.forms.FOLDER", str(tmp_path))
    (one,) = house.alert(house.channel())
    with house.working():
        house.told(one)
    assert "the template failed" in house.row(one).why
    assert house.arrived() == ["it broke"]


def test_a_users_own_words_are_told_and_if_they_fail_the_built_in_ones_are_once(house: "House") -> None:
    channel = house.channel()
    house.template("{{ what }} (our words)", channel="ops")
    house.template("{{ nothing.at.all() }}", channel="other")
    (good,) = house.alert(channel)
    (bad,) = house.alert(house.channel("other"))
    with house.working():
        house.told(good)
        house.told(bad)
    assert (house.row(good).message or {})["text"] == "it broke (our words)"
    assert "the template failed: text: line 1: UndefinedError" in house.row(bad).why
    assert [house.row(one).attempt_count for one in (good, bad)] == [1, 1]


@pytest.mark.parametrize(
    ("kind", "script", "is_marked"),
    [
        ("webhook", Scripted(502, "<html>"), True),
        ("dingtalk", Scripted(504, "<html>"), True),
        ("dingtalk", Scripted(200, "<html>"), True),
        ("dingtalk", Scripted(200, {"errcode": -1, "errmsg": "busy"}), False),
        ("webhook", Scripted(429, "", {"Retry-After": "1"}), False),
    ],
    ids=["5xx of a webhook", "5xx of a robot", "a page", "busy", "too fast"],
)
def test_a_send_after_an_answer_that_somebody_spoilt_is_marked(
    house: "House", kind: str, script: Scripted, is_marked: bool
) -> None:
    house.providers.script(kind, script)
    (one,) = house.alert(house.channel("ops", kind))
    with house.working() as engine:
        house.told(one, state="retrying")
        house.hasten(one)
        house.edit_channel(house.row(one).channel_id, paused_until=None)
        engine.wake(house.shards)
        house.told(one)
    assert [attempt.possible_duplicate for attempt in house.attempts(one)] == [False, is_marked]
