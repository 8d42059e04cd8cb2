"""NVIDIA's management library by its official binding (`nvidia-ml-py`, the extra `faultcast[gpu]`).

The binding is optional, and so is the library: a node without either costs one attempt a minute at most and
says so once. Calls may hang where a GPU's firmware does (Xid 119), so all of them are made in one thread of
their own (agent/gpuwatch.py), never in the agent's.
"""

import contextlib
import ctypes
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from agent.gpus import Gpu, LinkErrors, Snapshot

LIBRARY = "libnvidia-ml.so.1"
_MAX_LINKS = 36  # NVML_NVLINK_MAX_LINKS
_MAX_GPUS = 64


class UnavailableError(RuntimeError):
    """There is no NVML here; the text says why. `for_good`: asking again will not help."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


@dataclass(frozen=True)
class Xid:
    """An Xid that NVML told of. `bus`: as in Gpu, empty where unknown."""

    code: int
    bus: str


class Library(Protocol):
    """What the agent asks of NVML; the tests' other side of it."""

    def snapshot(self) -> Snapshot:
        """All GPUs now; UnavailableError when the library does not answer any more."""

    def xids(self, timeout_s: float) -> list[Xid]:
        """Xids that came within that time; waits for it where there are none."""

    def close(self) -> None:
        """Let go of it."""


def bus_id(text: str) -> str:
    """`00000000:9B:00.0` → `0000:9b:00`, as the kernel prints it in its Xid lines."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


class Nvml:
    """The real library. Raises UnavailableError where it is not."""

    def __init__(self) -> None:
        try:
            ctypes.CDLL(LIBRARY)
        except OSError:
            raise UnavailableError(f"{LIBRARY} is not here: no NVIDIA driver") from None
        try:
            self._api: Any = importlib.import_module("pynvml")
        except ImportError:
            raise UnavailableError("nvidia-ml-py is not installed (faultcast[gpu])", for_good=True) from None
        try:
            self._api.nvmlInit()
        except self._api.NVMLError as error:
            raise UnavailableError(str(error)) from None
        self._known: dict[int, tuple[str, str]] = {}  # index → uuid, bus: a lost GPU tells neither
        self._buses: dict[int, str] = {}  # by handle: a GPU that is lost tells its bus no more
        self._events: Any = self._ask(self._api.nvmlEventSetCreate)
        self._watched: set[str] = set()

    def snapshot(self) -> Snapshot:
        try:
            count = int(self._api.nvmlDeviceGetCount())
        except self._api.NVMLError as error:  # the driver was taken away, or is loaded anew
            raise UnavailableError(str(error)) from None
        gpus = [gpu for index in range(min(_MAX_GPUS, count)) if (gpu := self._gpu(index)) is not None]
        return Snapshot(time.monotonic(), {gpu.uuid: gpu for gpu in gpus})

    def xids(self, timeout_s: float) -> list[Xid]:
        if not self._watched:
            time.sleep(timeout_s)
            return []
        try:
            data = self._api.nvmlEventSetWait_v2(self._events, int(timeout_s * 1000))
        except self._api.NVMLError as error:
            if error.value != self._api.NVML_ERROR_TIMEOUT:
                time.sleep(timeout_s)  # it may fail at once, again and again
            return []
        return [Xid(int(data.eventData), self._buses.get(_address(data.device), ""))]

    def close(self) -> None:
        with contextlib.suppress(self._api.NVMLError):
            if self._events is not None:
                self._api.nvmlEventSetFree(self._events)
            self._api.nvmlShutdown()

    def _gpu(self, index: int) -> Gpu | None:
        """None: it says nothing, and never did."""
        api = self._api
        try:
            handle = api.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(api.nvmlDeviceGetUUID(handle))
            bus = bus_id(_text(api.nvmlDeviceGetPciInfo(handle).busId))
            self._known[index] = (uuid, bus)
            self._buses[_address(handle)] = bus
            self._watch(uuid, handle)
            return self._read(handle, uuid, bus)
        except api.NVMLError as error:
            lost = error.value == api.NVML_ERROR_GPU_IS_LOST
            known = self._known.get(index, (f"index-{index}", f"#{index}") if lost else None)
            if known is None:
                return None
            return Gpu(*known, lost=lost, reset_required=error.value == api.NVML_ERROR_RESET_REQUIRED)

    def _read(self, handle: Any, uuid: str, bus: str) -> Gpu:
        api = self._api
        ecc = self._ask(
            api.nvmlDeviceGetTotalEccErrors,
            handle,
            api.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            api.NVML_VOLATILE_ECC,
        )
        rows = self._ask(api.nvmlDeviceGetRemappedRows, handle)
        retire = self._ask(api.nvmlDeviceGetRetiredPagesPendingStatus, handle)
        links = self._links(handle)
        return Gpu(
            uuid=uuid,
            bus=bus,
            ecc=None if ecc is None else int(ecc),
            remap_pending=None if rows is None else bool(rows[2]),
            remap_failed=None if rows is None else bool(rows[3]),
            retire_pending=None if retire is None else bool(retire),
            links=links,
            link_errors={link: self._link_errors(handle, link) for link, up in links.items() if up},
            slowdown=int(self._ask(api.nvmlDeviceGetCurrentClocksThrottleReasons, handle) or 0),
        )

    def _links(self, handle: Any) -> dict[int, bool]:
        """Links that exist; the first one that does not ends them."""
        found: dict[int, bool] = {}
        for link in range(_MAX_LINKS):
            state = self._ask(self._api.nvmlDeviceGetNvLinkState, handle, link)
            if state is None:
                break
            found[link] = bool(state)
        return found

    def _link_errors(self, handle: Any, link: int) -> LinkErrors:
        api = self._api
        counters = (
            api.NVML_NVLINK_ERROR_DL_REPLAY,
            api.NVML_NVLINK_ERROR_DL_RECOVERY,
            api.NVML_NVLINK_ERROR_DL_CRC_FLIT,
        )
        ask = api.nvmlDeviceGetNvLinkErrorCounter
        return LinkErrors(*(int(self._ask(ask, handle, link, one) or 0) for one in counters))

    def _watch(self, uuid: str, handle: Any) -> None:
        """Have its Xids told."""
        api = self._api
        if uuid in self._watched or self._events is None:
            return
        try:
            api.nvmlDeviceRegisterEvents(handle, api.nvmlEventTypeXidCriticalError, self._events)
        except api.NVMLError:
            return
        self._watched.add(uuid)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Its answer; None where this GPU or driver has none. That the GPU is lost is raised."""
        api = self._api
        try:
            return function(*arguments)
        except api.NVMLError as error:
            if error.value in (api.NVML_ERROR_GPU_IS_LOST, api.NVML_ERROR_RESET_REQUIRED):
                raise
            return None


def _text(value: object) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
