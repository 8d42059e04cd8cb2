"""What Kubernetes says of the node, from a server that lists and watches as an API server does."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.kubeapi import Collection
from agent.kubewatch import KubeWatch, WarningView
from agent.node import NodeAgent
from agent.settings import Settings, Token
from tests.agent.apiserver import ApiServer, api, said
from tests.agent.conftest import wait_until

__all__ = ["api"]  # pytest finds the fixture by its name

SINCE = "2026-11-29T02:59:30Z"
BORN = {"name": "gpu-7", "creationTimestamp": "2026-11-01T00:00:00Z"}
Start = Callable[..., KubeWatch]


def node(**conditions: str) -> dict[str, Any]:
    told = [
        {"type": kind, "status": status, "lastTransitionTime": SINCE} for kind, status in conditions.items()
    ]
    return {"metadata": BORN, "status": {"conditions": told}}


def event(name: str = "gpu-7.1", at: str = SINCE, message: str = "task hung") -> dict[str, Any]:
    return {
        "metadata": {"name": name}, "type": "Warning", "reason": "TaskHung", "message": message,
        "source": {"component": "kernel-monitor"}, "lastTimestamp": at,
    }  # fmt: skip


@pytest.fixture
def follow(api: ApiServer) -> Iterator[Start]:
    watches: list[KubeWatch] = []

    def start(**how: Any) -> KubeWatch:
        watches.append(KubeWatch(api.cluster(**how), "gpu-7"))
        watches[-1].start()
        return watches[-1]

    yield start
    for one in watches:
        one.close()


def states(watch: KubeWatch, now: float = 0.0) -> dict[str, str]:
    """The next news of conditions."""
    told = wait_until(lambda: watch.news(now).get("conditions"), "conditions")
    return {one["type"]: one["status"] for one in told}


def noted(capsys: pytest.CaptureFixture[str], lines: list[str]) -> list[str]:
    lines += capsys.readouterr().err.splitlines()
    return lines


def test_conditions_are_told_as_they_are_and_when_they_change(api: ApiServer, follow: Start) -> None:
    api.objects["nodes"] = [node(Ready="True", DiskPressure="False")]
    watch = follow()
    assert states(watch) == {"Ready": "True", "DiskPressure": "False"}
    assert watch.news(1.0) == {}
    api.tell("nodes", "MODIFIED", node(Ready="True", DiskPressure="True"))
    assert states(watch, 2.0) == {"Ready": "True", "DiskPressure": "True"}
    api.tell("nodes", "BOOKMARK", {"metadata": {}})
    api.tell("nodes", "DELETED", node(Ready="Unknown"))
    assert wait_until(lambda: watch.news(3.0), "its end") == {"conditions": []}


def test_the_server_is_asked_for_this_node_alone(api: ApiServer, follow: Start) -> None:
    follow()
    wait_until(lambda: api.is_watched("nodes") and api.is_watched("events"), "watches")
    asked = {kind: query["fieldSelector"] for kind, query in api.asked}
    assert asked == {
        "nodes": "metadata.name=gpu-7",
        "events": "involvedObject.kind=Node,involvedObject.name=gpu-7,type=Warning",
    }
    assert Collection("nodes", "", {"metadata.name": "a,b=c\\"}).selector == r"metadata.name=a\,b\=c\\"


def test_unchanged_conditions_are_told_again_now_and_then_while_they_are_known(
    api: ApiServer, follow: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    api.objects["nodes"] = [node(Ready="True")]
    watch = follow()
    assert states(watch, 0.0) == {"Ready": "True"}
    assert watch.news(59.0) == {}
    assert watch.news(60.0)["conditions"]
    api.answers["nodes"] = said({}, 403)
    api.end_watches("nodes")
    lines: list[str] = []
    wait_until(lambda: any("403" in line for line in noted(capsys, lines)), "that nothing is known any more")
    assert watch.news(1000.0) == {}


def test_an_event_is_told_once_and_again_when_it_happens_again(api: ApiServer, follow: Start) -> None:
    api.objects["events"] = [event("b", "2026-11-29T03:00:00Z"), event("a")]
    watch = follow()
    told: list[str] = []

    def heard(*messages: str) -> bool:
        told.extend(one["at"] for one in watch.news(0.0).get("events", ()))
        return told == [f"2026-11-29T{message}.000Z" for message in messages]

    wait_until(lambda: heard("02:59:30", "03:00:00"), "both, the older first")
    api.tell("events", "MODIFIED", event("a"))  # nothing that we look at
    api.tell("events", "DELETED", event("b", "2026-11-29T03:00:09Z"))
    api.tell("events", "MODIFIED", event("a", "2026-11-29T03:00:05Z"))
    wait_until(lambda: heard("02:59:30", "03:00:00", "03:00:05"), "the new time")
    api.objects["events"] = [event("a", "2026-11-29T03:00:06Z"), event("b", "2026-11-29T03:00:00Z")]
    api.tell("events", "ERROR", {"code": 410})  # so they are listed anew
    wait_until(lambda: heard("02:59:30", "03:00:00", "03:00:05", "03:00:06"), "the one that is new")


def test_of_a_flood_of_events_the_newest_are_kept() -> None:
    view = WarningView()
    view.listed([event(f"e{n}", f"2026-11-29T03:{n // 60:02}:{n % 60:02}Z") for n in range(200)])
    for n in range(3000):
        view.changed("ADDED", event(f"f{n}", f"2026-11-29T04:{n // 60:02}:{n % 60:02}Z"))
    assert [one["at"] for one in view.take()][-1] == "2026-11-29T04:49:59.000Z"
    assert len(view._known) <= 1000


def test_a_watch_that_ends_goes_on_where_it_was(api: ApiServer, follow: Start) -> None:
    api.objects["nodes"] = [node(Ready="True")]
    watch = follow()
    states(watch)
    api.tell("nodes", "BOOKMARK", {"metadata": {}})
    api.end_watches("nodes")
    wait_until(lambda: api.watched("nodes") == ["7", "8"], "the next watch")
    assert (api.listed("nodes"), watch.news(1.0)) == (1, {})


def test_what_changed_while_the_server_forgot_is_listed_anew(api: ApiServer, follow: Start) -> None:
    api.objects["nodes"] = [node(Ready="True")]
    watch = follow()
    states(watch)
    api.objects["nodes"] = [node(Ready="Unknown")]
    api.answers["nodes"] = said({}, 410)
    api.end_watches("nodes")
    wait_until(lambda: len(api.watched("nodes")) == 2, "410")
    del api.answers["nodes"]
    assert states(watch) == {"Ready": "Unknown"}


def test_a_token_that_rotates_is_read_anew(api: ApiServer, follow: Start) -> None:
    follow()
    wait_until(lambda: api.is_watched("nodes"), "a watch")
    (api.account / "token").write_text("the-next")
    api.end_watches("nodes")
    wait_until(
        lambda: api.tokens[-1] == "the-next" and api.is_watched("nodes"), "a watch with the next token"
    )


def test_why_it_is_away_is_noted_once(
    api: ApiServer, follow: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.kubewatch._FIRST_WAIT_S", 0.01)
    api.answers |= {"nodes": said({}, 403), "events": said({}, 403)}
    api.objects["nodes"] = [node(Ready="True")]
    watch = follow()
    wait_until(lambda: api.listed("nodes") > 4 and api.listed("events") > 4, "tries")
    api.answers.clear()
    assert states(watch) == {"Ready": "True"}
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if '"what": "nodes"' in line]
    assert ["403" in line for line in told] == [True, False]
    assert "`list` and `watch` of nodes" in told[0]
    assert '"event": "kubernetes_followed"' in told[1]
    assert sum("`list` and `watch` of events" in line for line in lines) == 1


def test_a_name_that_the_cluster_does_not_know_is_noted(
    follow: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    watch = follow()
    assert wait_until(lambda: watch.news(0.0), "news") == {"conditions": []}
    lines: list[str] = []
    wait_until(lambda: any("no_such_node" in line for line in noted(capsys, lines)), "a note")


def test_it_ends_at_once_though_nothing_is_said(api: ApiServer) -> None:
    watch = KubeWatch(api.cluster(), "gpu-7")
    watch.start()
    wait_until(lambda: api.is_watched("nodes") and api.is_watched("events"), "watches")
    began = time.monotonic()
    watch.close()
    assert time.monotonic() - began < 1
    assert not [one for one in watch._followers if one._thread.is_alive()]


def test_the_nodes_agent_sends_it_on_with_a_sample_of_what_comes_again_and_again(
    api: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "kernel.log").touch()
    api.objects |= {"nodes": [node(Ready="False")], "events": [event(f"e{n}") for n in range(9)]}
    settings = Settings(
        "http://127.0.0.1:1", Token("x"), tmp_path, "gpu-7", tmp_path / "kernel.log", cluster=api.cluster()
    )
    agent = NodeAgent(settings)
    assert agent._kube is not None
    agent._kube.start()
    beats: list[dict[str, Any]] = []

    def told(what: str) -> list[Any]:
        beats.append(agent._state(0.0).get("kubernetes", {}))
        return [one for beat in beats for one in beat.get(what, ())]

    try:
        wait_until(lambda: told("conditions") and told("events"), "both")
        assert told("conditions")[0]["status"] == "False"
        assert len(told("events")) == 3
        assert agent._take_dropped() == {"finding:kernel-monitor/TaskHung": 6}
    finally:
        agent._kube.close()
        os.close(agent._core._lock)
