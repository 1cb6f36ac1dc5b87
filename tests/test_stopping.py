"""A signal is known to whoever asks before he sends, also while the thread that reads signals has not run yet."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from hab_ray.errors import Interrupted
from hab_ray.stopping import Stop

_LATE = """
import os, signal, time
from hab_ray.stopping import Stop
stop = Stop()
stop.listen()
stop.request()
try:
    with stop.deferred(lambda: print("told", flush=True), 60.0):
        pass
except KeyboardInterrupt:
    print("raised", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.5)
"""


def test_a_signal_is_seen_before_the_watching_thread_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)
    stop = Stop()
    try:
        stop.listen()
        signal.signal(signal.SIGTERM, lambda *_: None)
        stop.check()
        os.kill(os.getpid(), signal.SIGTERM)
        assert not stop.requested
        with pytest.raises(Interrupted):
            stop.check()
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_stop_that_is_requested_twice_at_once_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request interrupts the first, as the handler of a second signal may at any place."""
    stop, told, now = Stop(), [], time.monotonic

    def interrupted() -> float:
        stop.request()
        return now()

    monkeypatch.setattr(time, "monotonic", interrupted)
    with stop.deferred(lambda: told.append("stop"), 1.0):
        stop.request()
    assert told == ["stop"] and stop.requested


def test_a_block_that_a_stop_came_before_is_not_told_of_it_later() -> None:
    said = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, text=True, timeout=120, check=False)
    assert said.stdout == "raised\n", said.stderr
