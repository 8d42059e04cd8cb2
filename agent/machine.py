"""The thread that looks at the machine's parts: links, disks, control groups. A dead disk may hold it up."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.disks import DiskProbe
from agent.findings import Condition, Finding
from agent.links import LinkProbe
from agent.nodeoom import NodeMemory

LOOK_S = 5.0
_MEMORY_S = 1.0  # a kill is looked for so often: it explains an end that is judged within seconds


class MachineWatch:
    """`post`: takes findings, from this thread. `known`: what `remember` told in an earlier life."""

    def __init__(
        self,
        post: Callable[[Sequence[Finding]], None],
        paths: Sequence[Path],
        sys: Path = Path("/sys"),
        *,
        known: object = None,
        look_s: float = LOOK_S,
    ) -> None:
        self._post = post
        self._look_s = look_s
        good = known if isinstance(known, dict) else {}
        self._links = LinkProbe(sys, _names(good.get("were_up")))
        self._disks = DiskProbe(paths, was_writable=_names(good.get("was_writable")))
        self._memory = NodeMemory()
        self.looked = False
        self._conditions: list[Condition] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def remember(self) -> dict[str, list[str]]:
        """What was well once, so that a next life knows what is broken from what never worked."""
        return {"were_up": sorted(self._links.were_up), "was_writable": sorted(self._disks.was_writable)}

    def tick(self, _now: float) -> None:
        """Nothing to be done: what hangs here hangs alone."""

    def conditions(self) -> list[Condition]:
        return self._conditions

    def close(self) -> None:
        """Ends the thread, unless it hangs at a disk."""
        self._ended.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        next_look = 0.0
        while not self._ended.is_set():
            found = self._memory.look()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + self._look_s
                self._memory.scan()
                (lost, down), (broken, full) = self._links.look(), self._disks.look()
                found += [*lost, *broken]
                self._conditions = [*down, *full]
                self.looked = True
            if found:
                self._post(found)
            self._ended.wait(min(_MEMORY_S, self._look_s))


def _names(value: object) -> frozenset[str]:
    return frozenset(str(one) for one in value) if isinstance(value, list) else frozenset()
