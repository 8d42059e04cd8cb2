"""The fault-tolerance settings of a job: `--fault-tolerance-args` and `faultToleranceConfig` (CONTRACT 1, 3).

Flags and their meaning: FAULTS 1.4 (Baidu's grammar), CONTRACT 1 (ours, ranges, defaults).
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from master.casefile import HangSettings, Policy
from master.flagvalues import Reader, SettingError, boolean, minutes, pattern, phones, shown, whole

MAX_TEXT = 16_384
MAX_SECONDS = 365 * 24 * 3600
MAX_RESTARTS = 100_000
MAX_PATTERNS = 50


@dataclass(frozen=True)
class FaultTolerance:
    """The effective settings. Field by field what CONTRACT 1 tables, with its defaults."""

    enabled: bool = False
    enable_replace: bool = False
    enable_hang_detection: bool = False
    hang_detection_log_timeout_minutes: float = 7
    hang_detection_startup_toleration_minutes: float = 15
    hang_detection_stack_timeout_minutes: float = 3
    max_num_of_unconditional_retry: int = 0
    unconditional_retry_observe_seconds: int = 3600
    custom_log_patterns: tuple[str, ...] = ()
    enable_use_nodes_of_last_job: bool = False
    enable_checkpoint_migration: bool = False
    internal_fault_tolerance_alarm_phone: tuple[str, ...] = ()
    max_restarts: int = 10
    adaptive_hang_detection: bool = False

    def document(self) -> dict[str, Any]:
        """As it is stored and answered."""
        names = ("enabled", *(flag.setting for flag in FLAGS.values()))
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "FaultTolerance":
        """From `document()`."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in document.items()
        }
        return cls(**values)

    @property
    def policy(self) -> Policy:
        return Policy(
            enabled=self.enabled,
            max_restarts=self.max_restarts,
            unconditional_retries=self.max_num_of_unconditional_retry,
            unconditional_observe=timedelta(seconds=self.unconditional_retry_observe_seconds),
            replace=self.enable_replace,
        )

    @property
    def hang(self) -> HangSettings:
        return HangSettings(
            enabled=self.enable_hang_detection,  # without fault tolerance a hang is told, not acted upon
            log_timeout=timedelta(minutes=self.hang_detection_log_timeout_minutes),
            startup_toleration=timedelta(minutes=self.hang_detection_startup_toleration_minutes),
            stack_timeout=timedelta(minutes=self.hang_detection_stack_timeout_minutes),
            adaptive=self.adaptive_hang_detection,
        )


@dataclass(frozen=True)
class Flag:
    """One flag: how its text is read, and whether it means anything without hang detection."""

    setting: str
    read: Reader
    is_switch: bool = False
    repeatable: bool = False
    needs_hang_detection: bool = False


_SWITCH: dict[str, Any] = {"read": boolean, "is_switch": True}
_RESTARTS = whole(-1, MAX_RESTARTS, f"a whole number from -1 (no limit) to {MAX_RESTARTS}")
_OBSERVE = whole(0, MAX_SECONDS, "whole seconds, 0 or more, such as 3600")
FLAGS: dict[str, Flag] = {
    flag: Flag(flag.removeprefix("--").replace("-", "_"), **how)
    for flag, how in {
        "--enable-replace": _SWITCH,
        "--enable-hang-detection": _SWITCH,
        "--hang-detection-log-timeout-minutes": {"read": minutes(">"), "needs_hang_detection": True},
        "--hang-detection-startup-toleration-minutes": {"read": minutes(">="), "needs_hang_detection": True},
        "--hang-detection-stack-timeout-minutes": {"read": minutes(">"), "needs_hang_detection": True},
        "--max-num-of-unconditional-retry": {"read": whole(0, 3, "a whole number from 0 to 3")},
        "--unconditional-retry-observe-seconds": {"read": _OBSERVE},
        "--custom-log-patterns": {"read": pattern, "repeatable": True},
        "--enable-use-nodes-of-last-job": _SWITCH,
        "--enable-checkpoint-migration": _SWITCH,
        "--internal-fault-tolerance-alarm-phone": {"read": phones},
        "--max-restarts": {"read": _RESTARTS},
        "--adaptive-hang-detection": {**_SWITCH, "needs_hang_detection": True},
    }.items()
}


@dataclass(frozen=True)
class Given:
    """What was said, before defaults: settings by name."""

    settings: dict[str, Any] = field(default_factory=dict)


def parse(text: str) -> Given:
    """The one string of `--flag=value`.

    Raises:
        SettingError: names the flag and the mend.
    """
    if len(text) > MAX_TEXT:
        raise SettingError("--fault-tolerance-args", f"longer than {MAX_TEXT} characters; shorten it")
    try:
        words = _split(text)
    except ValueError as error:
        raise SettingError("--fault-tolerance-args", f"{error}; close every quotation mark".lower()) from None
    said: dict[str, Any] = {}
    for name, value in _pairs(words):
        flag = FLAGS[name]
        read = flag.read(name, value)
        if flag.repeatable:
            said[flag.setting] = (*said.get(flag.setting, ()), read)
        elif flag.setting in said and said[flag.setting] != read:
            raise SettingError(name, "is given twice with different values; keep one of them")
        else:
            said[flag.setting] = read
    _check_patterns("--custom-log-patterns", said.get("custom_log_patterns", ()))
    _check_hang_flags(said)
    return Given(said)


def _split(text: str) -> list[str]:
    """Words as in a shell, quotes included; a backslash is a backslash, for patterns are full of them."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    return list(lexer)


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """`--flag=value`, `--flag value`, and switches alone."""
    pairs: list[tuple[str, str]] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if name not in FLAGS:
            raise _unknown(name)
        if not equals:
            if FLAGS[name].is_switch:
                value = left.pop(0) if left and left[0].lower() in {"true", "false"} else "true"
            elif left and not left[0].startswith("--"):
                value = left.pop(0)
            else:
                raise SettingError(name, f"needs a value: write {name}=VALUE")
        pairs.append((name, value))
    return pairs


def _unknown(name: str) -> SettingError:
    if not name.startswith("--"):
        return SettingError("--fault-tolerance-args", f"{shown(name)} is no flag; write --flag=value")
    near = get_close_matches(name, FLAGS, n=1)
    return SettingError(
        shown(name, ""), f"unknown flag; {f'did you mean {near[0]}?' if near else 'remove it'}"
    )


def _check_hang_flags(said: Mapping[str, Any]) -> None:
    if said.get("enable_hang_detection"):
        return
    for name, flag in FLAGS.items():
        if flag.needs_hang_detection and said.get(flag.setting) not in {None, False}:
            raise SettingError(name, "means nothing without hang detection; add --enable-hang-detection=true")


def _check_patterns(name: str, patterns: Sequence[str]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise SettingError(name, f"{len(patterns)} patterns are given; {MAX_PATTERNS} are the most")


def from_config(
    *, hang: bool | None, timeout_minutes: float | None, restarts: int | None, patterns: Sequence[str] | None
) -> Given:
    """`faultToleranceConfig` (CONTRACT 3: `faultToleranceLimit` is `--max-restarts`)."""
    name = "faultToleranceConfig"
    said: dict[str, Any] = {"enable_hang_detection": hang}
    if timeout_minutes is not None:
        where = f"{name}.hangDetectionTimeoutMinutes"
        said["hang_detection_log_timeout_minutes"] = minutes(">")(where, str(timeout_minutes))
        if not hang:
            raise SettingError(
                where, f"means nothing without hang detection; set {name}.enabledHangDetection to true"
            )
    if restarts is not None:
        said["max_restarts"] = _RESTARTS(f"{name}.faultToleranceLimit", str(restarts))
    if patterns is not None:
        where = f"{name}.customFaultTolerancePattern"
        _check_patterns(where, patterns)
        said["custom_log_patterns"] = tuple(pattern(where, text) for text in patterns)
    return Given({setting: value for setting, value in said.items() if value is not None})


def effective(given: Given, *, enabled: bool) -> FaultTolerance:
    """With the defaults filled in: what the job will really be treated by."""
    settings = replace(FaultTolerance(enabled=enabled), **given.settings)
    if "adaptive_hang_detection" in given.settings:
        return settings
    return replace(settings, adaptive_hang_detection=settings.enable_hang_detection)
