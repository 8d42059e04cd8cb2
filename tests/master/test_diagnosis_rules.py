"""Rules behind a diagnosis: who is named, what is waited for, what may be trusted, how it is told."""

import pytest

from master.casefile import Cause, Culprit
from tests.master.story import GLOO, OFF_BUS, Story, at, killed_rank, steady, user_error_on

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def killed_worker_alone() -> Story:
    return steady().exited(1, 30.1, code=3)


def test_a_symptom_waits_for_its_cause() -> None:
    story = steady().logged(0, 30.3, f"[rank0]: {GLOO}").exited(0, 30.5, code=1, said=(GLOO,))
    assert story.judged(32) is None
    story.exited(1, 33.0, signal=9)  # its agent was slow to tell
    assert story.fault(34.1).culprit == Culprit(1, "pod-1", "node-b")


def test_a_pod_that_ended_waits_for_its_agent() -> None:
    story = (
        steady()
        .logged(0, 30.3, f"[rank0]: {GLOO}")
        .exited(0, 30.5, code=1, said=(GLOO,))
        .pod_exited(1, 31, 1)
    )
    assert story.judged(36.5) is None
    story.exited(1, 30.2, signal=9)  # told late, seen early
    assert story.fault(36.6).culprit == Culprit(1, "pod-1", "node-b")


def test_a_symptom_alone_names_nobody() -> None:
    story = steady().logged(0, 30.3, f"[rank0]: {GLOO}").exited(0, 30.5, code=1, said=(GLOO,))
    found = story.fault(37)
    assert (found.cause, found.culprit) == (Cause.NETWORK_TCP, Culprit())


def test_all_that_was_felt_folds_into_one_fault() -> None:
    found = killed_rank().fault(33)
    assert any("signal 9" in one.text for one in found.evidence)
    assert {one.rank for one in found.symptoms} >= {0}


def test_the_same_exception_on_every_rank_names_none() -> None:
    story = steady()
    for rank in (0, 1):
        user_error_on(rank, "ValueError: bad config", story=story)
    found = story.fault(33)
    assert (found.cause, found.culprit) == (Cause.USER_CODE_ERROR, Culprit())


def test_own_exceptions_of_a_rank_whose_peers_left_are_a_consequence() -> None:
    story = (
        killed_rank()
        .logged(0, 30.4, "[rank0]: TrainingAborted")
        .logged(0, 30.45, "[rank0]: RuntimeError: aborted")
    )
    assert story.fault(33).culprit.rank == 1


def test_only_what_no_pod_can_forge_is_trusted() -> None:
    forged = Story().steps(until=30).logged(1, 30.1, f"[rank1]: {ECC}")
    assert (forged.fault(31.5).hardware, forged.fault(31.5).trusted) == (True, False)
    assert steady().kernel("node-b", 30.1, OFF_BUS).fault(31.5).trusted


def test_platform_faults_are_free_unless_the_pod_is_to_blame() -> None:
    assert steady().pod_word(1, 30.1, "pod_evicted", reason="memory").fault(30.2).free
    assert not steady().pod_word(1, 30.1, "pod_evicted", own_fault=True).fault(30.2).free
    assert not killed_rank().fault(33).free


def test_a_pod_deleted_after_the_error_is_being_cleared_up() -> None:
    story = user_error_on(1, "KeyError: 'x'").pod_word(1, 45, "pod_deleted")
    assert story.fault(46).cause is Cause.USER_CODE_ERROR


def test_fingerprints_name_the_mechanism_only() -> None:
    one = user_error_on(1, "KeyError: 'shard-00417'").fault(33).fingerprint
    other = user_error_on(0, "KeyError: 'shard-00002'").fault(33).fingerprint
    assert one == other == "user_code_error/KeyError: '…'"


def test_time_of_the_fault_is_its_own() -> None:
    assert killed_rank().fault(40).at == at(30.1)


@pytest.mark.parametrize(
    "story",
    [killed_rank(), steady().idle().state(1, "T"), killed_worker_alone()],
    ids=["killed", "stopped", "unknown"],
)
def test_sentences_are_whole_in_both_languages(story: Story) -> None:
    found = story.fault(700)
    for words in (found.reason, found.advice):
        assert words["zh"].endswith("。")
        assert words["en"].endswith(".")
        assert "{" not in words["zh"] + words["en"]


def test_evidence_is_short() -> None:
    story = user_error_on(1, "ValueError: " + "x" * 5000)
    assert all(len(one.text) <= 500 for one in story.fault(33).evidence)
