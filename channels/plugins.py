"""Adapters that other packages bring, found by the entry point group `faultcast.channels` (name = kind).

One that is broken or clashes is logged once and left out: it never takes the service down.
"""

import inspect
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType

from channels.base import Adapter, ChannelConfig, Limit
from channels.shield import Shielded, is_sound

GROUP = "faultcast.channels"
FORMATS = ("markdown", "lark", "text", "html", "sms", "speech")
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")

log = logging.getLogger(__name__)


class Unfit(Exception):  # noqa: N818  a reason, not a failure of ours
    """Why a plug-in is left out, in words for whoever installed it."""


class Plugins:
    """The fit ones by kind, looked for once, when a kind is asked for that is not ours."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = taken

    @cached_property
    def adapters(self) -> Mapping[str, Adapter]:
        return MappingProxyType(found(entry_points(group=GROUP), self._taken))


def found(points: Iterable[EntryPoint], taken: Collection[str]) -> dict[str, Adapter]:
    """The adapters of those entry points that are fit, by kind, in the order of their names."""
    points = sorted(set(points), key=lambda point: (point.name, point.value))
    times = Counter(point.name for point in points)
    fit = {}
    for point in points:
        if point.name in taken:
            _leave_out(point, "this kind is Faultcast's own and cannot be replaced")
        elif times[point.name] > 1:
            _leave_out(point, "several packages bring this kind: uninstall all but one")
        else:
            try:
                fit[point.name] = load(point)
            except Unfit as reason:
                _leave_out(point, str(reason))
    return fit


def load(point: EntryPoint) -> Adapter:
    """The adapter of one entry point.

    Raises:
        Unfit: it cannot be imported or made, or is not what it has to be.
    """
    try:
        given = point.load()
        adapter = given() if inspect.isclass(given) else given
    except (Exception, SystemExit) as error:  # noqa: BLE001  a border: whatever another's code raises
        raise Unfit(f"{type(error).__name__}: {error}") from None
    if not isinstance(adapter, Adapter):
        raise Unfit("it is no subclass of channels.base.Adapter")
    try:
        wrong = next(faults(adapter, point.name), None)
    except Exception as error:  # noqa: BLE001  the same border: attributes of any type
        raise Unfit(f"its class attributes are not what they must be: {type(error).__name__}") from None
    if wrong is not None:
        raise Unfit(wrong)
    return Shielded(adapter)


def faults(adapter: Adapter, name: str) -> Iterator[str]:
    """What keeps an adapter from being registered under that name."""
    if _KIND.fullmatch(name) is None:
        yield "a kind is a word of at most 32 of a-z, 0-9, _ and -, beginning with a letter"
    if getattr(adapter, "kind", None) != name:
        yield f"its class attribute `kind` must be {name!r}, as the entry point says"
    config = getattr(adapter, "Config", None)
    if not (inspect.isclass(config) and issubclass(config, ChannelConfig)):
        yield "its class attribute `Config` must be a subclass of channels.base.ChannelConfig"
    if adapter.format not in FORMATS:
        yield f"its class attribute `format` must be one of {', '.join(FORMATS)}"
    limits: tuple[object, ...] = adapter.limits
    if not all(isinstance(limit, Limit) for limit in limits):
        yield "its class attribute `limits` must be a tuple of channels.base.Limit"
    elif not all(map(is_sound, limits)):
        yield "each of `limits` must allow at least one send, in a time longer than nothing"
    times: tuple[object, ...] = (adapter.expires_after, *adapter.receipts_after)
    if not all(isinstance(time, timedelta) for time in times):
        yield "`expires_after` and `receipts_after` must be of timedelta"


def _leave_out(point: EntryPoint, reason: str) -> None:
    package = point.dist.name if point.dist else "an unknown package"
    words = " ".join(reason.split())[:300]
    log.warning("channel kind %s of %s (%s) is left out: %s", point.name, package, point.value, words)
