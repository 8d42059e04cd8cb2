"""On-call lists over the API: whose turn it is, changes by ETag, one name for one thing."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

As = Callable[..., httpx.Client]
ONE_ENGINE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)  # refused by no database
ROTA = {
    "name": "night",
    "turn": "weekly",
    "weekday": "mon",
    "handover": "09:00",
    "timezone": "Asia/Shanghai",
    "start": "2026-11-30",
    "people": ["ding", {"name": "li", "channels": ["ding", "mail"]}],
    "overrides": [{"from": "2026-12-24T00:00:00Z", "until": "2026-12-25T00:00:00Z", "person": "li"}],
}


def channel_body(name: str, **more: Any) -> dict[str, Any]:
    config = {"webhook_url": f"http://127.0.0.1:9/cgi-bin/webhook/send?key={name}"}
    return {"name": name, "kind": "wecom", "config": config, **more}


@pytest.fixture
def client(admin: httpx.Client) -> httpx.Client:
    """With the channels ding and mail in pool default."""
    for name in ("ding", "mail"):
        assert admin.post("/channels", json=channel_body(name)).status_code == 201
    return admin


@pytest.fixture
def night(client: httpx.Client) -> httpx.Response:
    answer = client.post("/oncall", json=ROTA)
    assert answer.status_code == 201, answer.text
    return answer


def test_a_list_says_who_has_the_turn(client: httpx.Client, night: httpx.Response) -> None:
    kept = client.get("/oncall/night")
    assert kept.headers["ETag"] == night.headers["ETag"]
    assert kept.json()["people"] == [
        {"name": "ding", "channels": ["ding"]}, {"name": "li", "channels": ["ding", "mail"]},
    ]  # fmt: skip
    then = client.get("/oncall/night", params={"at": "2026-12-07T01:00:00Z"}).json()["now"]
    assert then == {
        "person": "li", "channels": ["ding", "mail"], "since": "2026-12-07T01:00:00.000Z",
        "until": "2026-12-14T01:00:00.000Z", "override": False,
    }  # fmt: skip
    over = client.get("/oncall/night", params={"at": "2026-12-24T08:00:00Z"}).json()["now"]
    assert (over["person"], over["override"], over["until"]) == ("li", True, "2026-12-25T00:00:00.000Z")
    assert client.get("/oncall").json()["items"][0]["name"] == "night"


@ONE_ENGINE
def test_a_moment_that_is_none_is_refused(client: httpx.Client, night: httpx.Response) -> None:
    answer = client.get("/oncall/night", params={"at": "tomorrow"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "at")


def test_what_get_answers_may_be_put_back_with_changes(client: httpx.Client, night: httpx.Response) -> None:
    document = {**night.json(), "people": ["mail"], "overrides": []}
    tag = {"If-Match": night.headers["ETag"]}
    changed = client.put("/oncall/night", json=document, headers=tag)
    assert changed.status_code == 200, changed.text
    assert changed.json()["now"]["person"] == "mail"
    assert client.put("/oncall/night", json=document, headers=tag).status_code == 412
    assert (
        client.put("/oncall/night", json={**document, "name": "day"}).json()["errors"][0]["field"] == "name"
    )


def test_a_name_is_a_channels_or_a_lists(client: httpx.Client, night: httpx.Response) -> None:
    taken = [
        client.post("/oncall", json=ROTA),
        client.post("/oncall", json={**ROTA, "name": "ding"}),
        client.post("/channels", json=channel_body("night")),
    ]
    assert [answer.status_code for answer in taken] == [409, 409, 409]
    assert "an on-call list night" in taken[2].json()["detail"]
    assert client.post("/channels", json=channel_body("night", scope="default/q1")).status_code == 201


def test_of_a_channel_and_a_list_that_want_one_name_at_once_one_gets_it(client: httpx.Client) -> None:
    def post(n: int) -> int:
        if n % 2:
            return client.post("/channels", json=channel_body("both")).status_code
        return client.post("/oncall", json={**ROTA, "name": "both"}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(post, range(4))) == [201, 409, 409, 409]


def test_a_list_is_told_by_rules_and_by_name_until_it_is_deleted(
    client: httpx.Client, night: httpx.Response
) -> None:
    rules = {"rules": [{"channels": ["night"], "fallback": ["mail"]}]}
    assert client.put("/pools/default/alerts", json=rules).status_code == 200
    assert len(client.post("/alerts", json={"title": "t", "channels": ["night"]}).json()["deliveries"]) >= 1
    would = client.get("/pools/default/alerts/preview", params={"item": "custom"}).json()["told"]
    assert "(list night)" in would[0]["why"]
    assert client.delete("/oncall/night", headers={"If-Match": '"7"'}).status_code == 412
    assert client.delete("/oncall/night").status_code == 204
    left = client.get("/pools/default/alerts/preview", params={"item": "custom"}).json()
    assert [one["channel"] for one in left["told"]] == ["mail"]
    assert "night is not there" in left["why"]


def test_an_override_is_judged_by_what_it_names_alone(client: httpx.Client) -> None:
    """Somebody else's channel was deleted: the list says so, and whoever can be told may stand in."""
    for name in ("gone", "old"):
        client.post("/channels", json=channel_body(name))
    people = ["ding", "gone", {"name": "li", "channels": ["gone", "mail"]}]
    past = {"from": "2020-01-01T00:00:00Z", "until": "2020-01-02T00:00:00Z", "channels": ["old"]}
    made = client.post("/oncall", json={**ROTA, "people": people, "overrides": [past]})
    assert (made.status_code, made.json()["missing"]) == (201, [])
    for name in ("gone", "old"):
        assert client.delete(f"/channels/{name}").status_code == 204
    assert client.get("/oncall/night").json()["missing"] == ["gone"]
    assert client.get("/oncall").json()["items"][0]["missing"] == ["gone"]
    span = {"from": "2026-12-24T00:00:00Z", "until": "2026-12-25T00:00:00Z"}

    def post(**who: Any) -> httpx.Response:
        return client.post("/oncall/night/overrides", json={**span, **who})

    fields = {
        answer.json()["errors"][0]["field"]
        for answer in (post(person="gone"), post(person="nobody"))
        if answer.status_code == 422
    }
    assert fields == {"person"}
    assert post(channels=["mail", "gone"]).json()["errors"][0]["field"] == "channels.1"
    assert [post(person="ding").status_code, post(person="li").status_code] == [201, 201]
    assert post(person="gone", channels=["mail"]).status_code == 201
    assert [one["person"] for one in client.get("/oncall/night").json()["overrides"][1:]] == [
        "ding",
        "li",
        "gone",
    ]


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "a channel that is not there": ({"people": ["ding", "nobody"], "overrides": []}, "people.1.channels.0"),
    "an override's channel that is not there": (
        {"overrides": [{**ROTA["overrides"][0], "channels": ["x"]}]},  # type: ignore[index]
        "overrides.0.channels.0",
    ),
    "another list": ({"people": ["night"], "overrides": []}, "people.0.channels.0"),
    "nobody": ({"people": []}, "people"),
    **{
        f"a name with {name!a} in it": (
            {"people": [{"name": f"li{name}wang", "channels": ["ding"]}], "overrides": []},
            "people.0.name",
        )
        for name in ("\n", "\r", "\u2028", "\x1b")
    },
    "a blank name": (
        {"people": [{"name": "\u3000", "channels": ["ding"]}], "overrides": []},
        "people.0.name",
    ),
    "a turn that is none": ({"turn": "hourly"}, "turn"),
    "a day that is none": ({"start": "2026-13-01"}, "start"),
    "a weekday with daily turns": ({"turn": "daily"}, "weekday"),
    "no such person": ({"overrides": [{**ROTA["overrides"][0], "person": "x"}]}, "overrides.0.person"),  # type: ignore[index]
    "one name for two people": (
        {"people": ["ding", {"name": "ding", "channels": ["mail"]}], "overrides": []},
        "people.1.name",
    ),
    "a name with blanks": ({"name": "a b"}, "name"),
    "a field too many": ({"person": "x"}, "person"),
}


@ONE_ENGINE
@pytest.mark.parametrize(("body", "field"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(client: httpx.Client, body: dict[str, Any], field: str) -> None:
    answer = client.post("/oncall", json={**ROTA, **body})
    assert answer.status_code == 422, answer.text
    assert [fault["field"] for fault in answer.json()["errors"]] == [field]
