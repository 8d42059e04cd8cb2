"""Claims keep apart: the first after a pause is at once, those of a burst come seldom and bring much each."""

import sys
import time

APART_S = 0.04  # a claim that found little is not followed by another one before: more comes together
APART_IN_BURST_S = 0.16  # as long as one after the other finds some
SOME, LITTLE = 5, 100  # deliveries
# A thread that is woken waits so long for one that counts. Python's own 5 ms are too long for an alert that
# comes alone; in a burst shorter ones cost a fifth of the processor's time.
SWITCH_S, SWITCH_IN_BURST_S = 0.0005, 0.005


class Apart:
    """Of one process. `until`: no claim before that moment of `time.monotonic()`."""

    def __init__(self) -> None:
        self.until, self._pause_s = 0.0, APART_S

    def found(self, count: int, began: float) -> None:
        """A claim that began then has brought so many deliveries."""
        is_burst = count >= SOME and began < self.until + self._pause_s
        self._pause_s = min(2 * self._pause_s, APART_IN_BURST_S) if is_burst else APART_S
        self.until = time.monotonic() + self._pause_s
        sys.setswitchinterval(SWITCH_IN_BURST_S if is_burst else SWITCH_S)
