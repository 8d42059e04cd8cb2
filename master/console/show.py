"""How values look on a page: times in the operator's zone, durations, colours of states."""

from datetime import datetime
from zoneinfo import ZoneInfo

_GOOD = {"delivered", "accepted", "Running", "Succeeded", "ready", "ok"}
_BAD = {"failed", "expired", "Failed", "Abnormal", "broken", "refused", "channel_broken", "isolated"}
_WARN = {"retrying", "unknown", "held", "Restarting", "temporary", "throttled", "ambiguous", "Unknown"}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def tone(state: str) -> str:
    """The pill's class: ok, bad, warn or nothing."""
    if state in _GOOD:
        return "ok"
    if state in _BAD:
        return "bad"
    return "warn" if state in _WARN else ""


def severity_tone(severity: str) -> str:
    return {"critical": "bad", "error": "bad", "warning": "warn"}.get(severity, "ok")


class Clock:
    """Times as the operator's zone has them."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)

    def full(self, moment: datetime | None) -> str:
        """`2026-11-29 03:12:41 +08:00`."""
        if moment is None:
            return "–"
        local = moment.astimezone(self._zone)
        return f"{local:%Y-%m-%d %H:%M:%S} {local:%z}"[:-2] + ":" + f"{local:%z}"[-2:]

    def short(self, moment: datetime | None) -> str:
        """`11-29 03:12:41`."""
        return "–" if moment is None else f"{moment.astimezone(self._zone):%m-%d %H:%M:%S}"

    def clock(self, moment: datetime | None) -> str:
        """`03:12:41`."""
        return "–" if moment is None else f"{moment.astimezone(self._zone):%H:%M:%S}"


def duration(seconds: float | None) -> str:
    """`12 ms`, `3.4 s`, `2 m 04 s`, `5 h 10 m`, `3 d 2 h`."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < _MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} m {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} m"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"
