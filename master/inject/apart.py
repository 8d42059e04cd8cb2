"""Runs a pod's command in a network namespace of its own, joined to the job's other pods:

    python -m master.inject.apart -- python train.py

For test systems of the local runtime, as root. The first pod's namespace holds a bridge, to which each other
pod lays a cable; all of it goes with its processes. `faultcast inject JOB network_cut` takes a cable away.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from master.inject.network import BRIDGE, link_of

CLONE_NEWNET = 0x40000000  # sched.h
NET = "10.213.0"
FIRST_WITHIN_S = 30.0
_MAX_PODS = 250


def main(arguments: list[str]) -> int:
    """Becomes the command; the exit code of what went wrong before."""
    command = arguments[1:] if arguments[:1] == ["--"] else arguments
    index = os.environ.get("PET_NODE_RANK", "")
    if why := _unfit(command, index):
        return _refuse(why)
    meeting = Path.cwd() / f"run-{os.environ.get('FAULTCAST_RUN', '0')}.network"
    try:
        _move_out(int(index), meeting)
    except (OSError, subprocess.CalledProcessError, TimeoutError) as error:
        return _refuse(f"no network of its own: {error}")
    os.environ["MASTER_ADDR"] = f"{NET}.1"
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = BRIDGE if index == "0" else "eth0"
    try:
        os.execvp(command[0], command)  # noqa: S606  the job's own command
    except OSError as error:
        return _refuse(f"{command[0]}: {error.strerror}")


def _unfit(command: list[str], index: str) -> str:
    if not index.isdecimal():
        return "PET_NODE_RANK is not set: this is for the command of a job"
    if int(index) > _MAX_PODS:
        return f"at most {_MAX_PODS} pods"
    if not command:
        return "no command: write python -m master.inject.apart -- python train.py"
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None:
        return "network namespaces need root, iproute2 and util-linux"
    return ""


def _move_out(index: int, meeting: Path) -> None:
    """Into a new namespace, with an address there. `meeting`: where the first pod says who it is."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare was refused")
    _ip("link", "set", "lo", "up")
    if index == 0:
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{NET}.1/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        draft = meeting.with_suffix(".new")
        draft.write_text(json.dumps({"pid": os.getpid()}), encoding="ascii")
        draft.replace(meeting)
        return
    space = f"/proc/{_first(meeting)}/ns/net"
    _ip("link", "add", "eth0", "type", "veth", "peer", "name", link_of(index))
    _ip("addr", "add", f"{NET}.{index + 1}/24", "dev", "eth0")
    _ip("link", "set", link_of(index), "netns", space)
    for words in (("link", "set", link_of(index), "master", BRIDGE), ("link", "set", link_of(index), "up")):
        subprocess.run(["nsenter", f"--net={space}", "ip", *words], check=True)
    _ip("link", "set", "eth0", "up")


def _first(meeting: Path) -> int:
    deadline = time.monotonic() + FIRST_WITHIN_S
    while not meeting.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the first pod did not come within {FIRST_WITHIN_S:.0f} s")
        time.sleep(0.02)
    return int(json.loads(meeting.read_text(encoding="ascii"))["pid"])


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _refuse(why: str) -> int:
    sys.stderr.write(f"faultcast apart: {why}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
