"""`python -m agent` watches one pod, `python -m agent --node` one node; all else comes by the environment."""

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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
