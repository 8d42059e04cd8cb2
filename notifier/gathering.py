"""The rows of a digest: the more alerts there are, the less is said of each, and none is left out. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from notifier.wording import Speaker, one_line

IN_FULL = 8  # more than these are told without their reasons
SINGLY = 40  # more than these are told together where their titles are the same
MAX_SAID = 200

Row = Mapping[str, str]


def gathered(alerts: Sequence[Mapping[str, Any]], say: Speaker) -> list[Row]:
    """Rows of `time`, `title` and `line`, oldest first."""
    if len(alerts) <= SINGLY:
        in_full = len(alerts) <= IN_FULL
        return [
            {"time": one["time"], "title": one["title"], "line": _line(one) if in_full else ""}
            for one in alerts
        ]
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in alerts:
        groups.setdefault(one["title"], []).append(one)
    return [_group(title, members, say) for title, members in groups.items()]


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
