"""An adapter of another package that fails in every method harms nobody but its own messages."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from channels.base import Adapter, Answer, ChannelConfig, Limit, Message, Outcome, Part, Severity
from channels.shield import Shielded
from channels.transport import Network

NOW = datetime(2026, 9, 4, tzinfo=UTC)
MESSAGE = Message("dlv_1", "title", "text", "plain", Severity.ERROR)
METHODS = ("escape", "parts", "send", "limits_of", "addressed", "space", "sends", "receipt_times", "receipts")


class FaxConfig(ChannelConfig):
    number: str = "1"


class Fax(Adapter):
    kind = "fax"
    Config = FaxConfig
    limits = (Limit(3, timedelta(minutes=1)),)
    is_sequential = True

    def parts(self, message: Message, config: Any) -> list[Part]:  # noqa: ARG002
        return [Part(1, 1, {"text": message.text}, message)]

    def send(self, *_: Any, **__: Any) -> Answer:
        return Answer(Outcome.DELIVERED, code="0")


def asked(adapter: Adapter) -> dict[str, Any]:
    """What each method answers."""
    config = adapter.Config()
    (part, *_) = adapter.parts(MESSAGE, config)
    return {
        "escape": adapter.escape("a\x00b"),
        "parts": len(adapter.parts(MESSAGE, config)),
        "send": adapter.send(part, config, Network(), NOW).outcome,
        "limits_of": adapter.limits_of("fax:1", NOW),
        "addressed": adapter.addressed(config, None),
        "space": adapter.space({}),
        "sends": adapter.sends({}, Severity.ERROR),
        "receipt_times": adapter.receipt_times(config),
        "receipts": adapter.receipts((), config, Network(), NOW),
        "config": (config.targets(), dict(config.meters()), dict(config.templates()), len(config.lint())),
    }


def test_a_good_one_is_what_it_was() -> None:
    shielded = Shielded(Fax())
    assert asked(shielded) == asked(Fax())
    assert (shielded.kind, shielded.is_sequential, shielded.expires_after) == ("fax", True, Fax.expires_after)
    assert list(shielded.Config.model_fields) == ["number"]


def broken(what: Any) -> type[Fax]:
    """Every method raises, or answers with `what`."""

    def method(*_: Any, **__: Any) -> Any:
        if isinstance(what, BaseException):
            raise what
        return what

    config = type("Bad", (FaxConfig,), dict.fromkeys(("targets", "meters", "templates", "lint"), method))
    return type("Broken", (Fax,), {**dict.fromkeys(METHODS, method), "Config": config})


@pytest.mark.parametrize(
    "what",
    [
        RuntimeError("CANARY"),
        SystemExit("CANARY"),
        KeyboardInterrupt("CANARY"),
        None,
        "words",
        3,
        [None],
        {"a": 1},
    ],
    ids=repr,
)
def test_a_broken_one_tells_nothing_and_raises_nothing(what: Any, caplog: pytest.LogCaptureFixture) -> None:
    shielded = Shielded(broken(what)())
    with caplog.at_level(logging.WARNING):
        found = [asked(shielded) for _ in range(3)][-1]
    assert found["send"] is Outcome.TEMPORARY
    assert found["limits_of"] == Fax.limits
    assert found["addressed"] == ("",)
    assert (found["space"], found["receipts"]) == ((), ())
    assert found["sends"] == (3 if what == 3 else 1)
    assert found["config"][:3] == ((), {}, {})
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(set(said)), "each method once"
    assert "CANARY" not in "".join(said)


def test_a_limit_that_allows_nothing_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    good = Limit(3, timedelta(minutes=1))
    limits = (Limit(0, timedelta(minutes=1)), good, Limit(-1, timedelta(days=1)), Limit(2, timedelta(0)))
    shielded = Shielded(type("Closed", (Fax,), {"limits_of": lambda *_: limits})())
    with caplog.at_level(logging.WARNING):
        assert [shielded.limits_of("fax:1", NOW) for _ in range(3)] == [(good,)] * 3
    assert len(caplog.records) == 1


def test_one_that_fails_while_it_sends_may_have_sent() -> None:
    bad = type("Bad", (Fax,), {"send": broken(OSError("x")).send})
    config = Shielded(bad()).Config()
    (part,) = Shielded(bad()).parts(MESSAGE, config)
    assert Shielded(bad()).send(part, config, Network(), NOW).outcome is Outcome.AMBIGUOUS
