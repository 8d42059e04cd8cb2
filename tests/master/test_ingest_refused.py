"""`POST /ingest/alertmanager`: what is refused, by which name; and what is kept though it is too long."""

from typing import Any

import pytest
from sqlalchemy import func, select

from master.model import NodeSignal
from notifier.api.deps import Services
from notifier.model import Alert
from tests.master.posting import LATENCY, URL, XID, As, alert, as_, body, post
from tests.master.test_api import faults
from tests.master.world import both

__all__ = ["as_"]


@both
def test_one_bad_alert_and_nothing_of_the_body_is_kept(as_: As, services: Services) -> None:
    client = as_()
    bad = {**alert(LATENCY), "status": "melting"}
    answer = client.post(URL, json=body(alert(LATENCY), bad))
    assert (answer.status_code, list(faults(answer))) == (422, ["alerts.1.status"])
    answer = client.post(URL, json=body(alert(LATENCY), alert(XID)), params={"channel": ["ding", "nobody"]})
    assert (answer.status_code, list(faults(answer))) == (422, ["channel.1"])
    with services.store.read() as session:
        assert session.scalar(select(func.count()).select_from(Alert)) == 0
        assert session.scalar(select(func.count()).select_from(NodeSignal)) == 0


HOSTILE: dict[str, tuple[Any, str]] = {
    "no object": ([], ""),
    "another version": (body(version="5"), "version"),
    "a number for the version": (body(version=4), "version"),
    "no alerts": ({"version": "4"}, "alerts"),
    "alerts that are none": (body(alerts="x"), "alerts"),
    "an alert that is none": (body(alerts=[1]), "alerts.0"),
    "too many": (body(alerts=[{}] * 6000), "alerts"),
    "a label that is no text": (body({**alert(LATENCY), "labels": {"a": 1}}), "alerts.0.labels.a"),
    "labels that are none": (body({**alert(LATENCY), "labels": ["a"]}), "alerts.0.labels"),
    "a time that is none": (body(alert(LATENCY, startsAt="soon")), "alerts.0.startsAt"),
    "a time too far": (body(alert(LATENCY, startsAt="9999-01-01T00:00:00Z")), "alerts.0.startsAt"),
    "a number for a time": (body(alert(LATENCY, endsAt=1)), "alerts.0.endsAt"),
    "less than none": (body(truncatedAlerts=-1), "truncatedAlerts"),
    "a long fingerprint": (body(alert(LATENCY, fingerprint="f" * 65)), "alerts.0.fingerprint"),
}


@pytest.mark.parametrize(("given", "field"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_refused_names_the_alert_and_the_field(as_: As, given: Any, field: str) -> None:
    answer = as_().post(URL, json=given)
    assert answer.status_code == 422
    assert next(iter(faults(answer))).startswith(field)


def test_what_is_too_long_is_kept_in_part(as_: As) -> None:
    labels = {"alertname": "A" * 5000, **{f"{'l' * 300}{n}": "v" * 5000 for n in range(200)}}
    client = as_()
    assert post(client, alert(labels, annotations={"summary": "s" * 9000, "description": "d" * 90_000})) == {
        "new": 1
    }
    (shown,) = client.get("/alerts").json()["items"]
    assert (len(shown["title"]), len(shown["labels"])) == (
        500,
        3,
    )  # of the many one is left: they begin alike
    assert post(client, alert({"alertname": "\u202e\x1b[31m", "a\nb": ""})) == {"new": 1}


def test_a_body_of_megabytes_is_taken_and_one_without_measure_is_not(as_: As) -> None:
    long = {"description": "d" * 40_000}
    many = [alert({**LATENCY, "n": str(n)}, annotations=long) for n in range(50)]
    assert post(as_(), *many) == {"new": 50}
    assert as_().post(URL, content=b" " * (9 * 1024 * 1024)).status_code == 413


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"job": "job_0"}, "job"),
        ({"job": "job_0", "channel": "ding"}, "job"),
        ({"scope": "nowhere"}, "scope"),
        ({"channel": "a b"}, "channel"),
    ],
)
def test_an_address_that_names_what_is_not_there(as_: As, params: dict[str, str], field: str) -> None:
    answer = as_("admin", "").post(URL, json=body(alert(LATENCY)), params=params)
    assert (answer.status_code, next(iter(faults(answer))).partition(".")[0]) == (422, field)
