"""The rows of a digest: the more alerts there are, the less is said of each, and none is left out. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from channels.cutting import in_json
from channels.graphemes import graphemes
from notifier.wording import Speaker, one_line

IN_FULL = 8  # more than these are told without their reasons
SINGLY = 40  # more than these are told together where their titles are the same
MAX_SAID = 200
MOST = 500  # alerts of one digest, where there is space for more

# Bytes. With the shortest row there is, a digest of WeCom's three parts names 150 alerts.
HEAD = 1200  # what stands above the rows
ROW = 64
FRAME = 9  # of a row: marks, blanks, its end
MAX_HEADLINE = 100  # characters
MAX_VALUE = 60
HEAD_ROWS = 3

Row = Mapping[str, str]
Cost = Callable[[str], int]
Escape = Callable[[str], str]


def capacity(space: Sequence[int]) -> tuple[int, ...]:
    """How many alerts a digest of one part, of two… can name, with so many bytes for text."""
    return tuple(max(1, min(MOST, (size - HEAD) // ROW)) for size in space) or (MOST,)


def gathered(
    alerts: Sequence[Mapping[str, Any]], say: Speaker, space: Sequence[int] = (), escape: Escape = str
) -> list[Row]:
    """Rows of `time`, `title` and `line`, oldest first, in as few parts as can name them all.

    `space`: the bytes that one part, that two parts… have for text, which `escape` makes literal.
    """
    enough = (size for size, most in zip(space, capacity(space), strict=False) if most >= len(alerts))
    room = next(enough, space[-1] if space else None)

    def cost(text: str) -> int:
        return in_json(escape(text))

    ways = list(_shorter_and_shorter(alerts, say))
    if room is None:
        return ways[0]
    fitting = (rows for rows in ways if sum(_size(row, cost) for row in rows) <= room - HEAD)
    return next(fitting, None) or _clipped(ways[-1], room - HEAD, cost)


def headed(facts: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The facts above the rows of a digest, in short where it names many."""
    if count <= IN_FULL:
        return dict(facts)
    head = [(label, one_line(value, MAX_VALUE)) for label, value in facts["head"][:HEAD_ROWS]]
    return {**facts, "headline": one_line(facts["headline"], MAX_HEADLINE), "head": head}


def clipped(text: str, size: int, cost: Cost) -> str:
    """Both ends of a text, with a sign where something is left out: names often differ in their ends."""
    if cost(text) <= size:
        return text
    pieces = list(graphemes(text))
    low, high = 0, len(pieces)
    while low < high:  # how many of them may stay
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(_ends(pieces, middle)) <= size else (low, middle - 1)
    return _ends(pieces, low)


def _ends(pieces: Sequence[str], kept: int) -> str:
    last = kept // 2
    return "".join([*pieces[: kept - last], "…", *pieces[len(pieces) - last :]])


def _shorter_and_shorter(alerts: Sequence[Mapping[str, Any]], say: Speaker) -> Iterator[list[Row]]:
    if len(alerts) <= IN_FULL:
        yield [{"time": one["time"], "title": one["title"], "line": _line(one)} for one in alerts]
    if len(alerts) <= SINGLY:
        yield [{"time": one["time"], "title": one["title"], "line": ""} for one in alerts]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in alerts:
        groups.setdefault(one["title"], []).append(one)
    rows = [_group(title, members, say) for title, members in groups.items()]
    yield rows
    yield [{**row, "time": ""} for row in rows]


def _clipped(rows: Sequence[Row], room: int, cost: Cost) -> list[Row]:
    """Titles within the room: short ones as they are, the long ones share what these leave."""
    costs = sorted(cost(row["title"]) for row in rows)
    left, share = room - FRAME * len(rows), 0
    for n, size in enumerate(costs):
        share = max(1, left // (len(costs) - n))
        if size > share:
            break
        left -= size
    return [{**row, "title": clipped(row["title"], share, cost)} for row in rows]


def _size(row: Row, cost: Cost) -> int:
    return FRAME + sum(cost(text) + 1 for text in row.values() if text) + (FRAME if row["line"] else 0)


def _group(title: str, members: Sequence[Mapping[str, Any]], say: Speaker) -> Row:
    if len(members) > 1:
        until = members[-1]["time"]
        title = say.words["repeated"].format(title=title, count=len(members), until=until)
    return {"time": members[0]["time"], "title": title, "line": ""}


def _line(one: Mapping[str, Any]) -> str:
    headline = str(one.get("headline") or one.get("text") or "")
    is_named = any(one.get(name) and one[name] in headline for name in ("pod", "node"))
    said = (headline, "" if is_named else one.get("culprit"), one.get("decision"))
    return " · ".join(one_line(part, MAX_SAID) for part in said if part)
