"""`faultcast diagnose`: logs that lie on disk, as a case; its answer in the form of CONTRACT 6."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path, PurePath
from typing import Any

from master.bundlefaults import faults_of
from master.bundlefiles import read_logs
from master.bundleflight import is_dump
from master.bundlejson import from_document, parse, read_json, read_jsonl
from master.bundleread import Bundle, BundleError
from master.bundlesources import SAMPLE
from master.casefile import Action, Decision, Diagnosis, Evidence, History, Policy, PoolView
from master.decision import decide

__all__ = [
    "Bundle",
    "BundleError",
    "answer",
    "fault_document",
    "faults_of",
    "from_document",
    "parse",
    "read_paths",
]


def answer(bundle: Bundle, language: str = "zh") -> dict[str, Any]:
    """CONTRACT 6: the document of one bundle. `language`: zh or en."""
    found = faults_of(bundle)
    symptoms = [line for fault in found for line in fault.symptoms]
    return {
        "faults": [
            fault_document(fault, at_first_occurrence(fault, bundle.ended_at), language) for fault in found
        ],
        "symptoms": _told(_apart(symptoms, [line for fault in found for line in fault.evidence])),
    }


def _apart(symptoms: Iterable[Evidence], told: Iterable[Evidence]) -> list[Evidence]:
    """Each line once, and none that is a fault's own evidence."""
    known = set(told)
    return list(dict.fromkeys(one for one in symptoms if one not in known))


def at_first_occurrence(diagnosis: Diagnosis, now: datetime) -> Decision:
    """What the master would decide of a fault it sees for the first time, with fault tolerance on."""
    policy = Policy(
        enabled=True,
        max_restarts=10,
        unconditional_retries=0,
        unconditional_observe=timedelta(hours=1),
        replace=False,
    )
    history = History(restarts_used=0, unconditional_used=0, run_started_at=now, step=None)
    pool = PoolView(fault_isolation=True, isolation_cap=1.0, nodes=1, isolated=frozenset())
    return decide(diagnosis, policy, history, pool, now)


def fault_document(diagnosis: Diagnosis, decision: Decision, language: str) -> dict[str, Any]:
    """One fault as CONTRACT 6 prints it."""
    node = diagnosis.culprit.node or None
    return {
        "fault_class": diagnosis.fault_class.value,
        "cause": diagnosis.cause.value,
        "culprit": {"rank": diagnosis.culprit.rank, "node": node},
        "confidence": diagnosis.confidence,
        "hardware": diagnosis.hardware,
        "retryable": diagnosis.retryable,
        "isolate_node": node if diagnosis.hardware else None,
        "action": decision.action.value if decision.action is not Action.REPLACE_PODS else "restart_job",
        "reason": diagnosis.reason[language],
        "advice": diagnosis.advice[language],
        "evidence": _told(diagnosis.evidence),
    }


def _told(evidence: Iterable[Evidence]) -> list[dict[str, Any]]:
    return [
        {
            "file": one.file,
            "line_no": one.line_no,
            "rank": one.rank,
            "node": one.node or None,
            "text": one.text,
        }
        for one in evidence
    ]


def _is_folder_or_dump(path: Path) -> bool:
    try:
        if not path.is_file():
            return path.is_dir()
        with path.open("rb") as file:
            return is_dump(PurePath(path.name), file.read(SAMPLE))
    except (OSError, ValueError):  # read_paths says what is wrong with it
        return False


def read_paths(
    paths: Sequence[Path], note: Callable[[str], None] = lambda _: None, zone: tzinfo | None = None
) -> Iterator[Bundle]:
    """The cases that the paths hold: a bundle, each of a `.jsonl` file's, or all log files together.
    `note` is told what is left out of a folder; `zone`: of stamps that tell none, beside others that do."""
    bundles = [path for path in paths if path.suffix in (".json", ".jsonl") and not _is_folder_or_dump(path)]
    if bundles and len(paths) > 1:
        raise BundleError(f"{bundles[0]}: a bundle is a case of its own; give it alone")
    for path in bundles:
        try:
            yield from read_jsonl(path) if path.suffix == ".jsonl" else (read_json(path),)
        except FileNotFoundError:
            raise BundleError(f"{path}: no such file or folder; check the path") from None
        except OSError as error:
            raise BundleError(f"{path}: cannot be read ({error.strerror})") from None
    if not bundles:
        yield read_logs(paths, note, zone)
