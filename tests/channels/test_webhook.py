"""The three bodies of a webhook, its headers, and what a receiver's status means."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event

from channels.alertmanager import fingerprint
from channels.base import Outcome, Severity
from channels.standin import Scripted
from channels.webhook import Webhook, WebhookConfig

WHSEC = "whsec_" + "a2tr" * 8


@pytest.fixture
def send(providers, network):
    robot = providers.robot("webhook", secret=WHSEC)

    def send(message, *, earlier_s=0, **more):
        # The library takes a signature of the last five minutes only, so this is read when the test runs.
        now = datetime.now(UTC) - timedelta(seconds=earlier_s)
        config = WebhookConfig.model_validate({"url": robot.url, "secret": WHSEC, **more})
        (part,) = Webhook().parts(message, config)
        return Webhook().send(part, config, network, now)

    return send


def body_of(message, form):
    config = WebhookConfig.model_validate({"url": "https://x.example/", "format": form})
    (part,) = Webhook().parts(message, config)
    return json.loads(json.dumps(part.payload, allow_nan=False))


def test_our_own_format(message):
    body = body_of(message(), "faultcast")
    assert body == {
        "version": "1", "id": "alr_01", "delivery_id": "dlv_01", "time": "2026-11-29T03:12:41.120Z",
        "item": "jobFailed", "severity": "error", "status": "firing", "title": "llm-训练 🔥 failed",
        "text": "culprit: rank 3 on node-b\ndecision: restart", "job": {"id": "job_01", "name": "llm"},
        "event": None, "labels": {"team": "nlp"}, "links": {"job": "https://faultcast.example.com/jobs/job_01"},
    }  # fmt: skip


def test_a_message_without_a_document_has_every_field(message):
    body = body_of(message(document={}, link=None), "faultcast")
    assert (body["item"], body["labels"], body["job"], body["links"]) == ("custom", {}, None, {})


def test_cloudevents(message):
    body = body_of(message(), "cloudevents")
    assert body["data"] == body_of(message(), "faultcast")
    assert {name: body[name] for name in body if name != "data"} == {
        "specversion": "1.0", "id": "dlv_01", "source": "/faultcast", "type": "io.faultcast.jobFailed",
        "time": "2026-11-29T03:12:41.120Z", "subject": "llm", "datacontenttype": "application/json",
    }  # fmt: skip


@pytest.mark.parametrize("changes", [{}, {"status": "resolved"}, {"document": {}}])
def test_the_cloudevents_library_reads_what_arrives(send, providers, message, changes):
    send(message(**changes), format="cloudevents")
    (shown,) = providers.messages("webhook")
    event = from_http_event(HTTPMessage(shown.headers, json.dumps(shown.body).encode()))
    assert (event.get_id(), event.get_source()) == ("dlv_01", "/faultcast")
    assert event.get_type() == f"io.faultcast.{event.get_data()['item']}"
    assert event.get_data()["status"] == changes.get("status", "firing")


def test_cloudevents_leaves_out_what_it_does_not_know(message):
    body = body_of(message(document={}), "cloudevents")
    assert not {"time", "subject"} & set(body)
    assert None not in {body[name] for name in body if name != "data"}


def test_alertmanager(message):
    body = body_of(message(), "alertmanager")
    (alert,) = body["alerts"]
    assert (body["version"], body["status"], body["truncatedAlerts"]) == ("4", "firing", 0)
    assert body["groupLabels"] == {"alert_id": "alr_01", "alertname": "jobFailed"}
    assert body["groupKey"] == '{}:{alert_id="alr_01", alertname="jobFailed"}'
    assert alert["labels"] == {
        "alert_id": "alr_01", "alertname": "jobFailed", "job": "llm", "severity": "error", "team": "nlp",
    }  # fmt: skip
    assert alert["fingerprint"] == fingerprint(alert["labels"])
    assert alert["annotations"]["summary"] == "llm-训练 🔥 failed"
    assert (alert["startsAt"], alert["endsAt"]) == ("2026-11-29T03:12:41.120Z", "0001-01-01T00:00:00Z")
    assert body["commonLabels"] == alert["labels"]


def test_alertmanager_resolve_has_the_fingerprint_of_its_alarm(message):
    firing = body_of(message(), "alertmanager")["alerts"][0]
    incident = {"item": "jobFailed", "severity": "error"}
    end = {**message().document, "item": "jobRecovered", "incident": incident}
    end["resolved_at"] = "2026-11-29T03:15:00.000Z"
    over = message(status="resolved", severity=Severity.INFO, document=end)
    resolved = body_of(over, "alertmanager")["alerts"][0]
    assert resolved["fingerprint"] == firing["fingerprint"]
    assert (resolved["status"], resolved["endsAt"]) == ("resolved", "2026-11-29T03:15:00.000Z")


def test_alertmanager_digest_is_a_group(message):
    document = message().document
    members = [{**document, "id": f"alr_{n}", "title": f"alert {n}", "labels": {"n": n}} for n in range(3)]
    body = body_of(message(document={**document, "alerts": members}), "alertmanager")
    assert [alert["annotations"]["summary"] for alert in body["alerts"]] == ["alert 0", "alert 1", "alert 2"]
    assert len({alert["fingerprint"] for alert in body["alerts"]}) == 3
    assert "n" not in body["commonLabels"]
    assert (body["groupLabels"], body["groupKey"]) == ({}, '{}/{delivery_id="dlv_01"}:{}')


def test_alertmanager_digest_tells_of_each_alert_as_it_is_now(message):
    document = message().document
    end = {
        "status": "resolved",
        "item": "jobRecovered",
        "incident": {"item": "jobFailed", "severity": "error"},
    }
    members = [{**document, "severity": "error"}, {**document, **end, "severity": "info"}]
    body = body_of(message(document={**document, "alerts": members}), "alertmanager")
    assert [alert["status"] for alert in body["alerts"]] == ["resolved"]


def test_an_alert_from_alertmanager_keeps_its_name(message):
    labels = {"alertname": "HighLatency", "severity": "page", "job": "api", "empty": ""}
    body = body_of(message(document={**message().document, "labels": labels, "job": None}), "alertmanager")
    assert body["commonLabels"] == {
        "alert_id": "alr_01", "alertname": "HighLatency", "job": "api", "severity": "error",
    }  # fmt: skip


# As Alertmanager 0.25 answers for alerts with these labels.
FINGERPRINTS = [
    ({"alertname": "HighLatency", "service": "api"}, "93eac4546640fef5"),
    ({"alertname": "训练 🔥", "a": 'x"\\\ny', "Z": "1", "_c": "é"}, "98c7c3401ebc44a3"),
]


@pytest.mark.parametrize(("labels", "expected"), FINGERPRINTS)
def test_fingerprint_of_prometheus(labels, expected):
    assert fingerprint(labels) == expected


@pytest.mark.parametrize("form", ["faultcast", "cloudevents", "alertmanager"])
def test_values_that_json_has_not(message, form):
    odd = {
        "nan": float("nan"),
        "when": datetime(2026, 11, 29, tzinfo=UTC),
        "set": {1},
        "path": '\\D: "x"\n</script>',
        7: None,
    }
    body_of(message(document={"labels": odd, "event": {"deep": [odd]}}), form)


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("faultcast", "application/json"),
        ("cloudevents", "application/cloudevents+json"),
        ("alertmanager", "application/json"),
    ],
)
def test_every_format_is_signed_over_the_bytes_sent(send, providers, message, form, kind):
    assert send(message(), format=form).outcome is Outcome.DELIVERED
    (shown,) = providers.messages("webhook")
    assert shown.headers["content-type"] == kind
    assert shown.id == "dlv_01"


def test_a_repeat_has_the_same_id_and_a_moment_of_its_own(send, providers, message):
    send(message(), earlier_s=60)
    send(message())
    first, second = providers.messages("webhook")
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == "dlv_01"
    stamps = int(first.headers["webhook-timestamp"]), int(second.headers["webhook-timestamp"])
    assert 60 <= stamps[1] - stamps[0] < 120


def test_the_users_headers_arrive(send, providers, message):
    send(message(), headers={"Authorization": "Bearer TOKEN123", "X-Team": "nlp"})
    (shown,) = providers.messages("webhook")
    assert (shown.headers["authorization"], shown.headers["x-team"]) == ("Bearer TOKEN123", "nlp")


def test_unsigned_it_still_has_an_id(providers, network, message):
    config = WebhookConfig(url=providers.robot("webhook").url)
    Webhook().send(Webhook().parts(message(), config)[0], config, network, datetime.now(UTC))
    (shown,) = providers.messages("webhook")
    assert shown.headers["webhook-id"] == "dlv_01"
    assert "webhook-signature" not in shown.headers


def test_a_receiver_with_another_secret_refuses_it(providers, network, message):
    robot = providers.robot("webhook", secret="whsec_" + "b2xs" * 8)
    config = WebhookConfig(url=robot.url, secret=WHSEC)
    answer = Webhook().send(Webhook().parts(message(), config)[0], config, network, datetime.now(UTC))
    assert (answer.outcome, answer.http_status) == (Outcome.REFUSED, 401)


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_2xx_is_delivered(send, providers, message, status):
    providers.script("webhook", Scripted(status))
    assert send(message()).outcome is Outcome.DELIVERED


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 415, 422, 451])
def test_other_4xx_are_permanent(send, providers, message, status):
    providers.script("webhook", Scripted(status))
    answer = send(message())
    assert (answer.outcome, answer.mend) == (Outcome.REFUSED, None)


def test_a_2xx_whose_body_breaks_off_is_delivered(send, providers, message):
    providers.script("webhook", Scripted(200, "x" * 100, close="middle"))
    assert send(message()).outcome is Outcome.DELIVERED


def test_503_with_a_retry_after(send, providers, message):
    providers.script("webhook", Scripted(503, "", {"Retry-After": "7"}))
    answer = send(message())
    assert (answer.outcome, answer.retry_after) == (Outcome.TEMPORARY, timedelta(seconds=7))
