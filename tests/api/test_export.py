"""The log as a file: all of it, whatever is in it, and nothing is held for a client that went away."""

import csv
import io
import json
from collections.abc import Callable

import httpx
import pytest

from notifier.api.deps import Services
from notifier.auth import Principal, Role
from notifier.deliveries import Filters
from notifier.exporting import COLUMNS, Format, cell, exported
from tests.api.logbook import CHANNELS, Log, ids

As = Callable[..., httpx.Client]
ANYBODY = Principal("tok_1", "t", Role.ADMIN)


@pytest.fixture
def log(services: Services) -> Log:
    return Log(services.store)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_document_a_line(admin: httpx.Client, log: Log) -> None:
    for n in range(7):
        log.add(n)
    answer = admin.get("/deliveries/export", params={"format": "ndjson"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines == admin.get("/deliveries").json()["items"]


def test_a_table_with_a_head(admin: httpx.Client, log: Log) -> None:
    for n in range(3):
        log.add(n, recipients=[{"to": "a@b.c", "outcome": "delivered", "code": "250"}], items=["jobFT", "x"])
    answer = admin.get("/deliveries/export", params={"format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv; charset=utf-8")
    assert "deliveries.csv" in answer.headers["content-disposition"]
    rows = table(answer.content.decode())
    assert tuple(rows[0]) == COLUMNS
    assert [row["id"] for row in rows] == ids(admin)
    assert (rows[0]["channel"], rows[0]["items"]) == (CHANNELS[2], "jobFT x")
    assert json.loads(rows[0]["recipients"])[0]["code"] == "250"


def test_filters_and_scope_are_the_lists(as_: As, log: Log) -> None:
    for n in range(20):
        log.add(n)
    viewer = as_("viewer", "other")
    params = {"q": "body", "state": "failed"}
    lines = viewer.get("/deliveries/export", params=params).text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ids(viewer, **params) != []


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n"])
def test_no_text_is_a_formula(admin: httpx.Client, log: Log, start: str) -> None:
    evil = f'{start}HYPERLINK("http://x","y")'
    log.add(1, job_name=evil, message={"title": evil, "text": "t"})
    (row,) = table(admin.get("/deliveries/export", params={"format": "csv"}).content.decode())
    assert (row["job_name"], row["title"]) == (f"'{evil}", f"'{evil}")


def test_cells_hold_what_the_documents_do() -> None:
    assert [cell(one) for one in (None, True, 1.5, ["a", "b"], {"a": None}, "磁盘")] == [
        "", "true", "1.5", "a b", '{"a": null}', "磁盘",
    ]  # fmt: skip


@pytest.mark.parametrize("params", [{"format": "xml"}, {"q": "%"}, {"state": "gone"}, {"since": "yesterday"}])
def test_what_cannot_be_asked_is_refused_before_the_file_begins(
    admin: httpx.Client, params: dict[str, str]
) -> None:
    answer = admin.get("/deliveries/export", params=params)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] in params


def test_nothing_is_held_between_two_batches(
    services: Services, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads slowly, or not at all, keeps neither a transaction nor the rows."""
    monkeypatch.setattr("notifier.exporting.MAX_LIMIT", 2)
    for n in range(5):
        log.add(n)
    text = exported(services.store, ANYBODY, Filters(), Format.NDJSON)
    assert len(next(text).splitlines()) == 2
    assert services.store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert sum(len(batch.splitlines()) for batch in text) == 3
