"""Who is where in a run: ranks, pods, nodes, addresses, processes."""

import ipaddress
from dataclasses import dataclass
from functools import cached_property

from agent.wire import Kind
from master.casefile import CaseFile, PodView, Seen


@dataclass(frozen=True)
class World:
    """Look-ups over one case."""

    case: CaseFile

    @cached_property
    def pods(self) -> dict[str, PodView]:
        return {pod.name: pod for pod in self.case.pods}

    @cached_property
    def pod_of_rank(self) -> dict[int, PodView]:
        """By the job's shape, else by what the pod's own agent says."""
        declared = {rank: pod for pod in self.case.pods for rank in pod.ranks}
        heard = {
            seen.rank: self.pods[seen.pod]
            for seen in self.case.seen
            if seen.kind in (Kind.PROCESS_STARTED, Kind.PROCESS_EXITED) and seen.rank is not None
            if seen.pod in self.pods and (len(self.pods) == 1 or not self.pods[seen.pod].ranks)
        }
        return heard | declared

    @cached_property
    def ranks(self) -> frozenset[int]:
        return frozenset(self.pod_of_rank) | {view.rank for view in self.case.ranks}

    @cached_property
    def nodes(self) -> frozenset[str]:
        return frozenset(pod.node for pod in self.case.pods)

    @cached_property
    def rank_of_pid(self) -> dict[int, int]:
        """Processes whose rank somebody told."""
        known = self._listed()
        for seen in self.case.seen:
            pid = as_int(seen.data.get("pid"))
            if seen.kind in (Kind.PROCESS_STARTED, Kind.PROCESS_EXITED, Kind.STACKS):
                rank = seen.rank
            elif str(seen.data.get("signature", "")).startswith("dataloader."):
                pid, rank = as_int(captured_of(seen).get("pid")), seen.rank
            else:
                pid, rank = self._launched(seen)
            if pid is not None and rank is not None:
                known[pid] = rank
        return known

    def _listed(self) -> dict[int, int]:
        """A launcher that ends its workers names them in the order of their ranks: if it names all."""
        pids: dict[str, dict[int, None]] = {}
        for seen in self.case.seen:
            pid = as_int(captured_of(seen).get("pid"))
            if seen.data.get("signature") == "deepspeed.killing" and pid is not None:
                pids.setdefault(seen.node, {})[pid] = None
        known: dict[int, int] = {}
        for node, told in pids.items():
            if self.is_whole and len(told) == len(self.ranks_on(node)):
                known |= dict(zip(told, self.ranks_on(node), strict=True))
        return known

    def _launched(self, seen: Seen) -> tuple[int | None, int | None]:
        captured = captured_of(seen)
        if seen.kind != Kind.LOG_MATCH or "pid" not in captured or "local_rank" not in captured:
            return None, None
        local = as_int(captured["local_rank"])
        return as_int(captured["pid"]), None if local is None else self.rank_at(seen.pod, seen.node, local)

    def ranks_on(self, node: str) -> tuple[int, ...]:
        """The run's ranks on a node, in order."""
        return tuple(sorted(rank for rank, pod in self.pod_of_rank.items() if pod.node == node))

    @cached_property
    def is_whole(self) -> bool:
        """Whether all ranks are known: of logs that lie on disk some may be missing."""
        return not self.case.after_the_fact or self.ranks == {*range(len(self.ranks))}

    def rank_at(self, pod: str | None, node: str, local_rank: int) -> int | None:
        """The global rank of a pod's local one (of a node's, where it holds one pod of the run)."""
        view = self.pods.get(pod or "") or self.only_pod_on(node)
        if view is None or not self.is_whole or not 0 <= local_rank < len(view.ranks):
            return None
        return sorted(view.ranks)[local_rank]

    def only_pod_on(self, node: str) -> PodView | None:
        found = [pod for pod in self.case.pods if pod.node == node]
        return found[0] if len(found) == 1 else None

    def node_at(self, address: str) -> str | None:
        """The node that an address, a host's or a pod's name belongs to."""
        if address in self.case.nodes_by_address:
            return self.case.nodes_by_address[address]
        if address in self.nodes:
            return address
        if address in self.pods:
            return self.pods[address].node
        return self._node_by_short_name(address)

    def _node_by_short_name(self, address: str) -> str | None:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            short = address.partition(".")[0]
            return short if short in self.nodes else None
        return None


def as_int(value: object) -> int | None:
    """A whole number out of what others wrote, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if (
        isinstance(value, str)
        and value.lstrip("-").isascii()
        and value.lstrip("-").isdigit()
        and len(value) < 19
    ):
        return int(value)
    return None


def captured_of(seen: Seen) -> dict[str, str]:
    """What a signature captured; agents of another version may send anything."""
    captured = seen.data.get("captured")
    if not isinstance(captured, dict):
        return {}
    return {str(key): str(value) for key, value in captured.items()}
