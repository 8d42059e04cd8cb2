"""What a lint says of the text that stands in every message of a channel."""

from typing import Any

import pytest

from channels.registry import ADAPTERS
from notifier.fixedtext import fixed_text

ROBOT = {"webhook_url": "https://robot.example/hook?access_token=x"}
MANY = [f"{'u' * 60}{number:04}" for number in range(20)]


def warned(kind: str, **config: Any) -> list[str]:
    parsed = ADAPTERS[kind].Config.model_validate(config)
    return [warning.partition(":")[0] for warning in fixed_text(ADAPTERS[kind], parsed)]


@pytest.mark.parametrize(
    ("kind", "config", "fields"),
    [
        pytest.param("dingtalk", ROBOT, [], id="nothing-fixed"),
        pytest.param("dingtalk", {**ROBOT, "keyword": "告警"}, ["keyword"], id="a-keyword"),
        pytest.param("wecom", {**ROBOT, "mentioned_user_ids": ["zhangsan"]}, [], id="one-mention"),
        pytest.param("wecom", {**ROBOT, "mentioned_user_ids": MANY}, ["mentions"], id="many-in-a-small-one"),
        pytest.param("dingtalk", {**ROBOT, "at_user_ids": MANY}, [], id="many-in-a-large-one"),
        pytest.param("feishu", {**ROBOT, "keyword": "x", "at_open_ids": MANY}, ["keyword"], id="feishu"),
        pytest.param("email", {"to": ["a@example.com"]}, [], id="no-limit-worth-a-word"),
        pytest.param("webhook", {"url": "https://hook.example"}, [], id="no-limit"),
    ],
)
def test_warnings(kind: str, config: dict[str, Any], fields: list[str]) -> None:
    assert warned(kind, **config) == fields
