"""Two looks at GPUs and what changed between them: recorded snapshots, no GPU needed."""

from dataclasses import replace
from typing import Any

import pytest

from agent.gpus import Gpu, LinkErrors, Snapshot, look, standing, told_xid
from agent.nvml import bus_id
from agent.signatures import Isolate, Role, Scanner, Trigger, signature

BUS = "0000:9b:00"
# An H100 as NVML tells of it: 18 links, rows never remapped.
HEALTHY = Gpu(
    uuid="GPU-455d8f70-2051-db6c-0430-ffc457bff834", bus=BUS, ecc=0, remap_pending=False,
    remap_failed=False, retire_pending=None, links=dict.fromkeys(range(18), True),
    link_errors=dict.fromkeys(range(18), LinkErrors()), slowdown=0x04,
)  # fmt: skip
OTHER = replace(HEALTHY, uuid="GPU-2", bus="0000:bb:00")


def at(seconds: float, *gpus: Gpu) -> Snapshot:
    return Snapshot(seconds, {gpu.uuid: gpu for gpu in gpus})


def changed(**what: Any) -> list[str]:
    """The lines told when that changes within five seconds, another GPU beside it staying as it was."""
    before, after = at(0, HEALTHY, OTHER), at(5, replace(HEALTHY, **what), OTHER)
    return [one.line for one in look(before, after)]


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ({"lost": True}, f"NVML: GPU {BUS} is lost"),
        ({"reset_required": True}, f"NVML: GPU {BUS} needs a reset"),
        ({"ecc": 1}, f"NVML: GPU {BUS}: 1 uncorrectable ECC error of its memory"),
        ({"ecc": 12}, f"NVML: GPU {BUS}: 12 uncorrectable ECC errors of its memory"),
        ({"remap_failed": True}, f"NVML: GPU {BUS}: a row could not be remapped"),
        ({"remap_pending": True}, f"NVML: GPU {BUS}: rows wait to be remapped"),
        ({"links": HEALTHY.links | {4: False}}, f"NVML: GPU {BUS}: NVLink 4 is down"),
        ({"link_errors": HEALTHY.link_errors | {2: LinkErrors(1, 2)}},
         f"NVML: GPU {BUS}: NVLink 2 had errors: 1 replay, 2 recovery"),
        ({"link_errors": HEALTHY.link_errors | {2: LinkErrors(crc=500)}},
         f"NVML: GPU {BUS}: NVLink 2 had errors: 100 CRC a second"),
    ],
)  # fmt: skip
def test_what_breaks_is_told_once_and_means_what_its_signature_says(what: dict[str, Any], line: str) -> None:
    before, after = at(0, HEALTHY, OTHER), at(5, replace(HEALTHY, **what), OTHER)
    (found,) = look(before, after)
    assert (found.line, found.captured["device"]) == (line, BUS)
    read = Scanner().scan(line, "kernel")  # a master of another version reads the line itself
    assert read is not None
    assert (read.signature, read.captured.get("device")) == (found.signature, BUS)
    assert look(after, replace(after, at=10)) == []


@pytest.mark.parametrize(
    "what",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"slowdown": 0xFF}, id="slowed down"),
        pytest.param({"ecc": None}, id="a counter that is not told any more"),
        pytest.param({"link_errors": HEALTHY.link_errors | {2: LinkErrors(crc=499)}}, id="few CRC errors"),
        pytest.param({"links": {}}, id="links not told any more"),
    ],
)
def test_what_is_no_fault_is_not_told(what: dict[str, Any]) -> None:
    assert changed(**what) == []


def test_a_gpu_that_is_not_counted_any_more_is_lost() -> None:
    (found,) = look(at(0, HEALTHY, OTHER), at(5, OTHER))
    assert found.signature == "gpu.lost"
    assert look(at(0, replace(HEALTHY, lost=True), OTHER), at(5, OTHER)) == []


def test_after_a_reset_the_count_begins_anew() -> None:
    worn = replace(HEALTHY, ecc=7)
    assert look(at(0, worn), at(5, HEALTHY)) == []
    (found,) = look(at(0, worn), at(5, replace(HEALTHY, ecc=2)))
    assert "2 uncorrectable" in found.line


def test_the_first_look_blames_nothing_old() -> None:
    """What stood there before may be known to whoever gave the node back."""
    worn = replace(HEALTHY, ecc=7, remap_failed=True, links={0: False})
    assert look(None, at(0, worn)) == []
    lost = at(0, replace(HEALTHY, lost=True))
    (found,) = look(None, lost)
    known = signature(found.signature)
    assert known is not None
    assert (found.signature, known.trigger) == ("gpu.found_lost", Trigger.IF_STUCK)
    assert look(lost, replace(lost, at=5)) == []
    assert [one.name for one in standing(None, at(0, worn))] == ["gpu_remap_failed"]


def test_a_gpu_that_comes_back_is_compared_from_then_on() -> None:
    lost = replace(HEALTHY, lost=True)
    assert look(at(0, lost), at(5, replace(HEALTHY, ecc=3))) == []


def test_a_slowdown_stands_when_two_looks_saw_it() -> None:
    hot = replace(HEALTHY, slowdown=0x48)
    assert standing(at(0, HEALTHY), at(5, hot)) == []
    (told,) = standing(at(5, hot), at(10, hot))
    assert (told.name, told.subject, told.severity) == ("gpu_slowdown", BUS, "warning")
    assert told.text == f"GPU {BUS} is slowed down: hardware slowdown, hardware thermal slowdown"
    assert standing(at(0, HEALTHY), at(5, replace(HEALTHY, slowdown=0x04))) == []  # its power cap: as usual


@pytest.mark.parametrize(
    ("code", "name"), [(79, "xid.79"), (43, "xid.43"), (145, "xid.other"), (999, "xid.other")]
)
def test_an_xid_by_nvml_means_what_the_kernels_does(code: int, name: str) -> None:
    """Of NVLink 5's (144-150) only the kernel's text says whether they are fatal."""
    found = told_xid(code, BUS)
    assert (found.signature, found.line) == (name, f"NVML: Xid {code} on GPU {BUS}")
    known = signature(name)
    assert known is not None
    assert (known.role is Role.EVIDENCE) == (code != 79)


def test_only_what_is_beyond_doubt_calls_a_fault_by_itself() -> None:
    names = {"gpu.lost", "gpu.remap_failed", "gpu.ecc", "gpu.remap_pending", "nvlink.down", "nvlink.errors",
             "gpu.reset_required", "link.port_down", "disk.full", "disk.read_only"}  # fmt: skip
    known = {name: one for name in names if (one := signature(name)) is not None}
    assert set(known) == names
    assert {name for name, one in known.items() if one.trigger is Trigger.AT_ONCE} == {
        "gpu.lost", "gpu.remap_failed",
    }  # fmt: skip
    notes = {name for name, one in known.items() if one.role is Role.EVIDENCE}
    assert notes == {"gpu.remap_pending", "nvlink.errors", "disk.full"}
    assert all((one.isolate is Isolate.ALWAYS) == (name not in notes) for name, one in known.items())


def test_a_bus_is_named_as_the_kernel_names_it() -> None:
    assert bus_id("00000000:9B:00.0") == BUS
