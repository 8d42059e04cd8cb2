"""Whatever is reported, diagnosis answers and never raises; what it answers is sound."""

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.signatures import SIGNATURES
from agent.wire import Kind
from master.casefile import Diagnosis, Seen, Source, Want
from master.decision import decide
from tests.master.story import Story, at
from tests.master.test_decision import FRESH, POLICY, POOL

KINDS = (
    *(kind.value for kind in Kind),
    *("pod_exited", "pod_deleted", "pod_evicted", "pod_vanished", "node_lost", "pod_preempted"),
    *("pod_oom_killed", "pod_not_started", "heartbeat_missing", "no_progress", "anything"),
)
FIELDS = "signature captured line exit_code signal pid last_lines frames error reason own_fault state text"
CAPTURES = "pid local_rank ranks seq peer exitcode signal numel"
LINES = ("[rank0]: RuntimeError: CUDA error: x", "KeyError: 'x'", "\x00\udc80", "", "NCCL WARN x" * 500)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20))
VALUES = st.one_of(
    SCALARS,
    st.sampled_from(LINES),
    st.lists(st.sampled_from(LINES), max_size=4),
    st.dictionaries(st.sampled_from(CAPTURES.split()), SCALARS),
)
DATA = st.dictionaries(st.sampled_from(FIELDS.split()), VALUES, max_size=8)
NAMED = st.fixed_dictionaries(
    {"signature": st.sampled_from([one.id for one in SIGNATURES]), "line": st.sampled_from(LINES)},
    optional={"captured": VALUES},
)


@st.composite
def seen(draw: st.DrawFn) -> Seen:
    return Seen(
        at=at(draw(st.floats(-100, 1000))),
        kind=draw(st.sampled_from(KINDS)),
        source=draw(st.sampled_from(Source)),
        node=draw(st.sampled_from(("node-a", "node-b", "node-z", ""))),
        pod=draw(st.sampled_from(("pod-0", "pod-1", "pod-9", None))),
        rank=draw(st.sampled_from((0, 1, 2, 99, None))),
        data=draw(st.one_of(DATA, NAMED)),
    )


@settings(max_examples=200, deadline=timedelta(seconds=2))
@given(
    observations=st.lists(seen(), max_size=12),
    states=st.lists(st.sampled_from(["R", "S", "D", "T", "Z", "X", "gone", "?"]), min_size=4, max_size=4),
    stepped=st.booleans(),
    now=st.floats(0, 5000),
)
def test_any_evidence_is_answered(
    observations: list[Any], states: list[str], stepped: bool, now: float
) -> None:
    story = Story(pods=2, per_pod=2)
    if stepped:
        story.steps(until=30)
    for rank, state in enumerate(states):
        story.state(rank, state)
    story.seen.extend(observations)
    found = story.judged(now)
    if isinstance(found, Want) or found is None:
        return
    assert isinstance(found, Diagnosis)
    assert found.culprit.rank in (None, 0, 1, 2, 3)
    assert 0 < found.confidence <= 1
    assert found.fingerprint
    assert not (found.trusted and not found.hardware)
    decision = decide(found, POLICY, FRESH, POOL, at(now))
    assert not decision.isolate_nodes or found.trusted
