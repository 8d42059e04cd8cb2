"""The page on integrations says what is so: its labels, its words, its example event, its receiver."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import WebhookVerificationError

from channels.webhook import WebhookConfig, signed
from master.ingest import JOB_LABELS
from master.nodesorts import NODE_LABELS
from notifier.cloudevents import alert_of, structured
from notifier.severities import severity_named

ROOT = Path(__file__).parents[2]
WHSEC = "whsec_" + "a2tr" * 8
both = pytest.mark.parametrize("page", ["integrations.md", "integrations.zh.md"])


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@both
def test_the_labels_that_name_a_node_and_a_job(page: str) -> None:
    (listed,) = re.findall(r"(`node`[,、].*?`instance`)", text_of(page), re.DOTALL)
    assert tuple(re.findall(r"`(\w+)`", listed)) == NODE_LABELS
    assert {name for name in JOB_LABELS if f"`{name}`" in text_of(page)} == set(JOB_LABELS)


@both
def test_the_words_for_a_severity(page: str) -> None:
    (sentence,) = re.findall(r"(`critical`[,、] ?`page`.*`none`.*?`info`)", text_of(page), re.DOTALL)
    for group in re.split(r"[;；]", sentence):
        *words, meaning = re.findall(r"`(\w+)`", group)
        assert {severity_named(word).value for word in words} == {meaning}
    assert severity_named("what is not known") == "error"


@both
def test_the_example_event_is_an_alert(page: str) -> None:
    (event,) = re.findall(r"-d '(\{.*?\})'\n", text_of(page), re.DOTALL)
    alert = alert_of(structured(json.loads(event)))
    assert alert == {"source": "/ci", "title": "build 7 failed", "severity": "warning"}


@both
def test_the_example_receiver_verifies_what_we_sign(page: str) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL)
    names: dict[str, object] = {}
    exec(block.replace("whsec_…", WHSEC), names)  # noqa: S102  the page's own lines are what is tried
    verified = names["verified"]
    assert callable(verified)
    body, config = b'{"title": "t"}', WebhookConfig(url="https://x.example/", secret=WHSEC)
    headers = signed("dlv_1", body, config, datetime.now(UTC))
    assert verified(body, headers) == {"title": "t"}
    with pytest.raises(WebhookVerificationError):
        verified(b'{"title": "forged"}', headers)
