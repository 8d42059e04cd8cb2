"""Links by a tree like /sys, disks by real file systems where we may make them, conditions by what stands."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.disks import DiskProbe, Room, read_room
from agent.findings import MAX_CONDITIONS, MAX_WORD, Condition, Finding, Standing
from agent.links import LinkProbe, Ports, RdmaPort, look, read_ports
from agent.machine import MachineWatch
from agent.signatures import Scanner
from agent.wire import Kind

GIB = 1 << 30
ROOMY = Room(read_only=False, size=1000 * GIB, free=500 * GIB, inodes=10**6, inodes_free=10**5)


class Sys:
    """A tree like /sys with one RDMA port and three network ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
        self.write("class/infiniband/mlx5_0/ports/1/counters/link_downed", "0")
        self.write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN")  # no cable in it
        self.write("class/net/eth0/carrier", "1")
        self.write("class/net/eth0/device/vendor", "0x15b3")
        self.write("class/net/docker0/carrier", "0")  # no device: it is made of software
        self.write("class/net/eth1/device/vendor", "0x15b3")  # switched off: its carrier cannot be read

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(f"{text}\n")


@pytest.fixture
def sys(tmp_path: Path) -> Sys:
    return Sys(tmp_path / "sys")


def test_ports_are_read(sys: Sys) -> None:
    assert read_ports(sys.folder) == Ports(
        {"mlx5_0/1": RdmaPort("ACTIVE", 0), "mlx5_1/1": RdmaPort("DOWN")}, {"eth0": True}
    )


def test_this_machines_ports_are_read() -> None:
    assert look(read_ports(), read_ports()) == []


LINKS = {
    "an RDMA port goes down": (
        {"class/infiniband/mlx5_0/ports/1/state": "1: DOWN"},
        "RDMA port mlx5_0/1 is down: ACTIVE, now DOWN", "link.port_down", ["rdma_port_down"],
    ),
    "an RDMA port without subnet manager": (
        {"class/infiniband/mlx5_0/ports/1/state": "2: INIT"},
        "RDMA port mlx5_0/1 is down: ACTIVE, now INIT", "link.port_down", ["rdma_port_down"],
    ),
    "an RDMA port flaps": (
        {"class/infiniband/mlx5_0/ports/1/counters/link_downed": "1"},
        "RDMA port mlx5_0/1 went down and up again", "link.flapped", [],
    ),
    "a cable of Ethernet": (
        {"class/net/eth0/carrier": "0"}, "network port eth0 lost its carrier", "link.carrier_lost",
        ["carrier_lost"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINKS)
def test_a_link_that_fails_is_told_once_and_stands(sys: Sys, case: str) -> None:
    what, line, signature, stands = LINKS[case]
    probe = LinkProbe(sys.folder)
    assert probe.look() == ([], [])
    for path, text in what.items():
        sys.write(path, text)
    (found,), conditions = probe.look()
    assert (found.line, found.signature) == (line, signature)
    read = Scanner().scan(line, "kernel")
    assert read is not None
    assert read.signature == signature
    assert [one.name for one in conditions] == stands
    assert probe.look() == ([], conditions)
    for path in what:
        sys.write(path, {"carrier": "1", "state": "4: ACTIVE"}.get(Path(path).name, "1"))
    assert probe.look() == ([], [])


@pytest.mark.parametrize(
    ("change", "full"),
    [
        ({}, ""),
        ({"free": 2 * GIB}, ""),  # little, and still enough for a checkpoint
        ({"free": GIB - 1}, "1023 MiB of 1000 GiB left"),
        ({"size": GIB, "free": 20 << 20}, ""),  # a small one: 2 % of it
        ({"inodes_free": 999}, "999 of 1000000 inodes left"),
        ({"inodes": 0, "inodes_free": 0}, ""),  # btrfs and others count none
        ({"size": 0, "free": 0}, ""),  # /proc and the like
    ],
)
def test_when_a_disk_is_full(change: dict[str, int], full: str) -> None:
    assert replace(ROOMY, **change).full == full


@pytest.mark.parametrize(
    ("change", "signature", "name"),
    [({"free": 0}, "disk.full", "disk_full"), ({"read_only": True}, "disk.read_only", "disk_read_only")],
)
def test_a_disk_that_fails_is_told_once_and_stands(change: dict[str, Any], signature: str, name: str) -> None:
    now = [ROOMY]
    probe = DiskProbe([Path("/data")], lambda _: now[0])
    assert probe.look() == ([], [])
    now[0] = replace(ROOMY, **change)
    (found,), (condition,) = probe.look()
    assert (found.signature, condition.name, condition.subject) == (signature, name, "/data")
    read = Scanner().scan(found.line, "kernel")
    assert read is not None
    assert (read.signature, read.captured["path"]) == (signature, "/data")
    assert probe.look() == ([], [condition])
    now[0] = ROOMY
    assert probe.look() == ([], [])


def test_what_is_read_only_from_the_start_is_meant_to_be() -> None:
    probe = DiskProbe([Path("/image")], lambda _: replace(ROOMY, read_only=True))
    assert [probe.look(), probe.look()] == [([], []), ([], [])]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, small."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=2000", "tmpfs", folder],
        check=False, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no file system can be mounted here (root is needed)")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_real_disk_that_is_filled_and_remounted(mount: Path) -> None:
    probe = DiskProbe([mount])
    assert probe.look() == ([], [])
    with contextlib.suppress(OSError), (mount / "big").open("wb") as file:
        file.write(bytes(2 << 20))
    assert [one.signature for one in probe.look()[0]] == ["disk.full"]
    (mount / "big").unlink()
    probe.look()
    with contextlib.suppress(OSError):
        for n in range(3000):
            (mount / str(n)).touch()
    (found,), _ = probe.look()
    assert "inodes left" in found.line
    subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
    assert [one.signature for one in probe.look()[0]] == ["disk.read_only"]


def test_a_path_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert read_room(tmp_path / "nowhere") is None
    assert DiskProbe([tmp_path / "nowhere"]).look() == ([], [])


def test_the_watch_finds_it_from_its_thread(sys: Sys, tmp_path: Path, until: Callable[..., Any]) -> None:
    found: list[Finding] = []
    watch = MachineWatch(found.extend, [tmp_path], sys.folder, look_s=0.01)
    watch.start()
    until(lambda: watch._links._before, "a first look")
    sys.write("class/net/eth0/carrier", "0")
    until(watch.conditions, "a condition")
    watch.close()
    assert [one.signature for one in found] == ["link.carrier_lost"]
    told = found[0].observed()
    assert (told.kind, told.rank) == (Kind.KERNEL_LINE, None)


def test_a_next_life_knows_what_was_well_once(sys: Sys, tmp_path: Path, until: Callable[..., Any]) -> None:
    """A port that is down since before it began is no port without a cable."""
    first = MachineWatch(lambda _: None, [tmp_path], sys.folder, look_s=0.01)
    first.start()
    until(lambda: first.looked, "a first look")
    first.close()
    known = json.loads(json.dumps(first.remember()))
    assert known == {"were_up": ["eth0", "mlx5_0/1"], "was_writable": [str(tmp_path)]}
    sys.write("class/infiniband/mlx5_0/ports/1/state", "1: DOWN")
    for told, names in ((known, ["rdma_port_down"]), (None, []), ("garbage", []), ({"were_up": 1}, [])):
        second = MachineWatch(lambda _: None, [tmp_path], sys.folder, known=told, look_s=0.01)
        second.start()
        until(lambda watch=second: watch.looked, "a first look")
        second.close()
        assert [one.name for one in second.conditions()] == names


def test_conditions_are_told_when_they_change_and_now_and_then() -> None:
    standing = Standing()
    one = Condition("disk_full", "/data", "error", "x" * 2 * MAX_WORD)
    assert standing.tell([], 0) == []
    assert standing.tell([], 1) is None
    (told,) = standing.tell([one], 2) or [{}]
    assert (told["name"], told["subject"], len(told["text"])) == ("disk_full", "/data", MAX_WORD)
    assert standing.tell([one], 3) is None
    (again,) = standing.tell([one], 63) or [{}]
    assert again == told  # since the same moment
    assert standing.tell([], 64) == []
    many = [replace(one, subject=str(n)) for n in range(2 * MAX_CONDITIONS)]
    assert len(standing.tell(many, 65) or []) == MAX_CONDITIONS


def test_a_machine_is_looked_at_for_next_to_nothing(tmp_path: Path) -> None:
    """Of one core: a thousandth, at a look each five seconds."""
    links, disks = LinkProbe(), DiskProbe([tmp_path])
    links.look(), disks.look()
    before = os.times()
    for _ in range(20):
        links.look(), disks.look()
    after = os.times()
    assert (after.user + after.system) - (before.user + before.system) < 20 * 0.005
