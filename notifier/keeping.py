"""Keeps what this process holds: its leases are renewed together as long as it is at work."""

import threading
import time
from collections.abc import Mapping

import structlog

from notifier import metrics
from notifier.errors import kind_and_place
from notifier.leases import RENEW_EVERY_S, renew
from notifier.tools import Tools

log = structlog.get_logger()


def keep(tools: Tools, ended: threading.Event) -> None:
    while not ended.wait(RENEW_EVERY_S):
        held = tools.leases.snapshot()
        if held:
            _renew(tools, held)


def _renew(tools: Tools, held: Mapping[str, str]) -> None:
    store, since = tools.store, time.monotonic()
    try:
        kept = tools.writer.run(lambda session: renew(session, held, store.now(session)))
    except BaseException as error:  # noqa: BLE001  a border: all that is held is lost by a thread that has ended
        log.warning("leases_not_renewed", why=kind_and_place(error))
        return
    lost = tools.leases.renewed(kept, held, since)
    if lost:
        log.warning("leases_lost", count=len(lost))
        metrics.LEASES_LOST.inc(len(lost))
