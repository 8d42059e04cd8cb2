"""The command line of the stand-ins."""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from channels.standin.providers import StandIn

TOKEN = "demo"  # noqa: S105  the key of a played robot
SECRET = "SECdemo"  # noqa: S105  likewise
WEBHOOK_SECRET = "whsec_ZmF1bHRjYXN0LXN0YW5kLWluLXNlY3JldA=="  # noqa: S105  likewise


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
    secrets = {"dingtalk": SECRET, "wecom": None, "feishu": SECRET, "webhook": WEBHOOK_SECRET}
    robots = {kind: providers.robot(kind, TOKEN, secret=secret) for kind, secret in secrets.items()}
    known = {kind: {"url": robot.url, "secret": robot.secret} for kind, robot in robots.items()}
    print(json.dumps({"url": providers.url, "smtp_url": providers.smtp_url, "robots": known}), flush=True)  # noqa: T201
    stop.wait()
    providers.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="channels.standin",
        description="Plays DingTalk, WeCom and Feishu robots, a webhook receiver and a mail server."
        " Prints one line of JSON with their URLs and secrets; what arrived is at / and /_messages.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="of the robots; 0: any free one")
    parser.add_argument("--smtp-port", type=int, default=0)
    parser.add_argument("--ledger", type=Path, help="every arrival is on disk here before it is answered")
    return parser
