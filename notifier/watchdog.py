"""The dead-man's switch: while all is well somebody outside is called every minute, and else misses us."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from channels.transport import Network, NotSent, Unanswered
from notifier import metrics
from notifier.errors import kind_and_place

EVERY_S = 60.0
TIMEOUT_S = 10.0

log = structlog.get_logger()


class Watchdog:
    """Calls `url` from a thread of its own while `faults()` names none; without a `url` it does nothing."""

    def __init__(
        self,
        url: str | None,
        network: Network,
        faults: Callable[[], Sequence[str]],
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._url = url
        # The operator's own address may be private; what channels may reach is another matter.
        self._network = replace(network, allow=None)
        self._faults = faults
        self._every_s = every_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        if self._url is not None:
            self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            try:
                self._look()
            except BaseException as error:  # noqa: BLE001  a border: the thread must not end
                metrics.WATCHDOG.labels("withheld").inc()
                log.warning("watchdog_not_called", why=kind_and_place(error))

    def _look(self) -> None:
        faults = self._faults()
        if faults:
            metrics.WATCHDOG.labels("withheld").inc()
            log.warning("watchdog_not_called", faults=list(faults))
        else:
            self._call(self._url or "")

    def _call(self, url: str) -> None:
        try:
            response = self._network.request("GET", url, timeout_s=TIMEOUT_S)
        except (NotSent, Unanswered) as error:
            metrics.WATCHDOG.labels("unanswered").inc()
            log.warning("watchdog_not_reached", why=type(error).__name__)  # the address itself is a secret
            return
        if response.status < 300:
            metrics.WATCHDOG.labels("made").inc()
        else:
            metrics.WATCHDOG.labels("unanswered").inc()
            log.warning("watchdog_not_reached", status=response.status)
