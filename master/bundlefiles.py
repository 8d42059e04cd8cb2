"""Log files that lie on disk, as one case: put into one order of time, given their sources."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from agent.flight import MAX_BYTES, NoDumpError
from master.bundleflight import Dump, Span, beside, is_dump, read_dump, seen_of, with_ranks
from master.bundlelogs import Entry, LogFile, LogReader
from master.bundlenames import named
from master.bundleread import NEVER, Bundle, BundleError, Line, NodeWorld, of_this_time, read_seen
from master.bundleread import seen_of as line_seen
from master.bundlesources import SAMPLE, Found, Stream, files_of, why
from master.bundlestamps import Sort, shift
from master.casefile import Seen

_TEXT = frozenset(b"\t\n\r\f\b\x1b\v")
_NOTHING, _ALIKE = timedelta(0), timedelta(minutes=5)
_SOURCES = {"log": "stderr"}
Note = Callable[[str], None]


def read_logs(paths: Sequence[Path], note: Note = lambda _: None, zone: tzinfo | None = None) -> Bundle:
    """All log files and dumps that are given, and those in folders, as one case. `note` is told what is left
    out; `zone`: in which stamps without one may have been written."""
    logs: list[LogFile] = []
    dumps: list[Dump] = []
    known: set[tuple[int, int]] = set()
    for path in paths:
        for found in files_of(path, known):
            read = _read(found, note)
            if isinstance(read, LogFile):
                logs.append(read)
            elif read is not None:
                dumps.append(read)
    if not logs and not dumps:
        raise BundleError(f"{paths[0]}: holds no text log; name the log files themselves")
    return together(logs, dumps, zone, note) if logs else of_dumps(dumps)


def _read(found: Found, note: Note) -> LogFile | Dump | None:
    """One file; None where it lay in a folder and is neither text nor dump."""
    try:
        with closing(found.open()) as stream:
            sample = stream.peek(SAMPLE)[:SAMPLE]
            if is_dump(found.name, sample):
                return _dump(found, stream, note)
            if _is_text(sample):
                if found.name.suffix in (".json", ".jsonl"):
                    note(f"{found.label}: read as a log; to have it read as a bundle give it alone")
                return LogReader(found.label, named(found.name)).read(stream)
    except (OSError, EOFError, zlib.error) as error:
        raise BundleError(f"{found.label}: {why(error)}") from None
    if found.is_given:
        raise BundleError(f"{found.label}: is no text in UTF-8; give the log that was printed")
    note(f"{found.label}: left out, it is no text")
    return None


def _dump(found: Found, stream: Stream, note: Note) -> Dump | None:
    try:
        return read_dump(found, stream.read(MAX_BYTES + 1))
    except NoDumpError as error:
        if found.is_given:
            raise BundleError(f"{found.label}: {error}; leave it out") from None
        note(f"{found.label}: left out, {error}")
        return None


def _is_text(sample: bytes) -> bool:
    """Hardly any control characters; a log that was cut while open begins with zeros."""
    sample = sample.lstrip(b"\0")
    odd = sum(1 for byte in sample if byte < 32 and byte not in _TEXT)
    return odd * 50 <= len(sample)


def of_dumps(dumps: Sequence[Dump]) -> Bundle:
    """A case of dumps alone."""
    nodes = with_ranks([], dumps)
    told = [dump.at for dump in dumps if dump.at is not None] or [NEVER]
    seen = [seen_of(dump, dump.at or max(told), nodes) for dump in dumps]
    return read_seen(seen, (), nodes, (min(told), max(told)))


def together(
    logs: Sequence[LogFile],
    dumps: Sequence[Dump] = (),
    zone: tzinfo | None = None,
    note: Note = lambda _: None,
) -> Bundle:
    """One case out of all files, of which at least one is a log."""
    away = _local(logs, zone)
    best = min(log.clock.sort for log in logs)
    ends = [log.clock.at - away.get(id(log), _NOTHING) for log in logs if log.clock.sort is best]
    end = max(ends)
    moved = {id(log): _moved(log, best, end) - away.get(id(log), _NOTHING) for log in logs}
    nodes = _nodes(logs)
    marks = [
        (at + moved[id(log)], step) for log in logs for sort, at, step in log.steps if sort is log.clock.sort
    ]
    seen = [
        one for log in logs for entry in log.entries if (one := _seen(entry, log, moved[id(log)])) is not None
    ]
    began = [
        log.began + moved[id(log)]
        for log in logs
        if log.began is not None and log.named.kind == "log" and log.clock.sort <= Sort.YEARLESS
    ]
    if began:
        seen = of_this_time(seen, min(began))
    ordered = sorted(seen, key=lambda one: one.at)
    first = min([end, *began, *(one.at for one in ordered[:1])])
    is_local = any(log.clock.sort is Sort.FULL and not log.clock.is_zoned for log in logs)
    span = Span(first, end, best is Sort.FULL, zone if is_local else None)
    placed = list(beside(dumps, span, note))
    nodes = with_ranks(nodes, [dump for dump, _ in placed])
    ordered += [seen_of(dump, at, nodes) for dump, at in placed]
    return read_seen(
        sorted(ordered, key=lambda one: one.at),
        sorted(marks, key=lambda mark: mark[0]),
        nodes,
        (first, end),
        addresses=_addresses(logs),
    )


def _local(logs: Sequence[LogFile], zone: tzinfo | None) -> dict[int, timedelta]:
    """Files in local time beside others that tell their zone: they seem to end just its offset later."""
    zoned = [log.clock.at for log in logs if log.clock.is_zoned]
    offset = zone.utcoffset(max(zoned)) if zone is not None and zoned else None
    if not offset:
        return {}
    plain = [log for log in logs if log.clock.sort is Sort.FULL and not log.clock.is_zoned]
    return {id(log): offset for log in plain if abs(log.clock.at - max(zoned) - offset) <= _ALIKE}


def _moved(log: LogFile, best: Sort, end: datetime) -> timedelta:
    return (
        timedelta(0)
        if log.clock.sort is best and best <= Sort.CLOCK
        else shift(log.clock.sort, log.clock.at, end)
    )


def _seen(entry: Entry, log: LogFile, moved: timedelta) -> Seen | None:
    at = (entry.at if entry.sort is log.clock.sort else log.began or log.clock.at) + moved
    rank = entry.rank
    if rank is None and entry.kind == "log" and _is_one_rank(log):
        rank = 0
    source = _SOURCES.get(entry.kind, entry.kind)
    return line_seen(Line(at, _node(log), rank, source, entry.text, (log.file, entry.number)))


def _is_one_rank(log: LogFile) -> bool:
    """A log that names nobody counts as one rank's; what a node's or several ranks' log says without a name
    may be anybody's."""
    return log.named.kind == "log" and not log.named.node and not (log.ranks | log.told) - {0}


def _node(log: LogFile) -> str:
    """By the file's name, else by the one host that NCCL's lines in a rank's file name."""
    if log.named.node or log.named.rank is None:
        return log.named.node
    return next(iter(log.hosts)) if len(log.hosts) == 1 else ""


def _nodes(logs: Iterable[LogFile]) -> list[NodeWorld]:
    ranks: dict[str, set[int]] = {}
    for log in logs:
        found = ranks.setdefault(_node(log), set())
        if log.named.rank is not None:
            found.add(log.named.rank)
        elif log.ranks - {0}:  # all ranks of one log: who is silent in it was there as well
            found |= (
                set(range(max(log.ranks) + 1)) if not log.named.node and len(log.ranks) > 1 else log.ranks
            )
        elif _is_one_rank(log):
            found.add(0)
        elif (
            not log.named.node and log.named.kind == "log"
        ):  # several ranks of one log that does not say whose
            found |= {*range(max(log.told) + 1)}
    elsewhere = {rank for node, found in ranks.items() if node for rank in found}
    if "" in ranks:
        ranks[""] -= elsewhere
    return [(node, "", tuple(sorted(found))) for node, found in sorted(ranks.items())]


def _addresses(logs: Iterable[LogFile]) -> dict[str, str]:
    """How lines may call a node: by its host's name or address."""
    known: dict[str, str] = {}
    for log in logs:
        node = _node(log)
        if not node:
            continue
        for name in (f"node-{node}", f"node{node}", f"node_{node}"):
            known.setdefault(name, node)
        if len(log.hosts) == 1:
            for host, address in log.hosts.items():
                known.setdefault(host, node)
                known.setdefault(address, node)
    return known
