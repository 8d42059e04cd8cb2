"""Reports of agents: once, in bounds, by our clock, and never in another's name."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import func, select

from master import cases, evidence, intake
from master.model import AgentLife, Job, ObservationRow, Run
from master.reports import ReportBody
from notifier.auth import Principal, Role
from notifier.clock import rfc3339
from notifier.problems import Problem
from tests.master.world import World, both

TWO = {"jobSpec": {"replicas": 2, "nprocPerNode": 2}}
LINE = {"kind": "log_match", "data": {"signature": "cuda.oom", "line": "CUDA out of memory"}}


def beat(world: World, ranks: dict[int, dict[str, Any]], **more: Any) -> dict[str, Any]:
    states = {
        str(rank): {
            "pid": 1,
            "state": "S",
            "step_at": rfc3339(world.now) if "step" in state else None,
            **state,
        }
        for rank, state in ranks.items()
    }
    return {"kind": "heartbeat", "data": {"ranks": states, "log_at": rfc3339(world.now)}, **more}


def rows(world: World, **where: Any) -> list[ObservationRow]:
    with world.services.store.read() as session:
        found = select(ObservationRow).filter_by(**where).order_by(ObservationRow.id)
        return list(session.scalars(found))


def everything(world: World) -> dict[str, int]:
    """How many rows each table that reports touch holds."""
    with world.services.store.read() as session:
        return {
            table.__name__: session.scalar(select(func.count()).select_from(table)) or 0
            for table in (ObservationRow, AgentLife)
        }


def refused(world: World, who: Principal, *observations: dict[str, Any]) -> Problem:
    before = everything(world)
    with pytest.raises(Problem) as caught:
        world.report(who, *observations)
    assert everything(world) == before
    return caught.value


@both
def test_evidence_is_kept_with_the_identity_of_the_token(world: World) -> None:
    job_id = world.submit(**TWO)
    pod = world.pods(job_id)[1]
    world.report(world.agent(pod), {**LINE, "rank": 2})
    [row] = rows(world, kind="log_match")
    assert (row.job_id, row.run, row.pod_id, row.node, row.rank, row.source) == (
        job_id, 0, pod.id, pod.node, 2, "agent",
    )  # fmt: skip


FOREIGN = {
    "another pod's rank": {**LINE, "rank": 0},
    "a rank that does not exist": {**LINE, "rank": 4},
    "another's heartbeat": {"kind": "heartbeat", "data": {"ranks": {"1": {"pid": 1, "state": "Z"}}}},
    "another's heartbeat beside its own": {
        "kind": "heartbeat",
        "data": {"ranks": {"2": {"pid": 1, "state": "S"}, "0": {"pid": 1, "state": "Z"}}},
    },
    "another's stack": {"kind": "stacks", "rank": 1, "data": {"frames": ["f (a.py:1)"]}},
    "another's exit": {"kind": "process_exited", "rank": 0, "data": {"signal": 9}},
    "another's step": {"kind": "progress", "rank": 0, "data": {"step": 10**6}},
    "the kernel": {"kind": "kernel_line", "data": {"signature": "xid.79", "line": "NVRM: Xid 79"}},
}


@pytest.mark.parametrize("claim", FOREIGN.values(), ids=FOREIGN)
def test_a_pod_speaks_for_itself_alone(world: World, claim: dict[str, Any]) -> None:
    job_id = world.submit(**TWO)
    problem = refused(world, world.agent(world.pods(job_id)[1]), beat(world, {2: {}}), claim)
    assert problem.status == 422
    assert problem.errors[0][0].startswith("observations.1.")


@pytest.mark.parametrize("name", ["pod_id", "pod", "node", "job_id", "run", "source"])
def test_the_body_cannot_name_whose_it_is(world: World, name: str) -> None:
    job_id = world.submit(**TWO)
    with pytest.raises(ValidationError, match="Extra inputs"):
        world.report(world.agent(world.pods(job_id)[0]), {**LINE, name: "x"})


def test_ranks_that_are_not_known_here_are_left_out_not_believed(world: World) -> None:
    job_id = world.submit(jobSpec={"replicas": 2})  # nobody said how many processes a pod has
    pod = world.pods(job_id)[1]
    world.report(world.agent(pod), {**LINE, "rank": 0}, beat(world, {0: {"step": 99}, 1: {"step": 5}}))
    assert [row.rank for row in rows(world, kind="log_match")] == [None]
    assert world.run(job_id).last_step == 5
    assert world.pods(job_id)[1].agent_seen_at == world.now


def test_a_lone_pod_may_have_any_number_of_ranks(world: World) -> None:
    job_id = world.submit()
    world.report(world.agent(world.pods(job_id)[0]), beat(world, {rank: {"step": 3} for rank in range(8)}))
    with world.services.store.read() as session:
        case = cases.load(
            session, session.get_one(Job, job_id), session.get_one(Run, (job_id, 0)), world.pods(job_id)
        )
    assert [view.rank for view in case.ranks] == list(range(8))
    assert case.pods[0].ranks == tuple(range(8))


@pytest.mark.parametrize("kind", ["process_exited", "log_match", "stacks", "progress"])
def test_a_node_speaks_of_its_kernel_alone(world: World, kind: str) -> None:
    world.submit()
    data = {"log_match": LINE["data"], "progress": {"step": 1}}.get(kind, {})
    problem = refused(world, world.node_agent("node-1"), {"kind": kind, "data": data})
    assert problem.errors[0][0] == "observations.0.kind"


@both
def test_kernel_lines_are_the_nodes_word(world: World) -> None:
    world.submit()
    data = {"signature": "xid.79", "line": "NVRM: Xid (PCI:0000:9b:00): 79"}
    world.report(world.node_agent("node-2"), {"kind": "kernel_line", "data": data}, {"kind": "heartbeat"})
    [row] = rows(world, kind="kernel_line")
    assert (row.node, row.source, row.job_id) == ("node-2", "node", None)


@pytest.mark.parametrize(
    "who",
    [
        Principal("t", "x", Role.AGENT),
        Principal("t", "x", Role.AGENT, pod_id="pod_none"),
        Principal("t", "x", Role.AGENT, node="node-99"),
    ],
    ids=["bound to nothing", "a pod that is gone", "a node that is gone"],
)
def test_tokens_without_an_owner_are_turned_away(world: World, who: Principal) -> None:
    assert refused(world, who, LINE).status == 403


@both
def test_the_same_report_counts_once(world: World) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    assert world.report(who, LINE)["ack"] == 1
    world.seqs.clear()
    assert world.report(who, LINE)["ack"] == 1
    assert len(rows(world, kind="log_match")) == 1


def test_another_life_of_the_agent_counts_anew_and_the_old_ones_spool_still_once(world: World) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    for boot in ("old", "new", "old"):
        world.report(who, LINE, boot=boot)
    world.seqs.clear()
    for boot in ("old", "new"):
        world.report(who, LINE, boot=boot)
    assert len(rows(world, kind="log_match")) == 3


@both
def test_endless_lives_are_forgotten(world: World) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    for n in range(30):
        world.now += timedelta(seconds=1)
        world.report(who, boot=f"b{n}")
    assert everything(world)["AgentLife"] <= intake.LIVES_KEPT + 1


@pytest.mark.parametrize("hours", [-300, -1, 1, 300], ids=str)
def test_a_wrong_clock_is_set_right(world: World, hours: int) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    skewed = world.now + timedelta(hours=hours)
    body = {
        "boot": "b", "seq": 1, "sent_at": rfc3339(skewed),
        "observations": [
            {**LINE, "at": rfc3339(skewed - timedelta(seconds=5))},
            {
                "kind": "heartbeat",
                "at": rfc3339(skewed),
                "data": {
                    "ranks": {"0": {"pid": 1, "state": "S", "step": 4, "step_at": rfc3339(skewed)}},
                    "log_at": rfc3339(skewed - timedelta(seconds=1)),
                },
            },
        ],
    }  # fmt: skip
    with world.services.store.write() as session:
        intake.take(session, who, ReportBody.model_validate(body), world.now)
    assert rows(world, kind="log_match")[0].at == world.now - timedelta(seconds=5)
    run = world.run(job_id)
    assert (run.last_step_at, run.last_log_at) == (world.now, world.now - timedelta(seconds=1))


@pytest.mark.parametrize("at", ["1970-01-01T00:00:00Z", "8999-12-31T23:59:59Z"])
@pytest.mark.parametrize("sent_at", ["1970-01-01T00:00:00Z", "8999-12-31T23:59:59Z"])
def test_absurd_times_harm_nothing(world: World, at: str, sent_at: str) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    body = {"boot": "b", "seq": 1, "sent_at": sent_at, "observations": [{**LINE, "at": at}]}
    with world.services.store.write() as session:
        intake.take(session, who, ReportBody.model_validate(body), world.now)
    [row] = rows(world, kind="log_match")
    assert world.now - timedelta(days=31) < row.at <= world.now


@both
def test_heartbeats_are_folded_not_heaped_up(world: World) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    for step in range(1, 61):
        world.now += timedelta(seconds=0.5)
        world.report(who, beat(world, {0: {"step": step, "cpu_ticks": step}}))
    assert len(rows(world, kind="heartbeat")) <= 9
    run = world.run(job_id)
    assert (run.first_step, run.last_step, run.last_step_at) == (1, 60, world.now)
    assert run.rhythm == [0.5] * 59
    assert run.last_log_at == world.now


@pytest.mark.parametrize(
    ("ticks", "few", "moved"), [(1, 1000, False), (30, 1_000_000, True)], ids=["a trickle", "work"]
)
def test_the_rank_view_compares_with_the_beat_a_window_before(
    world: World, ticks: int, few: int, moved: bool
) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    for n in range(10):
        world.now += timedelta(seconds=1)
        busy = {"state": "R", "cpu_ticks": n * ticks, "io_bytes": n * few}
        world.report(who, beat(world, {0: busy}))
    with world.services.store.read() as session:
        case = cases.load(
            session, session.get_one(Job, job_id), session.get_one(Run, (job_id, 0)), world.pods(job_id)
        )
    [view] = case.ranks
    assert (view.state, view.cpu_moved, view.io_moved) == ("R", moved, moved)


def test_a_flood_of_lines_leaves_room_for_what_decides(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "ROWS_KEPT", 20)
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    for _ in range(4):
        world.report(who, *[LINE] * 10)
    world.report(who, {"kind": "process_exited", "rank": 0, "data": {"signal": 9}})
    assert len(rows(world, kind="log_match")) == 20
    assert len(rows(world, kind="process_exited")) == 1


@both
def test_stacks_are_asked_for_until_they_come(world: World) -> None:
    job_id = world.submit()
    pod = world.pods(job_id)[0]
    who = world.agent(pod)
    assert "stacks" not in world.report(who)["want"]
    with world.services.store.write() as session:
        session.get_one(Run, (job_id, 0)).stacks_wanted_at = world.now
    assert world.report(who)["want"]["stacks"] is True
    stack = {"kind": "stacks", "rank": 0, "data": {"pid": 5, "frames": ["step (train.py:9)"]}}
    assert "stacks" not in world.report(who, stack)["want"]


@both
def test_old_stacks_make_room(world: World) -> None:
    job_id = world.submit()
    who = world.agent(world.pods(job_id)[0])
    for n in range(40):
        world.report(who, {"kind": "stacks", "rank": 0, "data": {"frames": [f"f{n} (a.py:1)"]}})
    kept = rows(world, kind="stacks")
    assert len(kept) == evidence.STACKS_KEPT
    assert kept[-1].data["frames"] == ["f39 (a.py:1)"]


def test_the_jobs_own_patterns_ride_on_every_answer(world: World) -> None:
    job_id = world.submit(faultTolerance=True, faultToleranceArgs="--custom-log-patterns='Loss nan'")
    assert world.report(world.agent(world.pods(job_id)[0]))["want"]["patterns"] == ["Loss nan"]


BAD = {
    "no boot": ({"boot": ""}, "boot"),
    "boot with a blank": ({"boot": "a b"}, "boot"),
    "seq zero": ({"seq": 0}, "seq"),
    "seq as text": ({"seq": "1"}, "seq"),
    "no time zone": ({"sent_at": "2026-11-29T03:00:00"}, "sent_at"),
    "newer protocol": ({"version": 99}, "version"),
    "one field too many": ({"pod": "x"}, "pod"),
    "too many": ({"observations": [LINE] * 501}, "observations"),
    "unknown kind": ({"observations": [{"kind": "spell"}]}, "observations.0"),
    "rank below zero": ({"observations": [{**LINE, "rank": -1}]}, "observations.0.log_match.rank"),
    "rank as text": ({"observations": [{**LINE, "rank": "1"}]}, "observations.0.log_match.rank"),
    "endless line": (
        {"observations": [{"kind": "log_match", "data": {"signature": "a", "line": "x" * 20_000}}]},
        "observations.0.log_match.data.line",
    ),
    "heartbeat of no rank": (
        {"observations": [{"kind": "heartbeat", "data": {"ranks": {"x": {"pid": 1, "state": "S"}}}}]},
        "observations.0.heartbeat.data.ranks",
    ),
    "step below zero": (
        {"observations": [{"kind": "progress", "data": {"step": -1}}]},
        "observations.0.progress.data.step",
    ),
    "step beyond bounds": (
        {"observations": [{"kind": "progress", "data": {"step": 10**30}}]},
        "observations.0.progress.data.step",
    ),
}


@pytest.mark.parametrize(("change", "field"), BAD.values(), ids=BAD)
def test_malformed_reports_are_refused_by_field(change: dict[str, Any], field: str) -> None:
    at = "2026-11-29T03:00:00Z"
    body = {"boot": "b", "seq": 1, "sent_at": at, "observations": [], **change}
    body["observations"] = [{"at": at, **one} for one in body["observations"]]
    with pytest.raises(ValidationError) as caught:
        ReportBody.model_validate(body)
    assert next(".".join(map(str, fault["loc"])) for fault in caught.value.errors()).startswith(field)


@pytest.mark.parametrize("step", [10**12, 10**18])
def test_a_step_that_no_training_makes_is_refused(world: World, step: int) -> None:
    job_id = world.submit(**TWO)
    with pytest.raises(ValidationError):
        world.report(world.agent(world.pods(job_id)[0]), {"kind": "progress", "data": {"step": step}})
    with pytest.raises(ValidationError):
        world.report(world.agent(world.pods(job_id)[0]), beat(world, {0: {"step": step}}))


def custom(pattern: str | None) -> dict[str, Any]:
    captured = {} if pattern is None else {"pattern": pattern}
    return {"kind": "log_match", "data": {"signature": "custom", "line": "Loss nan", "captured": captured}}


@pytest.mark.parametrize("pattern", [None, "Loss nan"])
def test_a_pod_makes_up_no_fault_keyword(world: World, pattern: str | None) -> None:
    agent = world.agent(world.pods(world.submit(**TWO, faultTolerance=True))[0])
    assert refused(world, agent, custom(pattern)).errors[0][0] == "observations.0.data.captured.pattern"


def test_a_fault_keyword_of_the_job_is_taken(world: World) -> None:
    args = "--custom-log-patterns='Loss nan'"
    job_id = world.submit(**TWO, faultTolerance=True, faultToleranceArgs=args)
    world.report(world.agent(world.pods(job_id)[0]), custom("Loss nan"))
    assert [row.data["signature"] for row in rows(world, kind="log_match")] == ["custom"]
