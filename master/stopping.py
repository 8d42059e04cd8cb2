"""SIGTERM and SIGINT as an event to wait for, whichever of our threads the kernel gives them to."""

import os
import signal
import threading


def stop_on_signals() -> threading.Event:
    """Set once we are told to end. To be called from the main thread.

    Python runs handlers in the main thread alone, and not while that waits: a signal that the kernel gave
    to another thread (it does while the main one has just been continued) would be heard by nobody. And a
    handler that sets an event may wait for a lock that the code it interrupts holds. So the signal's byte
    is read by a thread of its own.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    stop = threading.Event()

    def listen() -> None:
        os.read(told, 1)
        stop.set()

    threading.Thread(target=listen, name="signals", daemon=True).start()
    return stop
