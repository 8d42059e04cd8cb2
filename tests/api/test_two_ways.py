"""Whatever is asked, and whoever asks: past the web framework it is answered as through it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.api import listing
from notifier.api.deps import Services
from notifier.api.direct import Direct
from notifier.api.router import mount
from notifier.storage import Store, make_engine
from notifier.writer import Writer
from tests.api.asking import ROLES, WAYS, Asking
from tests.api.logbook import Log

SCOPES = ("", "default", "default/q", "other")
MANY = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def asking(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    made = Asking(services)
    for way in WAYS:
        made.apps[way] = FastAPI(title="Faultcast", version="1")
        mount(made.apps[way], services)
    past, direct, lists = made.apps["past"], Direct.answer, listing.answer

    async def answer(one: Direct, scope: Any, value: Any) -> Any:
        found = await direct(one, scope, value) if scope["app"] is past else None
        made.went_past += found is not None
        return found

    async def listed(scope: Any) -> Any:
        found = await lists(scope) if scope["app"] is past else None
        made.went_past += found is not None
        return found

    monkeypatch.setattr(Direct, "answer", answer)
    monkeypatch.setattr(listing, "answer", listed)
    log = Log(services.store)
    log.channel("chn_1", name="ding")
    log.channel("chn_2", name="other", pool="other", enabled=False)
    for n in range(12):
        log.add(n)
    log.index()
    yield made
    made.runner.close()
    services.writer.close()


def some(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


ROLE = st.builds(lambda role, scope: f"{role}@{scope}", some(*ROLES), some(*SCOPES))
SCHEME = some("Bearer ", "Bearer ", "Bearer ", "bearer ", "Bearer  ", "Bearer\t", "Basic ", "", "Bearer")
BEARER = st.builds(lambda scheme, who: f"{scheme}{{{who}}}", SCHEME, ROLE)
ODD = some("Bearer fct_wrong", "Bearer ", "Bearer", "", "fct_x", "Bearer fct_\u00e4", "Bearer {publisher@} ")
AUTHORIZATION = st.lists(BEARER | ODD, min_size=0, max_size=2)
TYPE = some(
    "application/json", "application/json", "application/json; charset=utf-8", "application/json;charset=gbk",
    "APPLICATION/JSON", " application/json", "application/json ; x=y", "text/plain",
    "application/problem+json",
    "application/cloudevents+json", "application/json, application/json", "",
)  # fmt: skip
OTHERS = some(
    ("Accept", "text/html"), ("Accept", "application/xml;q=0"), ("Accept-Encoding", "gzip"),
    ("Content-Encoding", "gzip"), ("Content-Encoding", "identity"), ("Expect", "100-continue"),
    ("Expect", "x"), ("Transfer-Encoding", "chunked"), ("Content-Length", "5"), ("Content-Length", "-1"),
    ("Content-Length", "99999999999999999999"), ("Origin", "http://x"), ("Cookie", "a=b"), ("Host", "x"),
    ("ce-specversion", "1.0"), ("ce-specversion", ""), ("ce-type", "x"), ("If-Match", "*"), ("Range",
    "bytes=0-1"),
    ("X-HTTP-Method-Override", "DELETE"), ("X-Forwarded-Prefix", "/x"),
)  # fmt: skip
IDEMPOTENCY = st.lists(some("k1", "k2", "k3", "", " ", "k\u00e4", "x" * 256, "x" * 255), max_size=2)
METHOD = some("POST", "POST", "POST", "POST", "GET", "HEAD", "PUT", "OPTIONS", "DELETE", "post", "TRACE")
ALERTS = some(
    *["/api/v1/alerts"] * 6, "/api/v1/alerts?", "/api/v1/alerts?a=b", "/api/v1/alerts?=", "/api/v1/alerts/",
    "/api/v1//alerts", "/api/v1/Alerts", "/api/v1/alerts/x", "/api/v1/alerts\u00e4", "/api/v1/alerts?a=%00",
    "/api/v1/alerts ",
)  # fmt: skip
VALUES: dict[str, Any] = {
    "title": some("disk full", "", " ", "字" * 600, "x" * 501, 7, None, ["x"]),
    "text": some("", "y", None, 1),
    "source": some("api", "", "s" * 201, "cron", None),
    "item": some("custom", "jobFT", "", None),
    "severity": some("error", "critical", "ERROR", "", 1, None),
    "status": some("firing", "resolved", "over", None),
    "labels": some({}, {"a": "b"}, {"": "b"}, {"a": 1}, {"a": "b" * 1025}, {"x" * 129: ""}, [], None),
    "dedup_key": some("d1", "d2", "", "x" * 501, None, 1),
    "expires_s": some(1, 0, 60, 2592001, "60", 1.0, 1.5, True, None),
    "channels": some(["ding"], ["other"], ["nobody"], ["ding", "ding"], [], "ding", ["x" * 64], None),
    "fallback": some([], ["ding"], ["nobody"], None),
    "job": some("job_1", "", "x" * 65, None),
    "scope": some("default", "other", "default/q", "", "/", "a/b/c", None),
    "unknown": some(1),
}  # fmt: skip
USUAL = ("channels", "dedup_key", "status", "scope")
SOUND = st.fixed_dictionaries(
    {"title": some("disk full", "x")}, optional={name: VALUES[name] for name in USUAL}
)
ANY = st.fixed_dictionaries({}, optional=VALUES)


def _written(value: Any) -> bytes:
    return json.dumps(value).encode()


BODY = (
    SOUND.map(_written) | SOUND.map(_written) | ANY.map(_written)
    | some(b"", b"{}", b"[]", b"null", b"{", b'"x"', b"\xff", b'{"title":"x","title":"y"}', b"\xef\xbb\xbf{}",
           b'{"title": "a\\u0000"}', b'{"title": NaN}', b" " * 700 + b'{"title": "x"}')
)  # fmt: skip


@st.composite
def asked_of(draw: Any, targets: Any, bodies: Any, methods: Any) -> tuple[Any, ...]:
    headers = [("Authorization", one) for one in draw(AUTHORIZATION)]
    headers += [("Content-Type", one) for one in draw(st.lists(TYPE, min_size=1, max_size=2))]
    headers += [("Idempotency-Key", one) for one in draw(IDEMPOTENCY)]
    headers += draw(st.lists(OTHERS, max_size=1))
    body = draw(bodies)
    cut = draw(st.integers(0, len(body)))
    return draw(methods), draw(targets), headers, draw(some([body], [body[:cut], body[cut:]]))


@given(st.lists(asked_of(ALERTS, BODY, METHOD), min_size=1, max_size=4))
@MANY
def test_of_alerts(asking: Asking, asked: list[tuple[Any, ...]]) -> None:
    for one in asked:
        assert asking.ask(*one)[0] < 500


AS_IT_SHOULD_BE = st.tuples(
    some("POST"),
    some("/api/v1/alerts"),
    st.builds(
        lambda who, keys: [
            ("Authorization", f"Bearer {{{who}}}"),
            ("Content-Type", "application/json"),
            *[("Idempotency-Key", one) for one in keys],
        ],
        st.builds(lambda role, scope: f"{role}@{scope}", some("admin", "publisher"), some("", "default")),
        IDEMPOTENCY,
    ),
    SOUND.map(lambda value: [_written(value)]),
)


@given(st.lists(AS_IT_SHOULD_BE, min_size=2, max_size=8))
@MANY
def test_of_alerts_that_are_well(asking: Asking, asked: list[tuple[Any, ...]]) -> None:
    for one in asked:
        assert asking.ask(*one)[0] < 500
    assert asking.went_past


PARTS = some(
    "limit=2", "limit=0", "limit=501", "limit=500", "limit=", "limit=1_0", "limit=+1", "limit=%2b1",
    "limit=-1",
    "limit=1.0", "limit=01", "limit=%201", "limit=99999999999999999999", "state=failed", "state=",
    "state=FAILED",
    "kind=wecom", "kind=", "item=custom", "item=nothing", "q=nccl", "q=", "q=+", "q=%25", "q=%ff", "q=%ZZ",
    "q=%", "q=a%00", "q=" + "x" * 200, "q=" + "x" * 201, "q=%E7%A3%81", "Q=x", "job=x", "job=",
    "event=x", "alert=x", "channel=ding", "channel=%20", "since=2026-01-01T00:00:00Z", "since=2026-01-01",
    "since=2026-01-01T00:00:00+08:00", "since=2026-01-01t00:00:00%2B08:00", "since=1",
    "since=9999-01-01T00:00:00Z",
    "until=2030-01-01T00:00:00Z", "until=", "until=1969-01-01T00:00:00Z", "cursor=", "cursor=x",
    "cursor=dlv_0",
    "cursor=dlv_zzzzzzzzzzzzzzzzzzzzzzzzzz", "cursor=" + "x" * 101, "format=csv", "unknown=1", "", "=",
    "=x", "x",
    "limit", "limit=1;limit=2", "%6cimit=2", "limit%5b%5d=2", "model_config=1", "self=1", "filters=1",
)  # fmt: skip
PATHS = some(*["/api/v1/deliveries"] * 6, "/api/v1/deliveries/", "/api/v1/deliveries//", "/api/v1/Deliveries")
LISTS = st.builds(lambda path, parts: f"{path}?{'&'.join(parts)}", PATHS, st.lists(PARTS, max_size=3))
READING = some(*["GET"] * 5, "HEAD", "OPTIONS", "POST", "get")


@given(asked_of(LISTS, some(b"", b"", b"", b"{}", b"x"), READING))
@MANY
def test_of_the_list(asking: Asking, asked: tuple[Any, ...]) -> None:
    assert asking.ask(*asked)[0] < 500


@given(st.lists(PARTS, max_size=3), ROLE)
@MANY
def test_of_the_list_for_those_who_may(asking: Asking, parts: list[str], who: str) -> None:
    headers = [("Authorization", f"Bearer {{{who}}}")]
    assert asking.ask("GET", "/api/v1/deliveries?" + "&".join(parts), headers, ())[0] < 500


JSON = ("Content-Type", "application/json")
MISTAKE = _written({"title": "x", "job": "j", "channels": ["ding"]})


@pytest.mark.parametrize("expires", [True, False])
@pytest.mark.parametrize("body", [_written({"title": "x"}), MISTAKE])
def test_a_token_that_worked_until_now(asking: Asking, body: bytes, expires: bool) -> None:
    """What is wrong with a body is told to nobody who may not post."""
    asked = ("POST", "/api/v1/alerts", [("Authorization", "Bearer {publisher@default}"), JSON], [body])
    assert asking.ask("POST", *asked[1:3], [_written({"title": "x"})])[0] == 202  # type: ignore[arg-type]
    texts = {way: asking.token(way, "publisher@default") for way in WAYS}
    asking.end("publisher@default", expires=expires)
    asking.tokens.update({(way, "publisher@default"): text for way, text in texts.items()})
    assert [asking.ask(*asked)[0] for _ in range(2)] == [401, 401]


def test_a_token_that_works_no_more_spoils_one_transaction_only(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others post in the same one, and all of it is done again without the one who may not."""
    headers = [("Authorization", "Bearer {publisher@default}"), JSON]
    asked = ("POST", "/api/v1/alerts", headers, [_written({"title": "x"})])
    asking.ask(*asked)
    text = asking.token("past", "publisher@default")
    asking.end("publisher@default", expires=False)
    asking.tokens["past", "publisher@default"] = text
    submit, writes = asking.services.writer.submit, list[Any]()

    def counted(_writer: Any, work: Any, **more: Any) -> Any:
        writes.append(work)
        return submit(work, **more)

    monkeypatch.setattr(Writer, "submit", counted)
    for _ in range(3):
        assert asking.one("past", *asked)[0] == 401
    assert len(writes) == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_a_database_that_is_away(asking: Asking, store: Store, tmp_path: Path, is_known: bool) -> None:
    """Of a token that is not remembered as well: it is looked up there."""
    bearer = ("Authorization", "Bearer {publisher@default}")
    alert = ("POST", "/api/v1/alerts", [bearer, JSON], [_written({"title": "x"})])
    if is_known:
        assert asking.ask(*alert)[0] == 202
    for way in WAYS:
        asking.token(way, "publisher@default"), asking.token(way, "viewer@")
    nowhere = (
        "postgresql+psycopg://x@/x?host=/nowhere" if store.is_postgres else f"sqlite:///{tmp_path}/no/x.db"
    )
    engine = make_engine(nowhere)
    for app in asking.apps.values():
        app.state.services = replace(asking.services, store=Store(engine))
    listed = ("GET", "/api/v1/deliveries", [("Authorization", "Bearer {viewer@}")], ())
    for asked in (alert, listed):
        status, headers, _ = asking.ask(*asked)  # type: ignore[arg-type]
        assert (status, (b"retry-after", b"5") in headers) == (503, True)
    for app in asking.apps.values():
        app.state.services.writer.close()
    engine.dispose()
