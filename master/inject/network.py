"""The network between pods, cut: for jobs whose pods have network namespaces of their own (`apart.py`)."""

import os
import shutil
import subprocess
from pathlib import Path

from master.cli.errors import FAILED, REFUSED, CommandError
from master.inject.ground import Scene
from master.inject.outside import done, rank_of
from master.inject.wish import Done, Wish

BRIDGE = "faultcast0"


def link_of(index: int) -> str:
    """The end of a pod's cable at the bridge, which lies in the first pod's namespace."""
    return f"pod{index}"


def network_cut(scene: Scene, wish: Wish) -> Done:
    """The pod's packets go nowhere, and nobody is told: no reset, no closed connection."""
    rank = rank_of(scene, wish)
    pod = scene.pod_of(rank)
    _check_tools()
    spaces = {one.index: _namespace(scene, min(one.ranks)) for one in scene.pods if one.ranks}
    if 0 not in spaces or len(set(spaces.values())) < len(spaces) or _own() in spaces.values():
        raise CommandError(
            "the pods of this job share one network, so it cannot be cut between them; submit it with the "
            "command `python -m master.inject.apart -- …`, which gives each a network of its own",
            REFUSED,
        )
    name = BRIDGE if pod.index == 0 else link_of(pod.index)
    middle = scene.process(min(next(one for one in scene.pods if one.index == 0).ranks)).pid
    _ip(middle, "link", "set", name, "down")
    return done(scene, rank, f"the network of {pod.name} is cut: {name} is down")


def _check_tools() -> None:
    if os.geteuid() != 0:
        raise CommandError("network_cut: only root may touch network namespaces; run this as root", REFUSED)
    for program in ("ip", "nsenter"):
        if shutil.which(program) is None:
            raise CommandError(f"network_cut: {program} is missing; install iproute2 and util-linux", REFUSED)


def _namespace(scene: Scene, rank: int) -> str:
    return str(Path(f"/proc/{scene.process(rank).pid}/ns/net").readlink())


def _own() -> str:
    return str(Path("/proc/self/ns/net").readlink())


def _ip(pid: int, *arguments: str) -> None:
    """`ip` inside the network of a process."""
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise CommandError(f"network_cut: {' '.join(arguments)}: {ended.stderr.strip()}", FAILED)
