"""Templates over the API: tried before they are kept, one for each thing, shown before they are used."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

As = Callable[..., httpx.Client]
TEXT = "{{ what }} {{ job or 'no job' }}"
CHANNEL = {
    "name": "ding", "kind": "wecom",
    "config": {"webhook_url": "http://127.0.0.1:9/cgi-bin/webhook/send?key=x"},
}  # fmt: skip


def created(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = client.post("/templates", json={"text": TEXT, **changes})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def refused(client: httpx.Client, **changes: Any) -> list[tuple[str, str]]:
    answer = client.post("/templates", json={"text": TEXT, **changes})
    assert answer.status_code == 422, answer.text
    return [(error["field"], error["message"]) for error in answer.json()["errors"]]


def test_what_is_kept_is_answered(admin: httpx.Client) -> None:
    made = created(
        admin, scope="default/research", channel="钉钉", item="jobFT", language="zh", title="{{ job }}"
    )
    assert admin.get(f"/templates/{made['id']}").json() == made
    assert made["id"].startswith("tpl_")
    told = {name: made[name] for name in ("scope", "channel", "item", "language", "title", "text")}
    assert told == {
        "scope": "default/research", "channel": "钉钉", "item": "jobFT", "language": "zh",
        "title": "{{ job }}", "text": TEXT,
    }  # fmt: skip


def test_what_is_left_out_is_for_all(admin: httpx.Client) -> None:
    made = created(admin)
    assert (made["channel"], made["item"], made["language"], made["title"]) == (None, None, None, "")
    assert made["scope"] == "default"


def test_lists_are_newest_first_and_in_pages(admin: httpx.Client) -> None:
    ids = [created(admin, item=item)["id"] for item in ("jobFT", "jobHang", "custom")]
    first = admin.get("/templates", params={"limit": 2}).json()
    rest = admin.get("/templates", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [one["id"] for one in (*first["items"], *rest["items"])] == ids[::-1]
    assert rest["next_cursor"] is None


def test_there_is_one_for_each_thing(admin: httpx.Client) -> None:
    created(admin, item="jobFT")
    again = admin.post("/templates", json={"text": TEXT, "item": "jobFT"})
    assert again.status_code == 409
    assert "delete it first" in again.json()["detail"]
    for more in ({"language": "zh"}, {"channel": "x"}, {"scope": "default/research"}, {"item": "jobHang"}):
        created(admin, **{"item": "jobFT", **more})


def test_what_was_deleted_is_gone(admin: httpx.Client) -> None:
    made = created(admin)
    assert admin.delete(f"/templates/{made['id']}").status_code == 204
    assert admin.get(f"/templates/{made['id']}").status_code == 404
    assert admin.delete(f"/templates/{made['id']}").status_code == 404
    created(admin)


def test_a_creation_that_is_repeated_is_done_once(admin: httpx.Client) -> None:
    key = {"Idempotency-Key": "k1"}
    first = admin.post("/templates", json={"text": TEXT}, headers=key)
    again = admin.post("/templates", json={"text": TEXT}, headers=key)
    assert (first.status_code, again.status_code, first.json()) == (201, 201, again.json())


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        pytest.param({"text": "ok\n{{ job"}, "text", "line 2: TemplateSyntaxError", id="syntax"),
        pytest.param({"title": "{% if %}"}, "title", "line 1: TemplateSyntaxError", id="in-the-title"),
        pytest.param({"text": "{{ jobname }}"}, "text", "there is no fact `jobname`", id="a-name"),
        pytest.param({"text": "{{ job.name }}"}, "text", "a text has no `.name`", id="a-part-of-a-text"),
        pytest.param({"text": "{{ 1 // (steps_lost|length) }}"}, "text", "ZeroDivisionError", id="sometimes"),
        pytest.param({"text": "{{ 'x' * 10 ** 9 }}"}, "text", "takes more than", id="memory"),
        pytest.param({"text": "{% for i in range(9999) %}123456789{% endfor %}"}, "text", "65536", id="size"),
        pytest.param(
            {"text": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"},
            "text", "takes more than", id="time",
        ),
        pytest.param({"text": " {{ '' }} "}, "text", "no text for a sample of jobRunning", id="no-text"),
        pytest.param({"text": ""}, "text", "must not be empty", id="empty"),
        pytest.param({"text": "x" * 20_001}, "text", "at most 20000", id="too-long"),
        pytest.param({"item": "jobX"}, "item", "give one of jobRunning", id="item"),
        pytest.param({"language": "fr"}, "language", "zh", id="language"),
        pytest.param({"channel": "a b"}, "channel", "without blanks", id="channel"),
        pytest.param({"scope": "a/b/c"}, "scope", "pool or pool/queue", id="scope"),
        pytest.param({"body": "x"}, "body", "there are scope", id="unknown-field"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(admin: httpx.Client, given: dict[str, Any], field: str, said: str) -> None:
    (found,) = refused(admin, **given)
    assert found[0] == field
    assert said in found[1]
    assert admin.get("/templates").json()["items"] == []


def test_it_is_tried_on_what_it_is_for_only(admin: httpx.Client) -> None:
    """A recovery knows what it cost; a digest its alerts."""
    created(admin, item="jobRecovered", text="{% if downtime %}{{ downtime }}{% else %}?{% endif %}")
    created(admin, item="digest", text="{% for one in alerts %}{{ one.time }} {{ one.title }}\n{% endfor %}")
    ((field, said),) = refused(admin, text="{% for one in alerts %}{{ one.title }}{% endfor %}")
    assert (field, "there is no fact `alerts`" in said) == ("text", True)


def preview(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = client.post("/templates/preview", json={"text": TEXT, **body})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_a_preview_shows_it_as_the_channel_gets_it(admin: httpx.Client) -> None:
    shown = preview(admin, text="**{{ job }}** {{ evidence[0] }}", title="{{ node }}!", language="en")
    assert shown["title"] == "node-2!"
    assert shown["text"].startswith("**llm-70b-pretrain** node-2 · node: NVRM")
    assert (shown["format"], shown["error"]) == ("markdown", None)
    assert preview(admin, kind="email")["format"] == "html"
    assert "<div" in preview(admin, kind="email")["text"]


def test_a_preview_is_of_the_channels_kind(admin: httpx.Client) -> None:
    assert admin.post("/channels", json=CHANNEL).status_code == 201
    assert preview(admin, channel="ding", text="{{ '*' }}")["text"] == "∗"
    answer = admin.post("/templates/preview", json={"text": TEXT, "channel": "nope"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "channel")


def test_a_preview_of_one_that_fails_shows_the_built_in_words_and_why(admin: httpx.Client) -> None:
    shown = preview(admin, text="{{ nope() }}", language="zh")
    assert shown["error"] == "text: line 1: UndefinedError: 'nope' is undefined"
    assert "**定位**" in shown["text"]
    assert "消息模板出错" in shown["text"]


@pytest.mark.parametrize("item", ["jobRunning", "jobRecovered", "channelFailing", "custom", "digest"])
@pytest.mark.parametrize("kind", ["dingtalk", "wecom", "feishu", "email", "webhook", "sms", "phone"])
def test_every_item_can_be_looked_at_on_every_kind(admin: httpx.Client, kind: str, item: str) -> None:
    shown = preview(admin, text="{{ title }} {{ time }}", kind=kind, item=item)
    assert shown["error"] is None
    assert shown["text"]


def test_an_unknown_kind_is_named(admin: httpx.Client) -> None:
    answer = admin.post("/templates/preview", json={"text": TEXT, "kind": "fax"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "kind")


def test_scopes(as_: As) -> None:
    mine, other = as_("operator", "mine"), as_("operator", "other")
    made = created(mine)
    assert made["scope"] == "mine"
    assert other.get(f"/templates/{made['id']}").status_code == 404
    assert other.delete(f"/templates/{made['id']}").status_code == 404
    assert other.get("/templates").json()["items"] == []
    assert other.post("/templates", json={"text": TEXT, "scope": "mine"}).status_code == 404
    assert as_("viewer", "mine").get(f"/templates/{made['id']}").status_code == 200
    assert as_("viewer", "mine").post("/templates", json={"text": TEXT, "item": "jobFT"}).status_code == 403
