"""A signal is known to whoever asks before he sends, also while the thread that reads signals has not run yet."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from hab_ray.errors import Interrupted
from hab_ray.stopping import Stop


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
