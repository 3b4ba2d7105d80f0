"""`web/wire.py`: a head and a body leave in one piece."""

from __future__ import annotations

import asyncio
from typing import cast

from traceforge.web.coalescing_transport import CoalescingTransport

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Line:
    """The far end of a transport: it notes what leaves, and when it is closed."""

    def __init__(self) -> None:
        self.left: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        """Note what leaves."""
        assert not self.closed
        self.left.append(data)

    def close(self) -> None:
        """No more."""
        self.closed = True

    def is_closing(self) -> bool:
        """Was it closed?"""
        return self.closed

    def get_extra_info(self, name: str) -> str:
        """Something of its own."""
        return f"about {name}"


def held(line: Line) -> CoalescingTransport:
    """A wire on that line."""
    return CoalescingTransport(cast("asyncio.Transport", line), asyncio.get_running_loop())


def test_a_body_takes_its_head_along_and_leaves_at_once() -> None:
    """They are one write, and the only one."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(HEAD)
        assert [] == line.left
        wire.write(b"body")
        assert [HEAD + b"body"] == line.left
        wire.write(b"more")
        assert [HEAD + b"body", b"more"] == line.left
        await asyncio.sleep(0)
        assert 2 == len(line.left)

    asyncio.run(work())


def test_a_head_that_no_body_follows_leaves_at_the_end_of_the_turn() -> None:
    """A stream whose first piece takes long has begun; so has the next answer."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        for count in (1, 2):
            wire.write(HEAD)
            await asyncio.sleep(0)
            assert [HEAD] * count == line.left

    asyncio.run(work())


def test_what_is_held_leaves_before_the_end() -> None:
    """Who closes has said all."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(HEAD)
        wire.close()
        assert ([HEAD], True) == (line.left, line.closed)
        await asyncio.sleep(0)
        assert [HEAD] == line.left

    asyncio.run(work())


def test_what_is_held_when_the_client_has_gone_is_dropped() -> None:
    """A closed transport is not written to."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(HEAD)
        line.close()
        wire.write(b"nobody reads this")
        await asyncio.sleep(0)
        assert [] == line.left

    asyncio.run(work())


def test_all_else_is_the_transports_own() -> None:
    """What it does not know, it asks for."""

    async def work() -> None:
        assert "about peername" == held(Line()).get_extra_info("peername")

    asyncio.run(work())
