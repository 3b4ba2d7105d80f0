"""`web/wire.py`: what is written in one turn leaves at its end, in one piece."""

from __future__ import annotations

import asyncio
from typing import cast

from traceforge.web.wire import HELD_BYTES_MAX, Held


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


def held(line: Line) -> Held:
    """A wire on that line."""
    return Held(cast("asyncio.Transport", line), asyncio.get_running_loop())


def test_what_is_written_in_one_turn_leaves_at_its_end_in_one_piece() -> None:
    """A head and a body are one write; the next turn has its own."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(b"head ")
        wire.write(b"body")
        assert [] == line.left
        await asyncio.sleep(0)
        assert [b"head body"] == line.left
        wire.write(b"more")
        await asyncio.sleep(0)
        assert [b"head body", b"more"] == line.left

    asyncio.run(work())


def test_much_leaves_at_once_and_only_once() -> None:
    """What fills the hold does not wait."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(b"head ")
        wire.write(bytes(HELD_BYTES_MAX))
        assert [b"head " + bytes(HELD_BYTES_MAX)] == line.left
        wire.write(b"tail")
        await asyncio.sleep(0)
        assert [b"tail"] == line.left[1:]

    asyncio.run(work())


def test_what_is_held_leaves_before_the_end() -> None:
    """Who closes has said all."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(b"last words")
        wire.close()
        assert ([b"last words"], True) == (line.left, line.closed)
        await asyncio.sleep(0)
        assert [b"last words"] == line.left

    asyncio.run(work())


def test_what_is_held_when_the_client_has_gone_is_dropped() -> None:
    """A closed transport is not written to."""

    async def work() -> None:
        line = Line()
        wire = held(line)
        wire.write(b"nobody reads this")
        line.close()
        await asyncio.sleep(0)
        assert [] == line.left

    asyncio.run(work())


def test_all_else_is_the_transports_own() -> None:
    """What it does not know, it asks for."""

    async def work() -> None:
        assert "about peername" == held(Line()).get_extra_info("peername")

    asyncio.run(work())
