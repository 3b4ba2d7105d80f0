"""The tripwire in this process: active while a suite runs, and not afterwards."""

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
    """Tests that are not restricted."""
    return set()


@pytest.fixture
def guard(off: set[str]) -> Iterator[NetworkGuard]:
    """A started guard."""
    guard = NetworkGuard([4321], off.__contains__)
    guard.start()
    yield guard
    guard.stop()


def connect(address: tuple[str, int]) -> str:
    """How a connection attempt ends, without waiting for it."""
    with socket.socket() as connection:
        connection.setblocking(False)
        try:
            connection.connect_ex(address)
        except ConnectionRefusedError as exc:
            return str(exc)
    return ""


def test_refused_connections_are_remembered_for_their_test(guard: NetworkGuard) -> None:
    """They are taken once."""
    assert "192.0.2.1:443 was refused: a test has no network" in connect(ELSEWHERE)
    assert "a model answers there" in connect(("127.0.0.1", 4321))
    assert "" == connect(("127.0.0.1", 4322))

    assert Counter() == guard.take_refusals("another test")
    assert Counter(
        {RefusedConnection("192.0.2.1:443", REMOTE): 1, RefusedConnection("127.0.0.1:4321", MODEL): 1}
    ) == guard.take_refusals(current_test())
    assert Counter() == guard.take_refusals(current_test())


def test_a_name_is_not_resolved(guard: NetworkGuard) -> None:
    """No name server is asked."""
    with pytest.raises(ConnectionRefusedError, match=r"models\.example\.com:443"):
        socket.getaddrinfo("models.example.com", 443)


def test_an_excluded_test_is_not_restricted(guard: NetworkGuard, off: set[str]) -> None:
    """Nor are its datagrams, which are refused in another way."""
    off.add(current_test())

    assert "" == connect(ELSEWHERE)
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:  # there may be no route
        connection.sendto(b"?", ("192.0.2.1", 9))
    assert not guard.refused


def test_a_stopped_guard_refuses_nothing(guard: NetworkGuard) -> None:
    """Also through code that still holds it, such as the hook of uvloop."""
    assert guard is tripwire.current()
    guard.stop()
    guard.stop()

    assert "" == connect(ELSEWHERE)
    guard.check(*ELSEWHERE)
    guard.check_name("models.example.com", 443)
    assert tripwire.current() is None


def test_a_loop_over_addresses_does_not_fill_the_memory(guard: NetworkGuard) -> None:
    """All are refused; only some are remembered."""
    for number in range(REFUSALS_MAX + 10):
        with pytest.raises(ConnectionRefusedError):
            guard.check(f"host-{number}.example.com", 443)

    assert REFUSALS_MAX == len(guard.refused)
