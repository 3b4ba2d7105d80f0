"""The tripwire in this process: there while it is wanted, and gone afterwards."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from traceforge.capture.hook import tripwire
from traceforge.capture.hook.callsite import current_test
from traceforge.capture.hook.tripwire import MODEL, REMOTE
from traceforge.capture.network_guard import REFUSALS_MAX, NetworkGuard
from traceforge.capture.run.network_access import RefusedConnection

ELSEWHERE = ("192.0.2.1", 443)


@pytest.fixture
def off() -> set[str]:
    """Scopes that are left alone."""
    return set()


@pytest.fixture
def guard(off: set[str]) -> Iterator[NetworkGuard]:
    """One that is at work."""
    one = NetworkGuard([4321], off.__contains__)
    one.start()
    yield one
    one.stop()


def connect(place: tuple[str, int]) -> str:
    """What becomes of a connection, without waiting for it."""
    with socket.socket() as one:
        one.setblocking(False)
        try:
            one.connect_ex(place)
        except ConnectionRefusedError as exc:
            return str(exc)
    return ""


def test_what_is_refused_is_kept_for_the_test_that_wanted_it(guard: NetworkGuard) -> None:
    """Once: what was told is not told again."""
    assert "192.0.2.1:443 was refused: a test has no network" in connect(ELSEWHERE)
    assert "a model answers there" in connect(("127.0.0.1", 4321))
    assert "" == connect(("127.0.0.1", 4322))

    assert Counter() == guard.take_refusals("another test")
    assert Counter(
        {RefusedConnection("192.0.2.1:443", REMOTE): 1, RefusedConnection("127.0.0.1:4321", MODEL): 1}
    ) == guard.take_refusals(current_test())
    assert Counter() == guard.take_refusals(current_test())


def test_a_name_is_not_resolved(guard: NetworkGuard) -> None:
    """Nobody is asked for it."""
    with pytest.raises(ConnectionRefusedError, match=r"models\.example\.com:443"):
        socket.getaddrinfo("models.example.com", 443)


def test_a_scope_that_is_off_connects_as_it_likes(guard: NetworkGuard, off: set[str]) -> None:
    """Datagrams included, which are refused on a way of their own."""
    off.add(current_test())

    assert "" == connect(ELSEWHERE)
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:  # there may be no route
        one.sendto(b"?", ("192.0.2.1", 9))
    assert not guard.refused


def test_once_it_was_taken_down_nothing_is_refused(guard: NetworkGuard) -> None:
    """Nor by what has kept it, as the hook of uvloop does."""
    assert guard is tripwire.current()
    guard.stop()
    guard.stop()

    assert "" == connect(ELSEWHERE)
    guard.check(*ELSEWHERE)
    guard.check_name("models.example.com", 443)
    assert tripwire.current() is None


def test_a_loop_over_addresses_does_not_fill_the_memory(guard: NetworkGuard) -> None:
    """All are refused; some are remembered."""
    for number in range(REFUSALS_MAX + 10):
        with pytest.raises(ConnectionRefusedError):
            guard.check(f"host-{number}.example.com", 443)

    assert REFUSALS_MAX == len(guard.refused)
