"""Bundles: one JSON document that holds a world and its log (CONTRACT 6, cases/README.md)."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from master.bundleflight import Dump, dump_of, seen_of, with_ranks
from master.bundleread import Bundle, BundleError, Line, NodeWorld, nodes_of, read_lines

MAX_BYTES = 64 << 20  # of one bundle: it is read as a whole
MAX_RANK = 10_000_000
_RANK = re.compile("[0-9]{1,7}")
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def read_json(path: Path) -> Bundle:
    """The bundle that a `.json` file holds."""
    with path.open("rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise _too_large(str(path))
    return parse(raw.decode("utf-8-sig", "replace"), str(path))


def read_jsonl(path: Path) -> Iterator[Bundle]:
    """The bundles of a `.jsonl` file, one a line."""
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(MAX_BYTES + 1):
            number += 1
            if len(raw) > MAX_BYTES:
                raise _too_large(f"{path}:{number}")
            if raw.strip():
                yield parse(raw.decode("utf-8-sig", "replace"), f"{path}:{number}")


def _too_large(where: str) -> BundleError:
    return BundleError(
        f"{where}: a bundle of more than {MAX_BYTES >> 20} MiB; give the part around the fault, or log files"
    )


def parse(document: str, where: str) -> Bundle:
    """A bundle's JSON."""
    try:
        data = json.loads(document)
    except json.JSONDecodeError as error:
        raise _not_json(where, str(error)) from None
    except RecursionError:
        raise _not_json(where, "nested too deep") from None
    except ValueError:
        raise _not_json(where, "a number of too many digits") from None
    return from_document(data, where)


def _not_json(where: str, why: str) -> BundleError:
    shape = "one bundle a line" if ".jsonl:" in where else "one bundle"
    return BundleError(f"{where}: not JSON ({why}); it must hold {shape}, a log is to be named .log")


def from_document(data: object, where: str) -> Bundle:
    """`{"world": {…}, "log": [{"t", "node", "rank", "src", "line"}], "flight": {rank: dump}}`."""
    told = data if isinstance(data, dict) else {}
    log, world, flight = told.get("log"), told.get("world"), told.get("flight")
    if not isinstance(log, list):
        raise BundleError(
            f'{where}: "log" must be a list of {{"t", "node", "rank", "src", "line"}}; '
            "a log of JSON lines is to be named .log"
        )
    if world is not None and not isinstance(world, dict):
        raise BundleError(f'{where}: "world" must be an object such as {{"nodes": […]}}, or left out')
    world = world or {}
    lines = [_line(entry, f"{where}: log[{at}]", (where, at + 1)) for at, entry in enumerate(log)]
    start = world.get("job_start")
    started = _time(start, f"{where}: world.job_start") if start is not None else None
    known = world.get("nodes") or []
    if not isinstance(known, list):
        raise BundleError(f'{where}: world.nodes must be a list of {{"name", "ip", "ranks"}}')
    nodes = [_node(entry, f"{where}: world.nodes[{at}]") for at, entry in enumerate(known)]
    dumps = _dumps(flight, where)
    nodes = with_ranks(nodes or nodes_of(lines), dumps)
    end = max((line.at for line in lines), default=_EARLIEST)
    return read_lines(lines, nodes, started, [seen_of(dump, dump.at or end, nodes) for dump in dumps])


def _dumps(told: object, where: str) -> list[Dump]:
    """Dumps of PyTorch's flight recorder as JSON, by rank."""
    if told is None:
        return []
    if not isinstance(told, dict) or not all(_RANK.fullmatch(key) for key in told):
        raise BundleError(
            f'{where}: "flight" must be an object of ranks and their dumps, such as {{"0": {{…}}}}'
        )
    for key, dump in told.items():
        if not isinstance(dump, dict) or "entries" not in dump:
            raise BundleError(
                f'{where}: flight["{key}"] must be a dump of the flight recorder, with "entries"'
            )
    return [dump_of(where, int(key), "", dump) for key, dump in told.items()]


def _line(entry: object, where: str, origin: tuple[str, int]) -> Line:
    if not isinstance(entry, dict):
        raise BundleError(f'{where}: must be an object with "t" and "line"')
    rank, text, node, source = (entry.get(name) for name in ("rank", "line", "node", "src"))
    if not isinstance(text, str):
        raise BundleError(f'{where}: "line" must be a text')
    if rank is not None and not _is_rank(rank):
        raise BundleError(f'{where}: "rank" must be a whole number from 0 to {MAX_RANK}, or null')
    for name, value in (("node", node), ("src", source)):
        if value is not None and not isinstance(value, str):
            raise BundleError(f'{where}: "{name}" must be a text')
    at = _time(entry.get("t"), f'{where}: "t"')
    return Line(at, node or "", rank, source or "stdout", text, origin)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_RANK


def _time(value: object, where: str) -> datetime:
    """RFC 3339, or seconds since 1970."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            at = datetime.fromtimestamp(value, UTC)
        else:
            at = datetime.fromisoformat(str(value))
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        at = None
    if at is None or not _EARLIEST <= at <= _LATEST:
        raise BundleError(f"{where}: {str(value)[:40]!r} is no RFC 3339 time such as 2026-01-12T03:00:00Z")
    return at


def _node(entry: object, where: str) -> NodeWorld:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise BundleError(f'{where}: must be an object with a "name"')
    ranks, address = entry.get("ranks"), entry.get("ip")
    ranks = [] if ranks is None else ranks
    if not isinstance(ranks, list) or not all(_is_rank(rank) for rank in ranks):
        raise BundleError(f'{where}: "ranks" must be a list of whole numbers from 0 to {MAX_RANK}')
    if address is not None and not isinstance(address, str):
        raise BundleError(f'{where}: "ip" must be a text')
    return entry["name"], address or "", tuple(ranks)
