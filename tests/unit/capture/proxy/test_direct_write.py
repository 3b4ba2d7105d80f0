"""Writing at once: what the socket takes goes out, and the transport has the rest."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from traceforge.capture.proxy.direct_write import find_descriptor, write_directly

pytestmark = pytest.mark.skipif(os.name != "posix", reason="only the transport writes there")


class Transport:
    """A transport that notes what it is left with."""

    def __init__(self, *, held: int = 0, closing: bool = False, **extra: Any) -> None:
        self.written = b""
        self._held = held
        self._closing = closing
        self._extra = extra

    def write(self, data: bytes) -> None:
        """Note it."""
        self.written += data

    def get_write_buffer_size(self) -> int:
        """What it could not send so far."""
        return self._held

    def is_closing(self) -> bool:
        """Is its descriptor perhaps somebody else's by now?"""
        return self._closing

    def get_extra_info(self, name: str) -> Any:
        """What it was made with."""
        return self._extra.get(name)


def write(transport: Transport, descriptor: int, data: bytes) -> bytes:
    """What the transport is left with."""
    write_directly(cast("asyncio.Transport", transport), descriptor, data)
    return transport.written


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Two ends; the one that is written to never waits."""
    hear, speak = os.pipe()
    os.set_blocking(speak, False)
    try:
        yield hear, speak
    finally:
        os.close(speak)
        os.close(hear)


def test_what_there_is_room_for_is_written_before_the_transport_hears_of_it(pipe: tuple[int, int]) -> None:
    """All of it, most times."""
    hear, speak = pipe

    assert b"" == write(Transport(), speak, b"data: 1\n\n")
    assert b"data: 1\n\n" == os.read(hear, 100)


def test_the_transport_sends_what_there_is_no_room_for(pipe: tuple[int, int]) -> None:
    """Nothing is lost between the two, nothing is written twice, and a full socket is no failure."""
    hear, speak = pipe
    data = bytes(range(256)) * 1024
    left = write(Transport(), speak, data)
    full = write(Transport(), speak, b"more")
    sent = b"".join(iter(lambda: _read(hear), b""))

    assert 0 < len(left) < len(data)
    assert data == sent + left
    assert b"more" == full


def _read(hear: int) -> bytes:
    os.set_blocking(hear, False)
    try:
        return os.read(hear, 1 << 20)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("transport", [Transport(held=1), Transport(closing=True)], ids=["holds some", "closing"])
def test_the_order_is_kept_and_a_closed_descriptor_is_left_alone(pipe: tuple[int, int], transport: Transport) -> None:
    """What the transport holds comes first, and after its end the number may belong to another connection."""
    hear, speak = pipe

    assert b"x" == write(transport, speak, b"x")
    assert b"" == _read(hear)


def test_a_failure_is_the_transports_to_find() -> None:
    """Nobody listens: the transport notices, as it would have."""
    hear, speak = os.pipe()
    os.close(hear)

    assert b"x" == write(Transport(), speak, b"x")
    os.close(speak)


def test_tls_is_written_by_the_transport_alone() -> None:
    """So is what has no socket."""
    raw = SimpleNamespace(fileno=lambda: 7)

    assert -1 == find_descriptor(cast("asyncio.Transport", Transport(socket=raw, ssl_object=object())))
    assert -1 == find_descriptor(cast("asyncio.Transport", Transport()))
    assert 7 == find_descriptor(cast("asyncio.Transport", Transport(socket=raw)))
    assert b"x" == write(Transport(), -1, b"x")
