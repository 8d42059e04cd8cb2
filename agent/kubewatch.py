"""The threads that follow what Kubernetes says of this node: its conditions, and warnings about it.

A list, then what changes after it, as each kubelet follows its own node: that costs an API server little.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agent.journal import note
from agent.kubeapi import Api, Cluster, Collection, GoneError, UnavailableError
from agent.kubewords import conditions_of, warnings_of

_AGAIN_S = 60.0  # unchanged conditions are told again so often, as agent/findings.py does
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_STEADY_S = 30.0  # what held so long was no mere attempt
_MAX_LISTED, _MAX_WAITING, _MAX_KNOWN = 200, 64, 1000
_DELETED, _BOOKMARK = "DELETED", "BOOKMARK"

Object = Mapping[str, Any]


class View(Protocol):
    """What is made of a collection. Called by its follower's thread."""

    def listed(self, objects: Sequence[Object]) -> None:
        """All of it, now."""

    def changed(self, how: str, one: Object) -> None:
        """One is there, is another, or is there no more."""


class NodeView:
    """The conditions of the one node that is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.conditions: list[dict[str, str]] = []

    def listed(self, objects: Sequence[Object]) -> None:
        if not objects:
            note("kubernetes_knows_no_such_node", node=self._name)
        self.conditions = conditions_of(objects[0]) if objects else []

    def changed(self, how: str, one: Object) -> None:
        self.conditions = [] if how == _DELETED else conditions_of(one)


class WarningView:
    """Warnings that were not taken yet: each once, and again when it happens again. The newest are kept."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._waiting: deque[dict[str, str]] = deque(maxlen=_MAX_WAITING)

    def listed(self, objects: Sequence[Object]) -> None:
        told = warnings_of(objects)
        self._waiting += [one for name, one in told if self._known.get(name) != one["at"]]
        self._known = {name: one["at"] for name, one in told}

    def changed(self, how: str, one: Object) -> None:
        for name, told in warnings_of([one]) if how != _DELETED else ():
            if self._known.pop(name, None) != told["at"]:
                self._waiting.append(told)
            self._known[name] = told["at"]
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def take(self) -> list[dict[str, str]]:
        """From another thread."""
        found: list[dict[str, str]] = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found


class Follower:
    """Keeps a view of a collection, in a thread of its own. `follows`: whether the view is of now."""

    def __init__(self, cluster: Cluster, what: Collection, view: View) -> None:
        self.follows = False
        self._api, self._what, self._view = Api(cluster), what, view
        self._version = ""
        self._said: set[str] = set()
        self._wait_s = _FIRST_WAIT_S
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kube-{what.kind}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._api.interrupt()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._follow()
            except GoneError:
                self._version = ""
            except UnavailableError as error:
                self.follows = False
                self._say(str(error))
            if time.monotonic() - began >= _STEADY_S:
                self._said, self._wait_s = set(), _FIRST_WAIT_S
                continue
            self._ended.wait(self._wait_s * random.uniform(0.5, 1.5))  # noqa: S311  only spreads the agents
            self._wait_s = min(self._wait_s * 2, _LONGEST_WAIT_S)

    def _follow(self) -> None:
        if not self._version:
            objects, self._version = self._api.fetch(self._what, _MAX_LISTED)
            self._view.listed(objects)
        changes = self._api.watch(self._what, self._version)
        if not self.follows:
            note("kubernetes_followed", what=self._what.kind)
        self.follows = True
        for how, one, version in changes:
            self._version = version or self._version
            if how != _BOOKMARK:
                self._view.changed(how, one)

    def _say(self, why: str) -> None:
        """Each reason once, until it works again."""
        if why not in self._said and not self._ended.is_set():
            self._said.add(why)
            note("kubernetes_away", what=self._what.kind, why=why)


class KubeWatch:
    """What Kubernetes says of the node of that name, for its agent's heartbeats."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._node, self._warnings = NodeView(name), WarningView()
        nodes = Collection("nodes", "/api/v1/nodes", {"metadata.name": name})
        about = {"involvedObject.kind": "Node", "involvedObject.name": name, "type": "Warning"}
        # Events about what has no namespace can be made in `default` alone.
        events = Collection("events", "/api/v1/namespaces/default/events", about)
        self._nodes = Follower(cluster, nodes, self._node)
        self._followers = (self._nodes, Follower(cluster, events, self._warnings))
        self._told: list[dict[str, str]] | None = None
        self._next = 0.0

    def start(self) -> None:
        for one in self._followers:
            one.start()

    def close(self) -> None:
        for one in self._followers:
            one.close()

    def news(self, now: float) -> dict[str, list[dict[str, str]]]:
        """`conditions` where they changed or were told long ago, `events` where there are new ones.

        `now`: a clock that only grows, in s. While the API server is away nothing is repeated: nobody knows.
        """
        news = {"events": events} if (events := self._warnings.take()) else {}
        conditions = self._node.conditions
        if self._nodes.follows and (conditions != self._told or now >= self._next):
            self._told, self._next = conditions, now + _AGAIN_S
            news["conditions"] = conditions
        return news
