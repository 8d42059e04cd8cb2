"""What people read of what really happened: the master's own alerts, rendered as a worker would."""

import pytest
from sqlalchemy import select

from channels.base import Message
from channels.registry import ADAPTERS
from notifier.model import Channel, Delivery
from notifier.rendering import render
from notifier.tasks import load
from tests.master.test_controller import broken_and_decided, running
from tests.master.world import World

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=123, GPU has fallen off the bus."


def messages(world: World, language: str = "zh") -> list[Message]:
    """All that was told, in order."""
    with world.services.store.read() as session:
        rows = session.scalars(select(Delivery).order_by(Delivery.id)).all()
        channels = {row.id: row for row in session.scalars(select(Channel))}
        tasks = load(session, rows, channels, "t")
    rendered = [render(task.views[0], ADAPTERS["wecom"], language, "Asia/Shanghai", None) for task in tasks]
    assert [one.template_error for one in rendered if one.template_error] == []
    return [one.message for one in rendered]


def broken_gpu(world: World) -> str:
    """A job whose GPU falls off the bus, and that trains again elsewhere; the node it left."""
    job_id = running(world)
    pod = world.pods(job_id)[1]
    world.report(
        world.node_agent(pod.node), {"kind": "kernel_line", "data": {"signature": "xid.79", "line": XID}}
    )
    world.wait(4)
    world.train(job_id, 8, 12)
    return pod.node


def test_a_fault_and_its_recovery_are_told_with_all_that_is_known(world: World) -> None:
    node = broken_gpu(world)
    fault, over = messages(world)[-2:]
    assert fault.title == "🔴 节点故障 · train"
    for fact in (
        node,
        "重启任务",
        f"隔离节点 {node}",
        "第 1 次重启",
        "剩余 9",
        "GPU 硬件故障",
        XID[:20],
        "+08:00",
    ):
        assert fact in fault.text
    assert "nodeFT, jobFT" in fault.text
    assert over.title == "🟢 训练已恢复 · train"
    assert "停训" in over.text
    assert "重算" in over.text


def test_a_lost_agent_and_its_return_are_told_in_words(world: World) -> None:
    job_id = running(world)
    pod = world.pods(job_id)[0]
    world.runtime.pods[pod.id].agent = None
    world.settle()
    world.train(job_id, 11, 12)
    lost, back = messages(world, "en")[-2:]
    assert lost.title == "🟠 Agent lost (training unaffected) · train"
    assert f"The agent of {pod.name} on {pod.node} is silent: training goes on" in lost.text
    assert "**Detail**: its process ended" in lost.text
    assert back.title == "🟢 Agent is back · train"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_what_ends_with_its_job_does_not_say_that_it_recovered(world: World, language: str) -> None:
    job_id = running(world)
    broken_and_decided(world, job_id)
    world.runtime.pods[world.pods(job_id)[0].id].agent = None
    world.settle()
    world.stop(job_id)
    world.wait(1)
    ends = {one.title: one.text for one in messages(world, language) if one.status == "resolved"}
    words = {
        "zh": ("🟢 已解除：触发容错", "🟢 已解除：Agent 失联", "**任务已停止**"),
        "en": ("🟢 Resolved: Fault tolerance", "🟢 Resolved: Agent lost", "**The job was stopped**"),
    }[language]
    assert len(ends) == 2
    assert [title for title in ends if not title.startswith(words[:2])] == []
    assert [text for text in ends.values() if not text.startswith(words[2])] == []
