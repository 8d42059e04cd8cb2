"""On which nodes the pods of a run go: a pure choice, spread over what is ready."""

from collections import Counter
from collections.abc import Iterable, Sequence


def place(
    count: int, ready: Sequence[str], *, busy: Iterable[str] = (), preferred: Sequence[str] = ()
) -> list[str]:
    """A node for each of `count` pods, least loaded first; empty when no node is ready.

    Args:
        ready: the nodes that may be used, in their natural order.
        busy: the nodes of pods that run already, one entry a pod.
        preferred: the nodes of the run before, in the order of its pods; taken where they are ready.
    """
    if not ready:
        return []
    load = Counter(dict.fromkeys(ready, 0))
    load.update(node for node in busy if node in load)
    chosen: list[str] = []
    for index in range(count):
        node = min(ready, key=lambda name: (load[name], ready.index(name)))
        if index < len(preferred) and preferred[index] in load:
            node = preferred[index]
        load[node] += 1
        chosen.append(node)
    return chosen
