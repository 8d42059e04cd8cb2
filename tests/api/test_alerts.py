"""Alerts and their rules over the API: accepted means kept, repeats tell nobody, mistakes are named."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import event
from sqlalchemy.orm import Session

from notifier.api.deps import Services
from notifier.api.direct import Direct
from notifier.directory import KnownJob, Standalone
from notifier.model import AlertConfig
from tests.conftest import wait_for

As = Callable[..., httpx.Client]
ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # refused by no database
JOB = KnownJob("job_1", "llm", "default", "q1", labels={"team": "vision"}, facts={"name": "llm"})


class OneJob(Standalone):
    """A directory with one job, and the pool that it is in."""

    def job(self, session: Session, job_id: str) -> KnownJob | None:  # noqa: ARG002
        return JOB if job_id == JOB.id else None

    def has_scope(self, session: Session, pool: str, queue: str) -> bool:  # noqa: ARG002
        return pool == JOB.pool


@pytest.fixture(autouse=True)
def _one_job(app: FastAPI, services: Services) -> None:
    app.state.services = replace(services, directory=OneJob())


@pytest.fixture
def ding(admin: httpx.Client) -> str:
    return channel(admin, "ding")


def channel(client: httpx.Client, name: str, **more: Any) -> str:
    config = {"webhook_url": f"http://127.0.0.1:9/cgi-bin/webhook/send?key={name}"}
    answer = client.post("/channels", json={"name": name, "kind": "wecom", "config": config, **more})
    assert answer.status_code == 201, answer.text
    return name


def post(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("/alerts", json={"title": "disk full", **body})


def accepted(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = post(client, **body)
    assert answer.status_code == 202, answer.text
    document: dict[str, Any] = answer.json()
    return document


def deliveries(client: httpx.Client, **filters: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("/deliveries", params=filters).json()["items"]
    return items


def test_an_alert_is_kept_with_its_deliveries(admin: httpx.Client, ding: str) -> None:
    answer = accepted(
        admin, source="cron", severity="critical", text="98 %", labels={"disk": "sda"}, channels=[ding]
    )
    alert = admin.get(f"/alerts/{answer['id']}").json()
    (row,) = deliveries(admin)
    assert alert["deliveries"] == answer["deliveries"] == [row["id"]]
    assert (alert["source"], alert["severity"], alert["status"]) == ("cron", "critical", "firing")
    assert (alert["title"], alert["text"], alert["labels"]) == ("disk full", "98 %", {"disk": "sda"})
    assert (row["channel"], row["state"], row["item"], row["alert_id"]) == (
        ding,
        "pending",
        "custom",
        alert["id"],
    )


def test_a_repeat_answers_the_same_id_and_no_deliveries(admin: httpx.Client, ding: str) -> None:
    body = {"dedup_key": "k", "channels": [ding]}
    first, again = accepted(admin, **body), accepted(admin, **body)
    assert (again["id"], again["deliveries"]) == (first["id"], [])
    assert admin.get(f"/alerts/{first['id']}").json()["repeats"] == 1


def test_eight_posters_at_once_make_one_alert(admin: httpx.Client, ding: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: accepted(admin, dedup_key="k", channels=[ding]), range(8)))
    assert len({answer["id"] for answer in answers}) == 1
    assert sum(len(answer["deliveries"]) for answer in answers) == 1


def test_it_closes_when_it_is_resolved_and_whoever_was_told_hears_of_it(
    admin: httpx.Client, ding: str
) -> None:
    first = accepted(admin, dedup_key="k", channels=[ding])
    closed = accepted(admin, dedup_key="k", status="resolved", title="disk cleaned")
    again = accepted(admin, dedup_key="k", status="resolved")
    anew = accepted(admin, dedup_key="k", channels=[ding])
    assert (closed["id"], len(closed["deliveries"])) == (first["id"], 1)
    assert (again["id"], again["deliveries"]) == (first["id"], [])
    assert anew["id"] != first["id"]
    told = [(row["status"], row["trigger"]) for row in deliveries(admin, alert=first["id"])]
    assert told == [("resolved", "resolve"), ("firing", "alert")]


def test_a_resolve_of_something_unknown_is_not_found(admin: httpx.Client) -> None:
    assert post(admin, dedup_key="never", status="resolved").status_code == 404


def test_of_a_keyed_post_the_second_is_a_replay(admin: httpx.Client, ding: str) -> None:
    body, key = {"title": "t", "channels": [ding]}, {"Idempotency-Key": "k"}
    first, again = (admin.post("/alerts", json=body, headers=key) for _ in range(2))
    assert first.json() == again.json()
    assert len(deliveries(admin)) == 1


@ONE_ENGINE
def test_what_is_too_long_is_shortened_visibly_and_told(admin: httpx.Client, ding: str) -> None:
    labels = {"path": "p" * 20_000, **{f"n{number}": "v" for number in range(100)}}
    answer = post(admin, channels=[ding], title="标" * 600, text="字" * 70_000, labels=labels)
    assert answer.status_code == 202, answer.text
    kept = admin.get(f"/alerts/{answer.json()['id']}").json()
    assert (len(kept["title"]), kept["title"][-1]) == (500, "…")
    assert (len(kept["text"]), kept["text"][-1]) == (60_000, "…")
    assert (len(kept["labels"]["path"]), kept["labels"]["…"]) == (1024, "+38")


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "no title": ({"title": " "}, "title"),
    "no such severity": ({"severity": "bad"}, "severity"),
    "an item of the master": ({"item": "jobFT"}, "item"),
    "no such status": ({"status": "gone"}, "status"),
    "no such channel": ({"channels": ["ding", "nowhere"]}, "channels.1"),
    "no such fallback": ({"channels": ["ding"], "fallback": ["nowhere"]}, "fallback.0"),
    "no channels": ({"channels": []}, "channels"),
    "fallback alone": ({"fallback": ["ding"]}, "fallback"),
    "a fallback that is told anyway": ({"channels": ["ding"], "fallback": ["ding"]}, "fallback"),
    "no such job": ({"job": "job_2"}, "job"),
    "job and channels": ({"job": "job_1", "channels": ["ding"]}, "job"),
    "job and scope": ({"job": "job_1", "scope": "default"}, "scope"),
    "resolved without a key": ({"status": "resolved"}, "dedup_key"),
    "labels that are no text": ({"labels": {"a": 1}}, "labels.a"),
    "an endless life": ({"expires_s": 10**9}, "expires_s"),
    "a field too many": ({"severety": "error"}, "severety"),
    "a number that is none": ({"expires_s": True}, "expires_s"),
    "a number in quotes": ({"expires_s": "60"}, "expires_s"),
    "a label without a name": ({"labels": {"": "x"}}, "labels"),
}


@ONE_ENGINE
@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named_and_nothing_kept(
    admin: httpx.Client, ding: str, body: dict[str, Any], field: str
) -> None:
    answer = post(admin, **body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field
    assert admin.get("/alerts").json()["items"] == []


def test_a_jobs_rules_say_who_is_told(admin: httpx.Client, ding: str) -> None:
    channel(admin, "queue-ding", scope="default/q1")
    rules = {"rules": [{"channels": ["queue-ding", ding], "match": {"team": "vision"}}]}
    assert admin.put("/jobs/job_1/alerts", json=rules).status_code == 200
    accepted(admin, job="job_1")
    rows = deliveries(admin, job="job_1")
    assert {row["channel"] for row in rows} == {"queue-ding", ding}
    assert {(row["job_name"], row["scope"]) for row in rows} == {("llm", "default/q1")}


def test_lists_narrow(admin: httpx.Client, ding: str) -> None:
    one = accepted(admin, dedup_key="a", severity="info", channels=[ding])
    two = accepted(admin, job="job_1")
    accepted(admin, dedup_key="a", status="resolved")
    found = {
        name: [item["id"] for item in admin.get("/alerts", params=params).json()["items"]]
        for name, params in {
            "all": {}, "open": {"status": "firing"}, "closed": {"status": "resolved"},
            "info": {"severity": "info"}, "job": {"job": "job_1"}, "none": {"event": "evt_0"},
        }.items()
    }  # fmt: skip
    assert found == {
        "all": [two["id"], one["id"]], "open": [two["id"]], "closed": [one["id"]],
        "info": [one["id"]], "job": [two["id"]], "none": [],
    }  # fmt: skip


def test_the_first_to_acknowledge_stays(admin: httpx.Client, as_: As) -> None:
    alert = accepted(admin)
    first = admin.post(f"/alerts/{alert['id']}/ack").json()
    again = as_("operator").post(f"/alerts/{alert['id']}/ack").json()
    assert (first["acked_by"], first["acked_at"]) == ("admin-token", again["acked_at"])
    assert again["acked_by"] == "admin-token"


def test_what_is_over_is_taken_on_by_nobody(admin: httpx.Client, ding: str) -> None:
    taken, left = (accepted(admin, dedup_key=key, channels=[ding]) for key in ("taken", "left"))
    assert admin.post(f"/alerts/{taken['id']}/ack").status_code == 200
    for key in ("taken", "left"):
        accepted(admin, dedup_key=key, status="resolved")
    assert admin.post(f"/alerts/{taken['id']}/ack").status_code == 200  # by whom, it says
    answer = admin.post(f"/alerts/{left['id']}/ack")
    assert (answer.status_code, "over already" in answer.json()["detail"]) == (409, True)
    assert admin.get(f"/alerts/{left['id']}").json()["acked_at"] is None


def test_whoever_acknowledges_may_say_something(admin: httpx.Client) -> None:
    alert = accepted(admin)
    said = admin.post(f"/alerts/{alert['id']}/ack", json={"comment": "换盘中 " + "x" * 2000}).json()
    later = admin.post(f"/alerts/{alert['id']}/ack", json={"comment": "me too"}).json()
    assert (said["ack_comment"][:4], len(said["ack_comment"]), said["ack_comment"][-1]) == (
        "换盘中 ",
        1000,
        "…",
    )
    assert later["ack_comment"] == said["ack_comment"]


@ONE_ENGINE
@pytest.mark.parametrize(
    ("body", "field"), [({"comment": 7}, "comment"), ({"coment": "x"}, "coment"), ([], "body")], ids=str
)
def test_what_is_wrong_with_it_is_named_and_nothing_acknowledged(
    admin: httpx.Client, body: object, field: str
) -> None:
    alert = accepted(admin)
    answer = admin.post(f"/alerts/{alert['id']}/ack", json=body)
    assert answer.status_code == 422, answer.text
    assert field in [one["field"] for one in answer.json()["errors"]]
    assert admin.get(f"/alerts/{alert['id']}").json()["acked_at"] is None


# --- rules ---

RULES = {
    "rules": [{"channels": ["ding"], "items": ["jobFT", "channelFailing"], "min_severity": "warning"}],
    "escalation": [{"after_s": 300, "channels": ["ding"]}],
}


@pytest.mark.parametrize("owner", ["/pools/default", "/jobs/job_1"])
def test_rules_are_read_as_they_were_written_by_version(admin: httpx.Client, ding: str, owner: str) -> None:
    empty = admin.get(f"{owner}/alerts")
    assert (empty.json(), empty.headers["etag"]) == ({"rules": [], "escalation": []}, '"0"')
    put = admin.put(f"{owner}/alerts", json=RULES, headers={"If-Match": '"0"'})
    assert (put.status_code, put.headers["etag"]) == (200, '"1"')
    assert admin.get(f"{owner}/alerts").json() == put.json()
    assert put.json()["rules"][0]["items"] == ["jobFT", "channelFailing"]
    assert admin.put(f"{owner}/alerts", json=RULES, headers={"If-Match": '"0"'}).status_code == 412


def test_baidus_form_is_read_as_one_rule(admin: httpx.Client, ding: str) -> None:
    answer = admin.put("/pools/default/alerts", json={"alertItems": ["jobFailed"], "notifyRuleId": ding})
    (rule,) = answer.json()["rules"]
    assert (rule["channels"], rule["items"]) == ([ding], ["jobFailed"])


RULES_WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "no such channel": (
        {"rules": [{"channels": ["ding"]}, {"channels": ["ding", "x"]}]},
        "rules.1.channels.1",
    ),
    "no such fallback": ({"rules": [{"channels": ["ding"], "fallback": ["x"]}]}, "rules.0.fallback.0"),
    "a fallback told anyway": ({"rules": [{"channels": ["ding"], "fallback": ["ding"]}]}, "rules.0.fallback"),
    "no such step": ({"escalation": [{"after_s": 1, "channels": ["x"]}]}, "escalation.0.channels.0"),
    "no such item": ({"rules": [{"channels": ["ding"], "items": ["jobDied"]}]}, "rules.0.items.0"),
    "hours of no form": ({"rules": [{"channels": ["ding"], "quiet_hours": "night"}]}, "rules.0.quiet_hours"),
    "a field too many": ({"rulez": []}, "rulez"),
    "reminders by the second": (
        {"rules": [{"channels": ["ding"], "remind_every_s": 59}]},
        "rules.0.remind_every_s",
    ),
}


@ONE_ENGINE
@pytest.mark.parametrize(("body", "field"), RULES_WRONG.values(), ids=RULES_WRONG)
def test_a_wrong_rule_is_named(admin: httpx.Client, ding: str, body: dict[str, Any], field: str) -> None:
    answer = admin.put("/pools/default/alerts", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_a_preview_says_who_would_be_told_and_writes_nothing(admin: httpx.Client, ding: str) -> None:
    admin.put("/pools/default/alerts", json=RULES)
    told = admin.get("/jobs/job_1/alerts/preview", params={"item": "jobFT"}).json()
    nobody = admin.get("/pools/default/alerts/preview", params={"item": "nodeFT"}).json()
    (one,) = told["told"]
    assert (one["channel"], one["state"], told["severity"]) == (ding, "pending", "warning")
    assert (nobody["told"], nobody["why"]) == ([], "no rule matches")
    assert admin.get("/alerts").json()["items"] == []


def test_a_preview_says_who_comes_next(admin: httpx.Client, ding: str) -> None:
    channel(admin, "sms")
    rules = {
        "rules": [{"channels": [ding], "remind_every_s": 600, "items": ["jobFT"]}],
        "escalation": [
            {"after_s": 900, "channels": ["sms"], "min_severity": "error"},
            {"after_s": 300, "channels": ["sms", ding], "items": ["jobFT"]},
        ],
    }
    assert admin.put("/pools/default/alerts", json=rules).status_code == 200
    seen = {
        item: admin.get("/pools/default/alerts/preview", params={"item": item}).json()["later"]
        for item in ("jobFT", "jobHang", "jobRunning")
    }
    found = {
        item: [(one["kind"], one["after_s"], one["channels"]) for one in all_] for item, all_ in seen.items()
    }
    assert found == {
        "jobFT": [("escalate", 300.0, ["sms", ding]), ("remind", 600.0, [ding])],
        "jobHang": [("escalate", 900.0, ["sms"])],
        "jobRunning": [],
    }


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", ["vision"]),  # the job's own label
        ("&label=tier=1", ["vision", "tier"]),
        ("&label=team=speech&label=tier=1", ["tier"]),
        ("&label=tier=a=b", ["vision"]),
    ],
)
def test_a_preview_is_of_the_labels_that_are_given(admin: httpx.Client, query: str, told: list[str]) -> None:
    rules = [
        {"channels": [channel(admin, "vision")], "match": {"team": "vision"}},
        {"channels": [channel(admin, "tier")], "match": {"tier": "1"}},
    ]
    assert admin.put("/pools/default/alerts", json={"rules": rules}).status_code == 200
    seen = admin.get(f"/jobs/job_1/alerts/preview?item=jobFT{query}").json()
    assert [one["channel"] for one in seen["told"]] == told
    assert [one["channel"] for one in seen["not_told"]] == [
        one for one in ("vision", "tier") if one not in told
    ]


@ONE_ENGINE
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("label=x", "label.0"), ("label=a=1&label==x", "label.1"), ("label=a=1&label=a=2", "label"),
        ("&".join(f"label=l{n}=1" for n in range(65)), "label"), (f"label={'n' * 129}=1", "label.0"),
        ("severity=grave", "severity"), ("labels=a=1", "labels"),
    ],
)  # fmt: skip
def test_a_preview_of_what_cannot_be_is_refused_by_name(admin: httpx.Client, query: str, field: str) -> None:
    answer = admin.get(f"/pools/default/alerts/preview?item=jobFT&{query}")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


@pytest.mark.parametrize(
    "address", ["/pools/nowhere/alerts", "/jobs/job_2/alerts", "/jobs/job_2/alerts/preview?item=jobFT"]
)
def test_rules_of_nothing_are_not_found(admin: httpx.Client, address: str) -> None:
    assert admin.get(address).status_code == 404


# What an earlier version took for a time of day.
STORED = {"rules": [{"channels": ["ding"], "quiet_hours": "0１:00-00:59"}]}


def test_rules_that_cannot_be_read_any_more_tell_all_the_same(
    admin: httpx.Client, services: Services, ding: str
) -> None:
    with services.store.write() as session:
        now = services.store.now(session)
        session.add(
            AlertConfig(owner_kind="pool", owner_id="default", config=STORED, version=1, updated_at=now)
        )
    alert = accepted(admin)
    assert "rules.0.quiet_hours cannot be read" in alert["why"]
    assert [(row["channel"], row["state"]) for row in deliveries(admin)] == [(ding, "pending")]
    seen = admin.get("/pools/default/alerts/preview", params={"item": "jobFT"}).json()
    assert [one["not_before"] for one in seen["told"]] == [None]
    kept = admin.get("/pools/default/alerts")
    assert kept.json()["rules"][0]["quiet_hours"] is None
    assert admin.put("/pools/default/alerts", json=kept.json()).status_code == 200
    assert accepted(admin)["why"] == ""


@ONE_ENGINE
def test_what_is_posted_together_is_committed_together_and_a_mistake_is_its_own_alone(
    app: FastAPI, as_: As, ding: str
) -> None:
    services: Services = app.state.services
    publishers = [as_("publisher") for _ in range(4)]
    commits: list[object] = []
    event.listen(services.store.engine, "commit", lambda _: commits.append(None))
    names = [ding, ding, "nobody", ding]
    with ThreadPoolExecutor(len(names)) as pool:
        with services.writer.turn:
            asked = [
                pool.submit(post, client, channels=[name])
                for client, name in zip(publishers, names, strict=True)
            ]
            wait_for(lambda: len(services.writer._waiting) == len(names))
            commits.clear()
        answers = [one.result(30) for one in asked]
    assert ([one.status_code for one in answers], len(commits)) == ([202, 202, 422, 202], 1)
    told = [one.json()["deliveries"] for one in answers if one.status_code == 202]
    assert sorted(row["id"] for row in deliveries(as_(), channel=ding)) == sorted(one for (one,) in told)


@ONE_ENGINE
def test_what_is_plain_goes_directly_and_is_answered_as_the_framework_would(
    admin: httpx.Client, as_: As, ding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[bool] = []
    answer = Direct.answer

    async def watched(direct: Direct, scope: Any, value: Any) -> Any:
        taken.append(True)
        response = await answer(direct, scope, value)
        taken[-1] = response is not None
        return response

    monkeypatch.setattr(Direct, "answer", watched)
    roundabout = {"headers": {"Content-Type": "Application/JSON"}}
    for client, body, status, is_direct in (
        (admin, {"title": "x", "channels": [ding]}, 202, True),
        (admin, {"title": "x", "channels": ["nobody"]}, 422, True),
        (admin, {"title": ""}, 422, False),
        (admin, {"title": "x", "status": "resolved", "dedup_key": "unknown"}, 404, True),
        (admin, {"title": 7}, 422, False),
        (admin, ["x"], 422, False),
        (as_("viewer"), {"title": "x"}, 403, False),
    ):
        ways = [client.post("/alerts", json=body, **more) for more in ({}, roundabout)]
        assert [one.status_code for one in ways] == [status, status], body
        assert taken[-2:] == [is_direct, False], body
        if status != 202:
            assert ways[0].json() == ways[1].json()
        assert ways[0].headers["content-type"] == ways[1].headers["content-type"]


def test_a_publishers_token_is_dead_as_soon_as_it_is_deleted(admin: httpx.Client, ding: str) -> None:
    made = admin.post("/tokens", json={"name": "ci", "role": "publisher"}).json()
    as_it = {
        "headers": {"Authorization": f"Bearer {made['token']}"},
        "json": {"title": "x", "channels": [ding]},
    }
    assert admin.post("/alerts", **as_it).status_code == 202
    assert admin.delete(f"/tokens/{made['id']}").status_code == 204
    assert admin.post("/alerts", **as_it).status_code == 401
    assert len(deliveries(admin)) == 1


@ONE_ENGINE
def test_one_key_for_a_bad_and_a_good_alert_at_once(admin: httpx.Client, app: FastAPI, ding: str) -> None:
    """Both in one transaction. What is wrong with the first is not the second's doing, and keeps nothing
    from it."""
    writer, asked = app.state.services.writer, list[Future[httpx.Response]]()
    with ThreadPoolExecutor(2) as pool:
        with writer.turn:
            for channel in ("nobody", ding):
                body = {"title": "disk full", "channels": [channel]}
                key = {"Idempotency-Key": "k1"}
                asked.append(pool.submit(admin.post, "/alerts", json=body, headers=key))
                wait_for(lambda: len(writer._waiting) == len(asked))
        bad, good = (one.result(20) for one in asked)
    assert (bad.status_code, good.status_code) == (422, 202)
    assert [one["field"] for one in bad.json()["errors"]] == ["channels.0"]


def test_more_than_may_wait_is_refused_for_a_while(admin: httpx.Client, app: FastAPI, ding: str) -> None:
    writer = app.state.services.writer
    writer._room = 0
    answer = post(admin, channels=[ding])
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert "nothing was changed" in answer.json()["detail"]
    writer._room = 1
    accepted(admin, channels=[ding])
