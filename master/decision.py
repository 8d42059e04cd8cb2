"""What is to be done about a diagnosis, and why, in one sentence. Pure: no I/O, no clock."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from master.casefile import (
    Action,
    Cause,
    Decision,
    Diagnosis,
    FaultClass,
    History,
    Past,
    Policy,
    PoolView,
)

# The first restart is immediate: most faults are over by then. Without progress the next ones wait.
BACKOFF = tuple(timedelta(seconds=seconds) for seconds in (0, 5, 15, 45, 120, 300))
_FORGOTTEN = timedelta(hours=1)
# Retries after the first failure of one mechanism without a new step: 3 in general, 1 where only a repeat
# can tell the program's fault from bad luck (NVRx: general 3, confirmation 1).
_REPEATS = 3
_CONFIRMATIONS = 1
_CONFIRM = (Cause.USER_CODE_ERROR, Cause.UNKNOWN, Cause.SEGFAULT)
# The process is over or the pod is gone: without fault tolerance nothing would bring the job back.
_ENDS_THE_JOB = (FaultClass.PROCESS_EXIT, FaultClass.POD_LOST)


@dataclass(frozen=True)
class Budget:
    """Restarts used so far, by which budget pays."""

    restarts_used: int
    unconditional_used: int


def budget_after_progress(
    budget: Budget, policy: Policy, *, step: int | None, best_before: int | None, run_age: timedelta
) -> Budget:
    """What a run gives back. Only a step beyond the best of all earlier runs is progress: repeating what was
    lost gains nothing. `best_before`: that best, None in the first run."""
    gained = step is not None and best_before is not None and step > best_before
    lived = run_age >= policy.unconditional_observe
    return Budget(0 if gained else budget.restarts_used, 0 if lived else budget.unconditional_used)


def decide(diagnosis: Diagnosis, policy: Policy, history: History, pool: PoolView, now: datetime) -> Decision:
    """Restart (elsewhere, after a while), give up, or nothing. Without fault tolerance nothing is touched,
    and it is said what would have been done."""
    if not policy.enabled:
        would = decide(diagnosis, replace(policy, enabled=True), history, pool, now)
        return _without_fault_tolerance(diagnosis, would)
    isolate, aside = _isolation(diagnosis, pool)
    if diagnosis.free and diagnosis.retryable:
        return _restart(diagnosis, policy, history, now, counts_as="free")
    repeats = repeats_without_progress(diagnosis, history)
    allowed = _CONFIRMATIONS if diagnosis.cause in _CONFIRM else _REPEATS
    if not diagnosis.retryable or repeats >= allowed:
        decision = _unconditional(diagnosis, policy, history, now) or _give_up(
            diagnosis, repeats, history, policy
        )
    elif 0 <= policy.max_restarts <= history.restarts_used:
        decision = _exhausted(policy)
    else:
        decision = _restart(diagnosis, policy, history, now, counts_as="restart")
    why = {language: decision.why[language] + aside[language] for language in decision.why}
    return replace(decision, isolate_nodes=isolate, why=why)


def repeats_without_progress(diagnosis: Diagnosis, history: History) -> int:
    """How often this mechanism struck before, right before, with no step gained since."""
    count = 0
    for past in history.past:
        if past.fingerprint != diagnosis.fingerprint or _gained(history, past):
            break
        count += 1
    return count


def _gained(history: History, past: Past) -> bool:
    return history.step is not None and (past.step is None or history.step > past.step)


def _isolation(diagnosis: Diagnosis, pool: PoolView) -> tuple[tuple[str, ...], dict[str, str]]:
    """The node to be taken out of scheduling, or a half-sentence on why it is not."""
    node = diagnosis.culprit.node
    silent: dict[str, str] = {"zh": "", "en": ""}
    if not diagnosis.hardware or node is None or node in pool.isolated:
        return (), silent
    if not diagnosis.trusted:
        return (), {
            "zh": f"；未隔离 {node}：仅有容器自身的说法，没有节点侧证据",
            "en": f"; {node} is not isolated: only the pod itself says so",
        }
    if not pool.fault_isolation:
        return (), {
            "zh": f"；未隔离 {node}：资源池未开启故障隔离",
            "en": f"; {node} is not isolated: the pool's fault isolation is off",
        }
    isolated = len(pool.isolated)
    if isolated + 1 > pool.isolation_cap * pool.nodes:
        share = f"{pool.isolation_cap:.0%}"
        return (), {
            "zh": f"；未隔离 {node}：{pool.nodes} 个节点已隔离 {isolated} 个，上限 {share}",
            "en": f"; {node} is not isolated: {isolated} of {pool.nodes} nodes are, and the cap is {share}",
        }
    return (node,), {"zh": f"；隔离节点 {node}", "en": f"; node {node} is isolated"}


def _without_fault_tolerance(diagnosis: Diagnosis, would: Decision) -> Decision:
    if diagnosis.fault_class in _ENDS_THE_JOB:
        action = Action.FAIL_JOB
        zh, en = "任务未开启容错，按失败结束", "fault tolerance is off for this job, so it fails"
    else:
        action = Action.NONE
        zh, en = "任务未开启容错，仅告警", "fault tolerance is off for this job: told, not acted upon"
    would_zh, would_en = _would(would)
    why = {"zh": f"{zh}；若已开启，{would_zh}", "en": f"{en}; with it on, {would_en}"}
    return Decision(action, why, budget_left=0, would=would)


def _would(would: Decision) -> tuple[str, str]:
    """In half a sentence what would have been done; its own reasons stand beside it."""
    nodes = ", ".join(would.isolate_nodes)
    zh_node, en_node = (f"并隔离节点 {nodes}", f" and node {nodes} isolated") if nodes else ("", "")
    if would.action is Action.FAIL_JOB:
        return f"同样会结束任务{zh_node}", f"it would have been stopped all the same{en_node}"
    return f"将重启任务{zh_node}", f"it would have been restarted{en_node}"


def _restart(
    diagnosis: Diagnosis, policy: Policy, history: History, now: datetime, *, counts_as: str
) -> Decision:
    left = _left(policy, history.restarts_used + (1 if counts_as == "restart" else 0))
    wait = backoff(history, now)
    total = policy.max_restarts
    zh_left = "重启次数不限" if left is None else f"重启次数剩余 {left}/{total}"
    en_left = "restarts are not limited" if left is None else f"{left} of {total} restarts left"
    zh_kind, en_kind = _kind(diagnosis, history, counts_as)
    zh_wait = f"，{round(wait.total_seconds())} 秒后启动" if wait else ""
    en_wait = f", after {round(wait.total_seconds())} s" if wait else ""
    return Decision(
        Action.RESTART_JOB,
        {"zh": f"{zh_kind}，{zh_left}{zh_wait}", "en": f"{en_kind}, {en_left}{en_wait}"},
        restart_no=len(_restarts(history)) + 1,
        budget_left=left,
        counts_as=counts_as,
        backoff=wait,
    )


def _left(policy: Policy, used: int) -> int | None:
    """Restarts that the budget still holds; None: it has no limit."""
    return None if policy.max_restarts < 0 else max(0, policy.max_restarts - used)


def _kind(diagnosis: Diagnosis, history: History, counts_as: str) -> tuple[str, str]:
    """What speaks for a restart, with how often it struck."""
    if counts_as == "free":
        return "由平台引起，不计入重启次数", "the platform's doing, which costs no restart"
    if counts_as == "unconditional":
        return "与基础设施无关，动用无条件重试", "no infrastructure fault, so an unconditional retry is used"
    before = sum(1 for past in history.past if past.fingerprint == diagnosis.fingerprint)
    if not before:
        return "首次出现该类故障", "first fault of this kind"
    return f"第 {before + 1} 次出现该类故障", f"fault no. {before + 1} of this kind"


def _unconditional(diagnosis: Diagnosis, policy: Policy, history: History, now: datetime) -> Decision | None:
    left = policy.unconditional_retries - history.unconditional_used
    if left <= 0:
        return None
    decision = _restart(diagnosis, policy, history, now, counts_as="unconditional")
    zh = f"与基础设施无关，动用无条件重试，剩余 {left - 1}/{policy.unconditional_retries}"
    en = (
        f"a restart alone should not help, so an unconditional retry is used, "
        f"{left - 1} of {policy.unconditional_retries} left"
    )
    return replace(decision, why={"zh": zh, "en": en}, budget_left=left - 1)


def _give_up(diagnosis: Diagnosis, repeats: int, history: History, policy: Policy) -> Decision:
    if diagnosis.retryable:
        step = "起步阶段" if history.step is None else f"第 {history.step} 步"
        at = "before the first step" if history.step is None else f"at step {history.step}"
        why = {
            "zh": f"同一故障在{step}已出现 {repeats + 1} 次，其间没有进展，停止重启",
            "en": f"the same fault has struck {repeats + 1} times {at} with nothing gained, so it stops",
        }
    else:
        why = {
            "zh": "原样重启无济于事，需先修正；没有可用的无条件重试",
            "en": "a restart would fail again until something is changed, and no unconditional retry is left",
        }
    return Decision(Action.FAIL_JOB, why, budget_left=_left(policy, history.restarts_used))


def _exhausted(policy: Policy) -> Decision:
    return Decision(
        Action.FAIL_JOB,
        {
            "zh": f"重启次数 {policy.max_restarts} 已用尽，其间没有新的进展"
            if policy.max_restarts
            else "未允许任何重启（--max-restarts=0）",
            "en": _exhausted_words(policy.max_restarts),
        },
        budget_left=0,
    )


def _exhausted_words(allowed: int) -> str:
    if allowed == 0:
        return "no restart is allowed (--max-restarts=0)"
    if allowed == 1:
        return "the one restart allowed is used and made no progress"
    return f"all {allowed} restarts are used and none made progress"


def backoff(history: History, now: datetime) -> timedelta:
    """How long to wait: nothing the first time, ever longer while restarts bring no progress."""
    fruitless = 0
    for past in history.past:
        recent = now - past.at <= _FORGOTTEN
        if past.action is not Action.RESTART_JOB or _gained(history, past) or not recent:
            break
        fruitless += 1
    return BACKOFF[min(fruitless, len(BACKOFF) - 1)]


def _restarts(history: History) -> list[Past]:
    return [past for past in history.past if past.action is Action.RESTART_JOB]
