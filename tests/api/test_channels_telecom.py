"""Channels of texts and calls over the API: what is wrong is named, and nothing secret comes back."""

from typing import Any

import httpx
import pytest

GIVEN: dict[str, Any] = {
    "provider": "aliyun", "to": ["+8613800001111"], "template_id": "SMS_1", "sign_name": "故障通",
    "credentials": {"access_key_id": "CANARY-id", "access_key_secret": "CANARY-secret"},
}  # fmt: skip


def refused(client: httpx.Client, **changes: Any) -> dict[str, str]:
    config = {name: value for name, value in {**GIVEN, **changes}.items() if value is not ...}
    answer = client.post("/channels", json={"name": "c", "kind": "sms", "config": config})
    assert answer.status_code == 422, answer.text
    assert "CANARY" not in answer.text
    return {one["field"]: one["message"] for one in answer.json()["errors"]}


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "provider": ({"provider": "nokia"}, "config.provider", "none of aliyun"),
    "credentials": ({"credentials": {"auth_token": "CANARY"}}, "config.credentials", "access_key_id and"),
    "missing": ({"to": ...}, "config.to", "is missing"),
    "number": ({"to": ["138"]}, "config.to.0", "E.164"),
    "template": ({"template_id": ...}, "config.template_id", "approved templates"),
    "private endpoint": ({"endpoint": "http://10.0.0.1:1"}, "config.endpoint", "private"),
    "metadata endpoint": ({"endpoint": "100.100.100.200"}, "config.endpoint", "metadata"),
    "types": ({"to": 5, "credentials": [], "params": 3}, "config.to", ""),
}


@pytest.mark.parametrize(("changes", "field", "mend"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_mend(
    admin: httpx.Client, changes: dict[str, Any], field: str, mend: str
) -> None:
    told = refused(admin, **changes)
    assert field in told, told
    assert mend in told[field]


def test_a_mask_that_comes_back_keeps_what_is_stored(admin: httpx.Client) -> None:
    made = admin.post("/channels", json={"name": "c", "kind": "sms", "config": GIVEN})
    assert made.status_code == 201, made.text
    config = made.json()["config"]
    assert config["credentials"] == {"access_key_id": "***", "access_key_secret": "***"}
    changed = admin.put("/channels/c", json={"config": {**config, "to": ["+8613900002222"]}})
    assert changed.status_code == 200, changed.text
    assert changed.json()["config"]["to"] == ["+8613900002222"]
    assert "CANARY" not in made.text + changed.text


def test_a_private_apprise_target_is_refused_by_its_field(admin: httpx.Client) -> None:
    body = {"name": "c", "kind": "apprise", "config": {"url": "gotify://10.0.0.1/CANARY"}}
    answer = admin.post("/channels", json=body)
    assert answer.status_code == 422, answer.text
    (told,) = answer.json()["errors"]
    assert (told["field"], "CANARY" in answer.text) == ("config.url", False)
