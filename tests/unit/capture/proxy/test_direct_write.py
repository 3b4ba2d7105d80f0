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

    def __init__(self, *, buffered: int = 0, closing: bool = False, **extra: Any) -> None:
        self.written = b""
        self._buffered = buffered
        self._closing = closing
        self._extra = extra

    def write(self, data: bytes) -> None:
        """Note it."""
        self.written += data

    def get_write_buffer_size(self) -> int:
        """What it could not send so far."""
        return self._buffered

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


def test_bytes_are_written_to_the_socket_without_the_transport(pipe: tuple[int, int]) -> None:
    """Usually all of them."""
    hear, speak = pipe

    assert b"" == write(Transport(), speak, b"data: 1\n\n")
    assert b"data: 1\n\n" == os.read(hear, 100)


def test_the_transport_sends_what_the_socket_has_no_room_for(pipe: tuple[int, int]) -> None:
    """Nothing is lost or written twice, and a full socket is not an error."""
    hear, speak = pipe
    data = bytes(range(256)) * 1024
    remaining = write(Transport(), speak, data)
    full = write(Transport(), speak, b"more")
    sent = b"".join(iter(lambda: _read(hear), b""))

    assert 0 < len(remaining) < len(data)
    assert data == sent + remaining
    assert b"more" == full


def _read(hear: int) -> bytes:
    os.set_blocking(hear, False)
    try:
        return os.read(hear, 1 << 20)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("transport", [Transport(buffered=1), Transport(closing=True)], ids=["holds some", "closing"])
def test_the_order_is_kept_and_a_closed_descriptor_is_left_alone(pipe: tuple[int, int], transport: Transport) -> None:
    """Bytes that the transport holds go first, and a closed descriptor may already belong to another connection."""
    hear, speak = pipe

    assert b"x" == write(transport, speak, b"x")
    assert b"" == _read(hear)


def test_a_failed_write_is_left_to_the_transport() -> None:
    """The transport notices that the peer is gone, as it would have."""
    hear, speak = os.pipe()
    os.close(hear)

    assert b"x" == write(Transport(), speak, b"x")
    os.close(speak)


def test_tls_is_written_by_the_transport_alone() -> None:
    """So is a transport without a socket."""
    raw = SimpleNamespace(fileno=lambda: 7)

    assert -1 == find_descriptor(cast("asyncio.Transport", Transport(socket=raw, ssl_object=object())))
    assert -1 == find_descriptor(cast("asyncio.Transport", Transport()))
    assert 7 == find_descriptor(cast("asyncio.Transport", Transport(socket=raw)))
    assert b"x" == write(Transport(), -1, b"x")
