"""When the selector waits for more events, and when it does not."""

import selectors
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from hab_ray.engine.online.thread import BunchingSelector

BUNCH_S = 0.8


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(2)]
    yield made
    for pair in made:
        for end in pair:
            end.close()


def selector(pairs: list[tuple[socket.socket, socket.socket]], busy: bool) -> BunchingSelector:
    made = BunchingSelector(lambda: busy, BUNCH_S)
    for reader, _ in pairs:
        made.register(reader, selectors.EVENT_READ)
    return made


def send_later(pairs: list[tuple[socket.socket, socket.socket]]) -> threading.Timer:
    """The first socket is readable at once, the second soon after."""
    pairs[0][1].send(b"x")
    timer = threading.Timer(BUNCH_S / 6, pairs[1][1].send, [b"y"])
    timer.start()
    return timer


def wake(tested: BunchingSelector, pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """A first event, which is handled at once."""
    pairs[0][1].send(b"x")
    started = time.monotonic()
    assert len(tested.select(5.0)) == 1 and time.monotonic() - started < BUNCH_S / 2
    pairs[0][0].recv(1)


@pytest.mark.parametrize(("busy", "events"), [(True, 2), (False, 1)])
def test_bunches(pairs: list[tuple[socket.socket, socket.socket]], busy: bool, events: int) -> None:
    """Right after a wake-up, only a busy selector waits for an event that comes slightly later."""
    with selector(pairs, busy) as tested:
        wake(tested, pairs)
        timer = send_later(pairs)
        assert len(tested.select(5.0)) == events
        timer.join()


def test_timeout(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """A timer that is due before the end of the bunch is on time."""
    with selector(pairs, busy=True) as tested:
        wake(tested, pairs)
        started = time.monotonic()
        assert tested.select(0.01) == []
        assert time.monotonic() - started < BUNCH_S / 2
