"""The console's pages: what they show, to whom, and what no data can make of them."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from master.model import FaultEventRow
from notifier.storage import Store
from tests.console.conftest import BOTH_DATABASES

Page = Any  # a browser of conftest.py
SignIn = Callable[..., Page]
Told = Any  # the job of conftest.py

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "</title></textarea></pre><iframe src=//evil.example>",
    "\u202egnp.exe &lt;b&gt; \x1b[31m",
)
ALLOWED_TAGS = {
    *("html", "head", "meta", "title", "link", "body", "header", "nav", "main", "div", "span", "a", "b", "p"),
    *("h1", "h2", "form", "input", "button", "label", "select", "option", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "text", "line", "path", "polyline"),
}


class Tags(HTMLParser):
    """Which elements and attributes a page really has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.gone_to: list[str] = []  # by a click
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag == "a":
            self.gone_to += [value or "" for name, value in attrs if name == "href"]
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action"}]


def pages(told: Told) -> list[str]:
    return [
        "/", f"/jobs/{told.job_id}", "/events", "/deliveries", f"/deliveries/{told.delivery_id}",
        "/channels", "/nodes", "/alerts", "/silences", "/oncall",
    ]  # fmt: skip


@BOTH_DATABASES
@pytest.mark.parametrize("role", ["admin", "operator", "viewer"])
def test_every_page_opens_and_says_what_it_should(browser: SignIn, told: Told, role: str) -> None:
    visitor = browser(role)
    expected = [
        "job plain",
        "log line plain",
        "segfault",
        "310000",
        "channel_broken",
        "oncall",
        "GPUXidError plain",
        "rank 3 died",
        "active",
        "night",
    ]
    for path, words in zip(pages(told), expected, strict=True):
        answer = visitor.get(path)
        assert (answer.status_code, words in answer.text) == (200, True), path


def test_what_would_have_been_done_is_said(browser: SignIn, told: Told, store: Store) -> None:
    why = {"en": "off", "zh": "off"}
    would = {"action": "restart_job", "isolate_nodes": ["node-7"], "why": why}
    with store.write() as session:
        event = session.get_one(FaultEventRow, told.event_id)
        event.decision = {"action": "none", "isolate_nodes": [], "budget_left": 0, "why": why, "would": would}
    visitor = browser()
    for path in (f"/jobs/{told.job_id}", "/events"):
        text = visitor.get(path).text
        assert "with it on:" in text or "若已开启" in text, path
        assert "restart_job" in text
    assert "node-7" in visitor.get(f"/jobs/{told.job_id}").text


@pytest.mark.parametrize("words", HOSTILE)
def test_data_stays_data(browser: SignIn, tell: Callable[[str], Told], words: str) -> None:
    told = tell(words)
    visitor = browser()
    asked = urlencode({"q": words, "status": words, "state": words, "job": words})
    for path in [*pages(told), f"/deliveries?{asked}", f"/?{asked}", f"/x{quote(words)}"]:
        text = visitor.get(path).text
        found = Tags(text)
        assert found.tags <= ALLOWED_TAGS, path
        assert found.handlers == [], path
        assert all(re.match(r"/(?!/)|#|\?|data:,$|http://console/", link) for link in found.links), path
        assert "49{% raw" not in text


def test_every_link_leads_somewhere(browser: SignIn, told: Told) -> None:
    visitor = browser()
    links = {link.partition("#")[0] for path in pages(told) for link in Tags(visitor.get(path).text).gone_to}
    assert f"/jobs/{told.job_id}/logs" in links
    for link in sorted(links - {""}):
        assert visitor.get(link).status_code in {200, 303}, link


def test_no_page_allows_a_script(browser: SignIn, told: Told) -> None:
    visitor = browser()
    for path in [*pages(told), "/login", "/nowhere", "/console/console.css"]:
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/jobs/job_1", "/deliveries?state=failed", "/nodes"])
def test_who_is_not_signed_in_is_led_to_the_login_and_back(stranger: Page, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status_code == 303
    login = stranger.get(answer.headers["location"])
    assert login.status_code == 200
    assert f'value="{path}"' in login.text


def test_the_token_opens_a_session_that_no_script_can_read(browser: SignIn) -> None:
    visitor = browser()
    answer = visitor.post("/login", data={"token": visitor.token, "next": "/nodes"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/nodes")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


@pytest.mark.parametrize("token", ["", "fct_wrong", "x" * 200, "\x00", "令牌"])
def test_a_wrong_token_opens_nothing(stranger: Page, told: Told, token: str) -> None:
    answer = stranger.post("/login", data={"token": token})
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert stranger.get("/").status_code == 303


@pytest.mark.parametrize("role", ["publisher", "ingest"])
def test_a_token_that_may_not_read_opens_nothing(browser: SignIn, role: str) -> None:
    with pytest.raises(AssertionError):
        browser(role)


def test_signing_out_ends_the_session(browser: SignIn, told: Told) -> None:
    visitor = browser()
    assert visitor.post("/logout", data={"csrf": visitor.csrf()}).status_code == 303
    assert visitor.get("/").status_code == 303


def other_scope(browser: SignIn) -> Page:
    return browser("admin", "default/another")


@pytest.mark.parametrize(
    "path", [lambda told: f"/jobs/{told.job_id}", lambda told: f"/deliveries/{told.delivery_id}"]
)
def test_what_lies_outside_the_scope_is_not_found(
    browser: SignIn, told: Told, path: Callable[[Told], str]
) -> None:
    assert other_scope(browser).get(path(told)).status_code == 404


@BOTH_DATABASES
def test_lists_hold_nothing_from_outside_the_scope(browser: SignIn, told: Told) -> None:
    visitor = other_scope(browser)
    for path in ("/", "/events", "/deliveries", "/channels", "/silences", "/oncall"):
        text = visitor.get(path).text
        assert "plain" not in text, path
        assert ">oncall" not in text, path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nowhere", 404), ("/jobs/job_none", 404), ("/deliveries/none", 404), ("/?cursor=x", 422),
        ("/jobs/" + "x" * 3000, 404), ("/deliveries?state=nonsense", 422),
        ("/deliveries?last=9y", 422), ("/deliveries/resend?last=9y&state=failed", 422),
        ("/deliveries/export?item=x", 422), ("/deliveries?chanel=x", 422), ("/?status=x", 422),
        ("/deliveries?state=failed&state=held", 422), ("/?live=1", 422),
        ("/deliveries?state=&last=&item=", 200),
        ("/deliveries?item=%00", 404), ("/jobs/%00", 404), ("/language/xx", 303),
    ],
)  # fmt: skip
def test_odd_addresses_get_a_page_and_no_failure(browser: SignIn, path: str, status: int) -> None:
    assert browser().get(path).status_code == status


def test_a_large_form_is_refused(browser: SignIn) -> None:
    assert browser().post("/login", data={"token": "x" * 100_000}).status_code == 413


def test_a_form_that_does_not_say_its_size_is_told_so(browser: SignIn) -> None:
    answer = browser().post("/login", content=iter([b"token=x"]))
    assert (answer.status_code, "Content-Length" in answer.text) == (411, True)


def test_an_address_that_cannot_be_read_does_not_say_that_the_page_is_missing(browser: SignIn) -> None:
    answer = browser().get("/deliveries?q=" + "x" * 5000)
    assert answer.status_code == 422
    assert "There is no such page" not in answer.text
    assert "页面不存在" not in answer.text


@pytest.mark.parametrize(("language", "words"), [("zh", "投递记录"), ("en", "Deliveries")])
def test_the_language_is_chosen_once(browser: SignIn, language: str, words: str) -> None:
    visitor = browser()
    answer = visitor.get(f"/language/{language}?next=/deliveries")
    assert answer.headers["location"] == "/deliveries"
    assert f"<h1>{words}</h1>" in visitor.get("/deliveries").text


@BOTH_DATABASES
def test_filters_narrow_the_list_and_stay_chosen(browser: SignIn, told: Told) -> None:
    visitor = browser()
    assert told.delivery_id in visitor.get("/deliveries?state=failed&channel=oncall&last=1h&q=plain").text
    nothing = visitor.get("/deliveries?state=delivered").text
    assert told.delivery_id not in nothing
    assert "<option selected>delivered</option>" in nothing


def test_the_api_keeps_its_own_errors(browser: SignIn) -> None:
    visitor = browser()
    for path, method, status in (("/api/v1/nowhere", "GET", 404), ("/api/v1/channels", "PATCH", 405)):
        answer = visitor.request(method, path)
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"


def test_health_needs_no_token(stranger: Page) -> None:
    assert stranger.get("/healthz").text == "ok\n"
    assert stranger.get("/readyz").json()["checks"][0] == {
        "name": "database", "ok": True, "needed": True, "detail": "",
    }  # fmt: skip
    assert "# HELP" in stranger.get("/metrics").text
    assert stranger.get("/openapi.json").json()["info"]["title"] == "Faultcast"
