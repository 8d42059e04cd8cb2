"""Around an adapter of another package: whatever it raises or answers, only its own messages suffer.

Workers ask adapters for limits and the like while they claim for many channels at once, so a fault there
must not reach them. It is logged once for each method, without its words: they may hold a secret.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from channels.base import (
    Adapter,
    Answer,
    ChannelConfig,
    Limit,
    Message,
    Outcome,
    Part,
    Recipient,
    Sent,
    Severity,
)
from channels.escaping import clean
from channels.transport import Network

T = TypeVar("T")
ATTRIBUTES = (
    "kind", "limits", "format", "resend_when_unknown", "expires_after", "receipts_after", "is_sequential",
)  # fmt: skip
FAILED = "adapter_error"
NO_PARTS = Answer(Outcome.TEMPORARY, code=FAILED, message="the kind's own package failed to make the message")
LOST = Answer(Outcome.AMBIGUOUS, code=FAILED, message="the kind's own package failed while it sent")

log = logging.getLogger(__name__)


class Shielded(Adapter):
    """The same kind, with something harmless in the place of what fails."""

    def __init__(self, inner: Adapter) -> None:
        self._inner = inner
        self._trial = _Trial(inner.kind)
        for name in ATTRIBUTES:
            setattr(self, name, getattr(inner, name))
        vars(self)["Config"] = _shielded(inner.Config, self._trial)

    def escape(self, text: str) -> str:
        return self._trial.of("escape", lambda: self._inner.escape(text), _is(str), clean(text))

    def parts(self, message: Message, config: Any) -> list[Part]:
        none = [Part(1, 1, {FAILED: True}, message)]
        return self._trial.of("parts", lambda: self._inner.parts(message, config), _is_parts, none)

    def send(
        self, part: Part, config: Any, network: Network, now: datetime, only: frozenset[str] | None = None
    ) -> Answer:
        if FAILED in part.payload:
            return NO_PARTS
        return self._trial.of(
            "send", lambda: self._inner.send(part, config, network, now, only), _is_answer, LOST
        )

    def limits_of(self, meter: str, now: datetime) -> tuple[Limit, ...]:
        found = self._trial.of(
            "limits_of", lambda: self._inner.limits_of(meter, now), _tuple_of(Limit), self.limits
        )
        sound = tuple(filter(is_sound, found))
        if sound != found:
            self._trial.say("limits_of", "a limit that allows nothing is ignored")
        return sound

    def addressed(self, config: Any, left: Collection[str] | None) -> tuple[str, ...]:
        usual = super().addressed(config, left)
        return self._trial.of("addressed", lambda: self._inner.addressed(config, left), _tuple_of(str), usual)

    def space(self, config: Mapping[str, Any]) -> tuple[int, ...]:
        return self._trial.of("space", lambda: self._inner.space(config), _tuple_of(int), ())

    def sends(self, config: Mapping[str, Any], severity: Severity) -> int:
        return self._trial.of("sends", lambda: self._inner.sends(config, severity), _is_count, 1)

    def receipt_times(self, config: Any) -> tuple[timedelta, ...]:
        return self._trial.of(
            "receipt_times", lambda: self._inner.receipt_times(config), _tuple_of(timedelta), ()
        )

    def receipts(
        self, sent: Sequence[Sent], config: Any, network: Network, now: datetime
    ) -> tuple[Recipient, ...]:
        return self._trial.of(
            "receipts", lambda: self._inner.receipts(sent, config, network, now), _tuple_of(Recipient), ()
        )


def is_sound(limit: Any) -> bool:
    """Whether it is a limit under which anything could ever be sent."""
    kinds = (type(limit.count), type(limit.per)) if isinstance(limit, Limit) else ()
    if kinds != (int, timedelta) or not (limit.until is None or isinstance(limit.until, datetime)):
        return False
    is_aware = limit.until is None or limit.until.tzinfo is not None
    return is_aware and limit.count >= 1 and limit.per > timedelta(0)


class _Trial:
    """Tries what a package brings, and says once of each method that it failed."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._said: set[str] = set()

    def of(self, method: str, call: Callable[[], T], fits: Callable[[object], bool], instead: T) -> T:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001  a border: whatever another's code raises
            self.say(method, type(error).__name__)
            return instead
        if fits(found):
            return found
        self.say(method, f"it answers with {type(found).__name__}")
        return instead

    def say(self, method: str, why: str) -> None:
        if method not in self._said:
            self._said.add(method)
            log.warning("the adapter of channel kind %s failed in %s: %s", self._kind, method, why)


def _shielded(model: type[ChannelConfig], trial: _Trial) -> type[ChannelConfig]:
    """The config, whose own methods are tried too; its fields and checks are what they were."""

    class Config(model):  # type: ignore[valid-type,misc]  # known at run time only
        def targets(self) -> tuple[str, ...]:
            return trial.of("targets", super().targets, _tuple_of(str), ())

        def meters(self) -> Mapping[str, str]:
            return trial.of("meters", super().meters, _is_texts, {})

        def templates(self) -> Mapping[str, str]:
            return trial.of("templates", super().templates, _is_texts, {})

        def lint(self) -> tuple[str, ...]:
            return trial.of(
                "lint", super().lint, _tuple_of(str), ("the kind's own package failed to check it",)
            )

    return cast(type[ChannelConfig], Config)


def _is(kind: type) -> Callable[[object], bool]:
    return lambda found: isinstance(found, kind)


def _tuple_of(kind: type) -> Callable[[object], bool]:
    return lambda found: isinstance(found, tuple) and all(isinstance(one, kind) for one in found)


def _is_count(found: object) -> bool:
    return type(found) is int and found >= 1


def _is_texts(found: object) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(name, str) and isinstance(value, str) for name, value in found.items()
    )


def _is_parts(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(isinstance(one, Part) for one in found)


def _is_answer(found: object) -> bool:
    if not isinstance(found, Answer):
        return False
    outcome, message, code = (getattr(found, name) for name in ("outcome", "message", "code"))
    return isinstance(outcome, Outcome) and isinstance(message, str) and isinstance(code, str | None)
