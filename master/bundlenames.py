"""Whose a log file is, by its name: `rank<N>` and `node<NAME>` (CONTRACT 6), and what kind of log."""

import re
from dataclasses import dataclass
from pathlib import PurePath

_RANK = re.compile(r"(?i)(?<![a-z])(?:global[_-]?)?rank[_.-]?(\d{1,6})(?!\d)")
_NODE = re.compile(r"(?i)(?<![a-z])node[_-]?([^\W_][\w-]*)")
_TORCHRUN = re.compile(r"attempt_\d+/(\d{1,5})/std(?:out|err)\.log$")  # its --log-dir
_RANK_BEHIND = re.compile(r"(?i)[_-](?:global[_-]?)?rank[_-]?\d+.*$")
_KIND_BEHIND = re.compile(
    r"(?i)(?:[_-](?:dmesg|kern(?:el)?|kmsg|journal(?:ctl|d)?|messages|syslog|k8s|kube\w*|events?|agent|"
    r"py-?spy|stacks?|launcher|std(?:out|err)|out|err|log))+$"
)
_KINDS = (
    ("kernel", re.compile(r"(?i)(?<![a-z])(?:kern(?:el)?|dmesg|kmsg)(?![a-z])")),
    ("journal", re.compile(r"(?i)(?<![a-z])(?:journal(?:ctl|d)?|messages|syslog)(?![a-z])")),
    ("k8s", re.compile(r"(?i)(?<![a-z])(?:k8s|kube\w*|events?)(?![a-z])")),
    ("agent", re.compile(r"(?i)(?<![a-z])(?:agent|py-?spy|stacks?)(?![a-z])")),
)


@dataclass(frozen=True)
class Named:
    """`node`: "" where the name tells none. `kind`: log | kernel | journal | k8s | agent."""

    rank: int | None
    node: str
    kind: str


def named(path: PurePath) -> Named:
    """`path`: within what was given, for folders may name the source too. The innermost name wins."""
    rank, node, rest = None, "", path.name
    if found := _TORCHRUN.search(path.as_posix()):
        rank = int(found[1])
    for part in path.parts:
        if found := _RANK.search(part):
            rank = int(found[1])
        if found := _NODE.search(part):
            node = _KIND_BEHIND.sub("", _RANK_BEHIND.sub("", found[1]))
            rest = path.name.replace(node, "", 1)  # a node may be called k8s-2
    kind = next((kind for kind, form in _KINDS if form.search(rest)), "log")
    return Named(None if kind in ("kernel", "journal", "k8s") else rank, node, kind)
