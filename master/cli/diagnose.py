"""`faultcast diagnose`: reads training logs that lie on disk and says what went wrong (CONTRACT 6).

No server, no database, no token: files in, an answer out.
"""

import json
import sys
from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Any

import typer

from master.cli.client import setting
from master.cli.errors import REFUSED, CommandError, one_line
from master.cli.output import note, print_json, say

LANGUAGES = ("zh", "en")
_SHOWN = 6  # symptoms for people; `--json` has all

_WORDS = {
    "zh": {
        "none": "未发现故障",
        "fault": "故障",
        "also": "另有故障",
        "cause": "原因",
        "culprit": "元凶",
        "nobody": "证据不足以指认",
        "advice": "建议",
        "action": "处理",
        "evidence": "证据",
        "symptoms": "由此引起（{count} 行）",
        "confidence": "把握",
        "more": "……另有 {count} 行，见 --json",
        "restart_job": "重启任务",
        "fail_job": "判为失败，不重启",
        "none_done": "不处理",
        "isolate": "，并隔离节点 {node}",
        "rank": "rank {rank}",
        "node": "节点 {node}",
        "comma": "，",
    },
    "en": {
        "none": "No fault found",
        "fault": "Fault",
        "also": "Another fault",
        "cause": "cause",
        "culprit": "culprit",
        "nobody": "the evidence does not decide",
        "advice": "advice",
        "action": "action",
        "evidence": "evidence",
        "symptoms": "what followed from it (lines: {count})",
        "confidence": "confidence",
        "more": "… and {count} more, see --json",
        "restart_job": "restart the job",
        "fail_job": "fail the job, no restart",
        "none_done": "nothing",
        "isolate": " and isolate node {node}",
        "rank": "rank {rank}",
        "node": "node {node}",
        "comma": ", ",
    },
}


def register(app: typer.Typer) -> None:
    app.command("diagnose")(diagnose)


def diagnose(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…", help="Log files (.gz too), folders and tar archives of them, or one bundle."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> None:
    """Read training logs that lie on disk and say what went wrong.

    A name that holds rank<N> or node<NAME> tells whose log it is. Several PATHs are one case. A .json file
    is a bundle; a .jsonl holds one a line and is answered with one document a line. Needs no server.
    """
    from master.bundle import BundleError, answer, read_paths  # noqa: PLC0415  help is quick

    language = _language()
    many = any(path.suffix == ".jsonl" and not path.is_dir() for path in paths)
    zone = _zone()
    try:
        for bundle in read_paths(paths, note, zone):
            _print(answer(bundle, language), language, as_json=as_json, as_line=many)
    except BundleError as error:
        raise CommandError(str(error), REFUSED) from None


def _language() -> str:
    chosen = (setting("LANGUAGE") or "zh").strip()
    if chosen not in LANGUAGES:
        raise CommandError(
            f"FAULTCAST_LANGUAGE: {chosen[:40]!r} is no language of ours; set zh or en", REFUSED
        )
    return chosen


def _zone() -> tzinfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    chosen = (setting("TIMEZONE") or "Asia/Shanghai").strip()
    try:
        return ZoneInfo(chosen)
    except (KeyError, ValueError, OSError):
        raise CommandError(
            f"FAULTCAST_TIMEZONE: {chosen[:40]!r} is no time zone; name one such as Asia/Shanghai", REFUSED
        ) from None


def _print(document: dict[str, Any], language: str, *, as_json: bool, as_line: bool) -> None:
    if as_line and as_json:
        sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    elif as_json:
        print_json(document)
    else:
        _tell(document, _WORDS[language])


def _tell(document: dict[str, Any], words: dict[str, str]) -> None:
    if not document["faults"]:
        say(words["none"])
        return
    for at, fault in enumerate(document["faults"]):
        say(f"{words['also'] if at else words['fault']}: {fault['reason']}")
        for name, text in _facts(fault, words):
            _under(f"{name}: {text}")
        _under(f"{words['evidence']}:")
        _lines(fault["evidence"], fault["evidence"], words)
    symptoms = document["symptoms"]
    if symptoms:
        _under(words["symptoms"].format(count=len(symptoms)) + ":")
        _lines(symptoms[:_SHOWN], symptoms, words)


def _facts(fault: dict[str, Any], words: dict[str, str]) -> list[tuple[str, str]]:
    isolated = words["isolate"].format(node=fault["isolate_node"]) if fault["isolate_node"] else ""
    action = words["none_done" if fault["action"] == "none" else fault["action"]]
    return [
        (
            words["cause"],
            f"{fault['cause']} ({fault['fault_class']}, {words['confidence']} {fault['confidence']:.0%})",
        ),
        (words["culprit"], _who(fault["culprit"], words) or words["nobody"]),
        (words["action"], f"{action}{isolated}"),
        (words["advice"], fault["advice"]),
    ]


def _who(source: dict[str, Any], words: dict[str, str]) -> str:
    named = [
        words[name].format(**{name: source[name]}) for name in ("rank", "node") if source[name] is not None
    ]
    return words["comma"].join(named)


def _lines(shown: list[dict[str, Any]], every: list[dict[str, Any]], words: dict[str, str]) -> None:
    for line in shown:
        where = _who(line, words)
        if line["file"]:
            where = line["file"] if line["line_no"] is None else f"{line['file']}:{line['line_no']}"
        _under(f"{where}  {line['text']}" if where else line["text"], depth=2)
    if len(every) > len(shown):
        _under(words["more"].format(count=len(every) - len(shown)), depth=2)


def _under(text: str, depth: int = 1) -> None:
    """A line of the answer that belongs to the one above it."""
    sys.stdout.write("  " * depth + one_line(text) + "\n")
