"""Dumps of PyTorch's flight recorder beside a job's logs: found, read, given their places in the case."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import PurePath
from typing import Any

from agent import flight
from agent.wire import Kind
from master.bundlenames import named
from master.bundleread import NodeWorld
from master.bundlesources import Found
from master.casefile import Seen, Source

_NUMBERED = re.compile(r"(\d{1,6})(?:\.json|\.pkl|\.pickle)?$")
_KEYS = re.compile(rb'"(?:entries|pg_config|pg_status)"\s*:')
_KEYS_OF_BUNDLES = re.compile(rb'"(?:log|world|flight)"\s*:')
_LONG_BEFORE = timedelta(
    hours=3
)  # a log of errors begins when a collective timed out, long after it was called
_LONG_AFTER = timedelta(days=1)
_PICKLE = re.compile(rb"\x80[\x02-\x05]")


@dataclass(frozen=True)
class Dump:
    """What one rank's dump tells. `at`: when its last call was made; None: it does not say. `written`: when
    the file was, in seconds since 1970."""

    file: str
    rank: int
    node: str
    at: datetime | None
    groups: tuple[dict[str, Any], ...]
    written: float | None = None


@dataclass(frozen=True)
class Span:
    """Of the logs beside dumps: their first moment and their last, whether these have dates, and the zone in
    which those stamps may be written that tell none."""

    began: datetime
    ended: datetime
    is_dated: bool
    zone: tzinfo | None


def is_dump(name: PurePath, sample: bytes) -> bool:
    """Whether a file is to be read as one, by its name and its beginning."""
    if _rank(name) is None:
        return False
    told = sample.lstrip()[:1] == b"{" and _KEYS.search(sample) and not _KEYS_OF_BUNDLES.search(sample)
    return bool(_PICKLE.match(sample) or told)


def read_dump(found: Found, content: bytes) -> Dump:
    """The dump in a file that `is_dump`.

    Raises:
        agent.flight.NoDumpError: it is none, or one of more than `flight.MAX_BYTES`.
    """
    if len(content) > flight.MAX_BYTES:
        raise flight.NoDumpError(f"more than {flight.MAX_BYTES >> 20} MiB")
    dump = dump_of(found.label, _rank(found.name) or 0, named(found.name).node, flight.parse(content))
    return replace(dump, written=found.written)


def dump_of(file: str, rank: int, node: str, document: Any) -> Dump:
    """A dump that was parsed."""
    return Dump(file, rank, node, flight.newest(document), tuple(flight.groups(document)))


def _rank(name: PurePath) -> int | None:
    """The file's own name tells it by `rank<N>` or a number at its end, else its folder."""
    own = PurePath(name.name.removesuffix(".gz"))
    numbered = _NUMBERED.search(own.name)
    found = named(own).rank
    return found if found is not None else int(numbered[1]) if numbered else named(name).rank


def with_ranks(nodes: Sequence[NodeWorld], dumps: Iterable[Dump]) -> list[NodeWorld]:
    """With the ranks that dumps are of, and those that they name as members of a group."""
    known = {rank for _, _, ranks in nodes for rank in ranks}
    more: dict[str, set[int]] = {}
    for dump in dumps:
        if dump.rank not in known:
            more.setdefault(dump.node, set()).add(dump.rank)
    own = {rank for found in more.values() for rank in found}
    members = {rank for dump in dumps for group in dump.groups for rank in group["ranks"]} - known - own
    if members:
        more.setdefault("", set()).update(members)
    names = [name for name, _, _ in nodes]
    told = [(name, address, (*ranks, *sorted(more.pop(name, ())))) for name, address, ranks in nodes]
    return [*told, *((name, "", tuple(sorted(found))) for name, found in more.items() if name not in names)]


def beside(dumps: Iterable[Dump], span: Span, note: Callable[[str], None]) -> Iterator[tuple[Dump, datetime]]:
    """Dumps of the logs' own run, each with its moment on the logs' clock; `note` is told of others."""
    for dump in dumps:
        at = _moment(dump, span)
        if span.began - _LONG_BEFORE <= at <= span.ended + _LONG_AFTER:
            yield dump, at
        else:
            note(f"{dump.file}: left out, its last call was made at {dump.at:%F %T} UTC, in another run")


def _moment(dump: Dump, span: Span) -> datetime:
    """Dumps are written where logs end; of logs in local time the end seems as far away as their zone."""
    if dump.at is None or not span.is_dated:
        return span.ended
    away = span.zone.utcoffset(dump.at) if span.zone is not None else None
    moments = (dump.at, dump.at + (away or timedelta(0)))
    return min(moments, key=lambda at: abs(span.ended - at))


def seen_of(dump: Dump, at: datetime, nodes: Sequence[NodeWorld]) -> Seen:
    """As the rank's agent would have reported it."""
    node = next((name for name, _, ranks in nodes if dump.rank in ranks), dump.node)
    data: dict[str, Any] = {"flight": list(dump.groups), "file": dump.file}
    if dump.at is not None and dump.written is not None:
        data["still_s"] = dump.written - dump.at.timestamp()
    return Seen(at, Kind.STACKS, Source.AGENT, node, node or None, dump.rank, data)
