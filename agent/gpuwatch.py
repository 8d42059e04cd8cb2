"""The thread that asks NVML: it may hang there (Xid 119) without holding up the rest of the agent."""

import threading
import time
from collections.abc import Callable, Sequence

from agent.findings import Condition, Finding
from agent.gpus import Snapshot, look, standing, told_xid
from agent.journal import note
from agent.nvml import Library, Nvml, UnavailableError

LOOK_S = 5.0
_AGAIN_S = 60.0  # until a driver that was not there is looked for anew
_SILENT_S = 60.0  # the driver itself gives up on a GPU's firmware after 45 s at most (Xid 119's lines)
_SILENT = "NVML: the driver gives no answer"


class GpuWatch:
    """Call `tick` now and then from the watching thread. `post`: takes findings, from this one's."""

    def __init__(
        self,
        post: Callable[[Sequence[Finding]], None],
        library: Callable[[], Library] = Nvml,
        look_s: float = LOOK_S,
    ) -> None:
        self._post = post
        self._library = library
        self._look_s = look_s
        self.looked = False
        self._conditions: list[Condition] = []
        self._busy_since: float | None = None
        self._silent = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def conditions(self) -> list[Condition]:
        silent = [Condition("nvml_silent", "", "error", "the NVIDIA driver gives no answer")]
        return self._conditions + (silent if self._silent else [])

    def remember(self) -> dict[str, list[str]]:
        """Nothing: NVML's own flags and counts outlive the agent."""
        return {}

    def tick(self, now: float) -> None:
        """See whether the library still answers. `now`: time.monotonic()."""
        busy_since = self._busy_since
        was, self._silent = self._silent, busy_since is not None and now - busy_since > _SILENT_S
        if self._silent and not was:
            self._post([Finding("gpu.driver_silent", f"{_SILENT} since {_SILENT_S:.0f} s", {})])

    def close(self) -> None:
        """Ends the thread, unless it hangs in the driver."""
        self._ended.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        told = False
        while not self._ended.is_set():
            try:
                library = self._library()
            except UnavailableError as error:
                if not told:
                    note("no_nvml", why=str(error))
                told = self.looked = True
                if error.for_good:
                    return
                self._ended.wait(_AGAIN_S)
                continue
            note("nvml_watched")
            self._watch(library)
            told = False

    def _watch(self, library: Library) -> None:
        before: Snapshot | None = None
        try:
            while not self._ended.is_set():
                self._busy_since = time.monotonic()
                after = library.snapshot()
                self._busy_since = None
                self._conditions = standing(before, after)
                self.looked = True
                if found := look(before, after):
                    self._post(found)
                before = after
                self._wait(library)
        except UnavailableError as error:
            note("nvml_lost", why=str(error))
            self._ended.wait(self._look_s)
        finally:
            self._busy_since, self._conditions = None, []
            library.close()

    def _wait(self, library: Library) -> None:
        """Until the next look, telling Xids at once."""
        until = time.monotonic() + self._look_s
        while not self._ended.is_set() and (left := until - time.monotonic()) > 0:
            if xids := library.xids(min(1.0, left)):
                self._post([told_xid(one.code, one.bus) for one in xids])
