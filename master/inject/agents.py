"""What befalls the agent beside a pod: it dies, or its clock goes wrong. Training is not touched."""

import os
import select
import signal
import sys

import psutil

from master.cli.errors import FAILED, CommandError
from master.inject.ground import Pod, Scene
from master.inject.outside import done, rank_of
from master.inject.wish import Done, Wish
from master.runtimes.agents import NOTE
from master.runtimes.podfiles import living
from master.runtimes.supervisor import identity, write_whole

SKEW_S = 300.0
READY_WITHIN_S = 30.0
_READY_FD = 3
# The clock is changed before anything of the agent binds its names; then it waits for the one whose place it
# takes. Arguments: the skew in seconds, the pid of that one.
_SKEWED = f"""
import datetime, os, select, sys
import agent.clock as clock
true, skew = clock.utcnow, datetime.timedelta(seconds=float(sys.argv[1]))
clock.utcnow = lambda: true() + skew
from agent.__main__ import main
before = os.pidfd_open(int(sys.argv[2]))
os.write({_READY_FD}, b"+")
select.select([before], [], [])
sys.exit(main([]))
"""


def agent_killed(scene: Scene, wish: Wish) -> Done:
    rank = rank_of(scene, wish)
    pid = _agent(scene.pod_of(rank))
    os.kill(pid, signal.SIGKILL)
    return done(scene, rank, f"SIGKILL to its agent, process {pid}")


def clock_skewed(scene: Scene, wish: Wish) -> Done:
    """Another agent, whose clock is wrong, takes the place of the pod's own; no gap is to be seen."""
    rank = rank_of(scene, wish)
    pod = scene.pod_of(rank)
    skew_s = SKEW_S if wish.skew_s is None else wish.skew_s
    old = _agent(pod)
    new = _start_skewed(pod, old, skew_s)
    write_whole(pod.folder / NOTE, identity(new))  # first, lest the master starts one when the old one ends
    os.kill(old, signal.SIGKILL)
    return done(scene, rank, f"its agent's clock is wrong by {skew_s:+g} s, process {new}")


def _agent(pod: Pod) -> int:
    pid = living(pod.note(NOTE))
    if pid is None:
        raise CommandError(f"{pod.name}: its agent does not run just now; try again", FAILED)
    return pid


def _start_skewed(pod: Pod, old: int, skew_s: float) -> int:
    """The new agent, once it is ready to take over: its pid. It lives on without us, as agents do."""
    env = psutil.Process(old).environ()
    reading, writing = os.pipe()
    log = os.open(pod.folder / "agent.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
        (os.POSIX_SPAWN_DUP2, writing, _READY_FD),
    ]
    command = [sys.executable, "-P", "-c", _SKEWED, str(skew_s), str(old)]
    try:
        pid = os.posix_spawn(sys.executable, command, env, file_actions=actions, setsid=True)
    finally:
        os.close(log)
        os.close(writing)
    try:
        is_heard = bool(select.select([reading], [], [], READY_WITHIN_S)[0]) and os.read(reading, 1) == b"+"
    finally:
        os.close(reading)
    if not is_heard:
        os.kill(pid, signal.SIGKILL)
        raise CommandError(
            f"{pod.name}: no agent with a wrong clock came up; see {pod.folder}/agent.log", FAILED
        )
    return pid
