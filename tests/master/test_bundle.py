"""`faultcast diagnose`: bundles and log files in, CONTRACT 6 out; the shared cases marked."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.score import JUDGES, Case, load, score
from master.bundle import BundleError, answer, from_document, parse, read_paths
from master.bundlewords import platform_words, probe_words

DATA = Path(__file__).parent / "data"
# Written by others than the rules: the shared cases, and those that were reviewed later.
NAMES = ("training_faults", "reviewed_cases", "reviewed_cases_2", "reviewed_cases_3", "reviewed_cases_4")
CORPORA = {name: load(DATA / f"{name}.jsonl") for name in NAMES}
WORLD = {
    "nodes": [{"name": "node-a", "ip": "10.0.0.1", "ranks": [0, 1]}, {"name": "node-b", "ranks": [2, 3]}]
}


def line(second: int, node: str, rank: int | None, src: str, text: str) -> dict[str, Any]:
    return {"t": f"2026-01-12T03:00:{second:02}Z", "node": node, "rank": rank, "src": src, "line": text}


def said(*lines: dict[str, Any]) -> dict[str, Any]:
    return answer(from_document({"world": WORLD, "log": list(lines)}, "case"))


@pytest.fixture(scope="module", params=CORPORA)
def corpus(request: pytest.FixtureRequest) -> list[Case]:
    return CORPORA[str(request.param)]


@pytest.fixture(scope="module")
def marks(corpus: list[Case]) -> dict[str, Any]:
    return score(corpus, JUDGES["faultcast"])


def test_the_cases_are_told_right(marks: dict[str, Any]) -> None:
    assert marks["share"] >= 0.98, marks["lost"]


def test_no_false_alarm_and_no_wrong_name(marks: dict[str, Any]) -> None:
    assert (marks["wolf"], marks["wrong"]) == (0, 0)


@pytest.mark.parametrize("baseline", ["earliest error line", "keywords"])
def test_baselines_are_left_behind(corpus: list[Case], marks: dict[str, Any], baseline: str) -> None:
    assert score(corpus, JUDGES[baseline])["share"] < marks["share"] - 0.3


def test_the_document_has_the_fields_of_the_contract() -> None:
    text = "[rank2]: ValueError: bad sample"
    found = said(line(1, "node-a", 0, "stdout", "step 7 | loss 1"), line(2, "node-b", 2, "stderr", text))
    assert set(found) == {"faults", "symptoms"}
    (fault,) = found["faults"]
    assert set(fault) == {
        "fault_class", "cause", "culprit", "confidence", "hardware", "retryable", "isolate_node", "action",
        "reason", "advice", "evidence",
    }  # fmt: skip
    assert (fault["culprit"], fault["action"]) == ({"rank": 2, "node": "node-b"}, "fail_job")
    assert fault["evidence"][0] == {"file": "case", "line_no": 2, "rank": 2, "node": "node-b", "text": text}
    json.dumps(found)


def test_a_hardware_fault_asks_for_isolation_and_a_restart() -> None:
    xid = "[1.2] NVRM: Xid (PCI:0000:9d:00): 79, pid=7, name=python, GPU has fallen off the bus."
    (fault,) = said(line(2, "node-b", None, "kernel", xid))["faults"]
    assert (fault["isolate_node"], fault["action"], fault["hardware"]) == ("node-b", "restart_job", True)


@pytest.mark.parametrize(("language", "words"), [("zh", "训练代码报错"), ("en", "training code")])
def test_sentences_in_the_readers_language(language: str, words: str) -> None:
    lines = [line(2, "node-b", 2, "stderr", "[rank2]: ValueError: bad sample")]
    (fault,) = answer(from_document({"world": WORLD, "log": lines}, "case"), language)["faults"]
    assert words in fault["reason"]


def test_nothing_wrong_is_an_empty_list() -> None:
    assert said(line(1, "node-a", 0, "stdout", "step 7 | loss 1")) == {"faults": [], "symptoms": []}
    assert said() == {"faults": [], "symptoms": []}


def test_what_victims_say_is_listed_apart() -> None:
    found = said(
        line(2, "node-b", 2, "stderr", "[rank2]: KeyError: 'x'"),
        line(
            3,
            "node-a",
            0,
            "stderr",
            "[rank0]: ncclRemoteError: remote process exited or there was a network error",
        ),
    )
    assert [one["rank"] for one in found["symptoms"]] == [0]


REFUSED = {
    "no json": ("{", "not JSON"),
    "no log": ("{}", '"log" must be a list'),
    "a list": ("[]", '"log" must be a list'),
    "a line that is none": ('{"log": [7]}', "log[0]: must be an object"),
    "a line without a time": ('{"log": [{"line": "x"}]}', 'log[0]: "t"'),
    "a rank that is none": ('{"log": [{"t": "2026-01-12T03:00:00Z", "line": "x", "rank": -1}]}', '"rank"'),
    "no text": ('{"log": [{"t": "2026-01-12T03:00:00Z"}]}', '"line" must be a text'),
    "a node without a name": ('{"log": [], "world": {"nodes": [{}]}}', 'world.nodes[0]: must be an object'),
    "nodes that are no list": ('{"log": [], "world": {"nodes": 7}}', "world.nodes"),
    "ranks that are none": ('{"log": [], "world": {"nodes": [{"name": "a", "ranks": ["x"]}]}}', '"ranks"'),
    "a start that is no time": ('{"log": [], "world": {"job_start": "noon"}}', "world.job_start"),
}  # fmt: skip


@pytest.mark.parametrize(("document", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_bundles_are_refused_by_field(document: str, message: str) -> None:
    with pytest.raises(BundleError) as refusal:
        parse(document, "x.json")
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("x.json")


def test_files_named_by_rank_and_node(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(
        "2026-01-12 03:00:01 step 1 | loss 2\n[rank0]: ncclRemoteError: network error\n"
    )
    (tmp_path / "rank1.log").write_text(
        "step 1 | loss 2\nTraceback (most recent call last):\nKeyError: 'x'\n"
    )
    (bundle,) = read_paths([tmp_path])
    (fault,) = answer(bundle)["faults"]
    assert (fault["cause"], fault["culprit"]["rank"]) == ("user_code_error", 1)
    assert (Path(fault["evidence"][0]["file"]).name, fault["evidence"][0]["line_no"]) == ("rank1.log", 3)


def test_a_kernel_log_of_a_node(tmp_path: Path) -> None:
    (tmp_path / "node-b7_dmesg.log").write_text(
        "[1.2] NVRM: Xid (PCI:0000:9d:00): 48, pid=7, name=python, DBE\n"
    )
    (bundle,) = read_paths([tmp_path / "node-b7_dmesg.log"])
    (fault,) = answer(bundle)["faults"]
    assert (fault["cause"], fault["culprit"]["node"]) == ("gpu_hardware", "b7")


def test_a_jsonl_holds_one_bundle_a_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"log": []}\n\n{"log": []}\n')
    assert len(list(read_paths([path]))) == 2


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such file or folder"):
        list(read_paths([tmp_path / "gone"]))


PLATFORM = {
    "Warning Evicted pod/w-1 The node was low on resource: memory.": "pod_evicted",
    "audit: user=alice verb=delete pods/train-worker-1": "pod_deleted",
    "Normal Preempted pod/w-1 by team-b/big on node n1": "pod_preempted",
    "node/n1 condition Ready=Unknown reason=NodeStatusUnknown": "node_lost",
    "pod w-1 container pytorch terminated: reason=OOMKilled exitCode=137": "pod_oom_killed",
    "pod w-0 status=Pending reason=ImagePullBackOff": "pod_not_started",
    "container pytorch terminated: reason=Completed exitCode=0": "pod_completed",
    "container pytorch terminated: reason=Error exitCode=1": "pod_exited",
    "pytorchjob train status Succeeded": "job_succeeded",
    "Normal Scheduled Successfully assigned": None,
}


@pytest.mark.parametrize(("text", "kind"), PLATFORM.items(), ids=PLATFORM.keys())
def test_words_of_the_platform(text: str, kind: str | None) -> None:
    told = platform_words(text)
    assert (told.kind if told else None) == kind


def test_an_eviction_for_the_pods_own_use_is_told_apart() -> None:
    own = platform_words("Evicted pod/w low on resource: memory. Container main was using 3Ki, request is 0")
    other = platform_words("Evicted pod/w The node had condition: [DiskPressure]")
    assert own is not None
    assert other is not None
    assert (own.data["own_fault"], other.data["own_fault"]) == (True, False)


def test_words_of_an_agent() -> None:
    told = [
        probe_words("heartbeat missing 120 s; process state T (stopped)"),
        probe_words("no new iteration line for 420 s (p99 of step time 4.4 s)"),
        probe_words(
            "py-spy: Thread MainThread (active): read (ssl.py:1159) <- recv_into <- get_object (fsspec/s3)"
        ),
        probe_words("heartbeat ok; writing /mnt/ckpt 1.1 GB/s"),
        probe_words("gpu_util=100% mem=55217MiB"),
    ]
    kinds = [one.kind if one else None for one in told]
    assert kinds == ["heartbeat_missing", "no_progress", "stacks", "heartbeat_ok", None]


@pytest.mark.parametrize(("hour", "cause"), [(1, "user_code_error"), (2, "gpu_hardware")])
def test_a_kernels_old_words_in_a_bundle_that_does_not_tell_when_it_began(hour: int, cause: str) -> None:
    xid = "NVRM: Xid (PCI:0000:9d:00): 79, pid=7, name=python, GPU has fallen off the bus."
    old = line(1, "node-b", None, "kernel", xid) | {"t": f"2026-01-12T0{hour}:30:00Z"}
    lines = [old, line(2, "node-b", 2, "stderr", "[rank2]: ValueError: bad sample")]
    (fault,) = answer(from_document({"log": lines}, "case"))["faults"]
    assert fault["cause"] == cause
