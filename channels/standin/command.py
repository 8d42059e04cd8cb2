"""The command line of the stand-ins."""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from channels.standin.providers import StandIn
from channels.standin.ready import furnish


def main(arguments: list[str] | None = None) -> int:
    """Plays the providers until it is told to end."""
    given = _parser().parse_args(arguments)
    try:
        providers = StandIn(
            host=given.host, port=given.port, smtp_port=given.smtp_port, ledger=given.ledger
        ).start()
    except OSError as error:
        print(f"cannot listen: {error.strerror}; choose another --port or --smtp-port", file=sys.stderr)  # noqa: T201
        return 1
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    ready = furnish(providers)
    providers.tell(ready.commands)
    print(json.dumps(ready.document, ensure_ascii=False), flush=True)  # noqa: T201
    stop.wait()
    providers.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="channels.standin",
        description="Plays DingTalk, WeCom and Feishu robots, a webhook receiver, a mail server, and the"
        " providers of texts and calls. Prints one line of JSON: their URLs and secrets, and the commands"
        " that make a channel to each; these and what arrived are at /, what arrived also at /_messages.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="of the robots; 0: any free one")
    parser.add_argument("--smtp-port", type=int, default=0)
    parser.add_argument("--ledger", type=Path, help="every arrival is on disk here before it is answered")
    return parser
