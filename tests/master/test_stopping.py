"""SIGTERM is heard by whoever waits for it, also when the kernel gives it to another thread."""

import subprocess
import sys
import textwrap

import pytest

WAITS = """
    import os, signal, threading, time
    from master.stopping import stop_on_signals

    stop = stop_on_signals()
    {sends}
    stop.wait()
    print("stopped")
"""
SOON = "threading.Timer(0.2, {}).start()"
SENDS = {
    "to the process": SOON.format("os.kill, (os.getpid(), signal.SIGTERM)"),
    "to another thread": SOON.format("lambda: signal.pthread_kill(threading.get_ident(), 15)"),
    "from the terminal": SOON.format("os.kill, (os.getpid(), signal.SIGINT)"),
    "before anybody waits": "os.kill(os.getpid(), signal.SIGTERM)",
}


@pytest.mark.parametrize("sends", SENDS.values(), ids=SENDS)
def test_whoever_waits_hears_it(sends: str) -> None:
    code = textwrap.dedent(WAITS).format(sends=sends)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "stopped\n"
