"""What changed of a node's GPUs between two looks, and what of it is a fault. Pure; agent/nvml.py looks.

Thresholds and where they are from:
- a lost GPU: NVML's own error GPU_IS_LOST, or one that is not counted any more (Xid 79's meaning);
- uncorrectable ECC errors: any growth of the volatile count (DCGM's health check: any double bit error);
- rows: NVML's own flags (Xid 63 pending is benign, Xid 64 failure is not);
- NVLink: any replay or recovery, CRC from 100 a second on (NVIDIA/DCGM, dcgm_gpu_hardware_limits.h);
- clocks held down by heat or power brake: in two looks running, a note for people and no evidence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent.findings import Condition, Finding
from agent.signatures import signature

CRC_A_SECOND = 100.0
SLOWDOWNS = {  # bits of nvmlDeviceGetCurrentClocksEventReasons
    0x08: "hardware slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


@dataclass(frozen=True)
class LinkErrors:
    """Counters of one NVLink since the driver was loaded."""

    replay: int = 0
    recovery: int = 0
    crc: int = 0


@dataclass(frozen=True)
class Gpu:
    """One GPU at one moment. None: this GPU or driver does not say. `bus`: `0000:9b:00`, as the kernel
    prints it."""

    uuid: str
    bus: str
    lost: bool = False
    reset_required: bool = False
    ecc: int | None = None  # uncorrectable, volatile: since the driver was loaded
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retire_pending: bool | None = None
    links: Mapping[int, bool] = field(default_factory=dict)  # link → active
    link_errors: Mapping[int, LinkErrors] = field(default_factory=dict)
    slowdown: int = 0


@dataclass(frozen=True)
class Snapshot:
    """All GPUs at one moment. `at`: seconds by a clock that only grows."""

    at: float
    gpus: Mapping[str, Gpu]  # by uuid


def look(before: Snapshot | None, after: Snapshot) -> list[Finding]:
    """What went wrong between the two. The first look has nothing to compare with: what it finds may be
    known to whoever gave the node back, and of that only a lost GPU is told, as less than one lost now."""
    old: Mapping[str, Gpu] = before.gpus if before is not None else {}
    seconds = max(1.0, after.at - before.at) if before is not None else 1.0
    found: list[Finding] = []
    for uuid, gpu in after.gpus.items():
        known = old.get(uuid)
        if gpu.lost and before is None:
            found.append(_finding("gpu.found_lost", gpu, "was found lost"))
        elif gpu.lost:
            found += [] if known is not None and known.lost else [_finding("gpu.lost", gpu, "is lost")]
        elif known is not None and not known.lost:
            found += [*_of_memory(known, gpu), *_of_links(known, gpu, seconds)]
    found += [
        _finding("gpu.lost", gpu, "is lost: it is not counted any more")
        for uuid, gpu in old.items()
        if uuid not in after.gpus and not gpu.lost
    ]
    return found


def standing(before: Snapshot | None, after: Snapshot) -> list[Condition]:
    """What stands for a while: for people, beside the node."""
    found: list[Condition] = []
    for gpu in after.gpus.values():
        earlier = before.gpus.get(gpu.uuid) if before is not None else None
        for name, severity, text in _states(gpu, earlier):
            found.append(Condition(name, gpu.bus, severity, f"GPU {gpu.bus} {text}"))
    return found


def told_xid(code: int, bus: str) -> Finding:
    """NVML's word of an Xid: the kernel's line says more, where it can be read."""
    name = f"xid.{code}" if signature(f"xid.{code}") is not None else "xid.other"
    captured = {"device": bus, "code": str(code)} if bus else {"code": str(code)}
    return Finding(name, f"NVML: Xid {code}" + (f" on GPU {bus}" if bus else ""), captured)


def _states(gpu: Gpu, earlier: Gpu | None) -> Iterator[tuple[str, str, str]]:
    if gpu.lost:
        yield "gpu_lost", "error", "is lost"
    if gpu.reset_required:
        yield "gpu_reset_required", "error", "needs a reset"
    if gpu.remap_failed:
        yield "gpu_remap_failed", "error", "could not remap a row of its memory"
    if gpu.remap_pending:
        yield "gpu_remap_pending", "warning", "has rows that wait to be remapped: reset it once it is idle"
    if gpu.retire_pending:
        yield "gpu_retire_pending", "warning", "has pages that wait to be retired: reset it once it is idle"
    held = gpu.slowdown & (earlier.slowdown if earlier is not None else 0)
    if reasons := [text for bit, text in SLOWDOWNS.items() if held & bit]:
        yield "gpu_slowdown", "warning", f"is slowed down: {', '.join(reasons)}"


def _of_memory(known: Gpu, gpu: Gpu) -> Iterator[Finding]:
    if gpu.reset_required and not known.reset_required:
        yield _finding("gpu.reset_required", gpu, "needs a reset")
    if gpu.ecc is not None and known.ecc is not None:
        new = gpu.ecc - known.ecc if gpu.ecc >= known.ecc else gpu.ecc  # a reset sets it back to 0
        if new > 0:
            text = f"{new} uncorrectable ECC error{'' if new == 1 else 's'} of its memory"
            yield _finding("gpu.ecc", gpu, text, colon=True)
    if gpu.remap_failed and known.remap_failed is False:
        yield _finding("gpu.remap_failed", gpu, "a row could not be remapped", colon=True)
    if gpu.remap_pending and known.remap_pending is False:
        yield _finding("gpu.remap_pending", gpu, "rows wait to be remapped", colon=True)
    if gpu.retire_pending and known.retire_pending is False:
        yield _finding("gpu.retire_pending", gpu, "pages wait to be retired", colon=True)


def _of_links(known: Gpu, gpu: Gpu, seconds: float) -> Iterator[Finding]:
    for link, active in gpu.links.items():
        if not active and known.links.get(link):
            yield _finding("nvlink.down", gpu, f"NVLink {link} is down", colon=True)
    for link, now in gpu.link_errors.items():
        was = known.link_errors.get(link)
        if was is not None and (text := _grown(was, now, seconds)):
            yield _finding("nvlink.errors", gpu, f"NVLink {link} had errors: {text}", colon=True)


def _grown(was: LinkErrors, now: LinkErrors, seconds: float) -> str:
    counts = {"replay": now.replay - was.replay, "recovery": now.recovery - was.recovery}
    told = [f"{count} {name}" for name, count in counts.items() if count > 0]
    crc = (now.crc - was.crc) / seconds
    return ", ".join([*told, *([f"{crc:.0f} CRC a second"] if crc >= CRC_A_SECOND else [])])


def _finding(name: str, gpu: Gpu, text: str, *, colon: bool = False) -> Finding:
    return Finding(name, f"NVML: GPU {gpu.bus}{':' if colon else ''} {text}", {"device": gpu.bus})
