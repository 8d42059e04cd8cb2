"""`python -m agent` watches one pod, `python -m agent --node` one node; all else comes by the environment."""

import contextlib
import os
import sys

from agent.node import NodeAgent
from agent.pod import PodAgent
from agent.settings import SettingsError, load
from agent.state import AlreadyWatchedError

USAGE = "usage: python -m agent [--node]"


def main(arguments: list[str]) -> int:
    """Exit codes: 0 done, 1 another agent is at work there, 2 wrong usage."""
    if arguments not in ([], ["--node"]):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    node = bool(arguments)
    _let_go_of_foreign_files()
    try:
        settings = load(os.environ, node=node)
        agent = NodeAgent(settings) if node else PodAgent(settings)
    except SettingsError as error:
        sys.stderr.write(f"faultcast agent: {error}\n")
        return 2
    except AlreadyWatchedError as error:
        sys.stderr.write(f"faultcast agent: {error}\n")
        return 1
    return agent.run()


def _let_go_of_foreign_files() -> None:
    """What our starter left open is not ours: a listening socket that we hold keeps its port taken."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  numbers, not paths
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
