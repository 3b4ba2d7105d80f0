"""Bodies on their way: each piece is handed on as it comes, and its bytes are told.

In: an iterator of pieces. Out: the same pieces, one by one, the same objects. Never: holds a piece back, joins or
cuts pieces, or asks for one before the application does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from .guarded_call import ANSWERED, LEFT, Told


class Count:
    """How many bytes of a response came, of how many that were announced ("" where it was not said)."""

    __slots__ = ("announced", "seen")

    def __init__(self, announced: str) -> None:
        self.announced = announced
        self.seen = 0

    @property
    def whole(self) -> bool:
        """Is it known that there is no more to come?"""
        return self.announced.isdigit() and int(self.announced) == self.seen


def arriving(pieces: Iterator[bytes], told: Told, count: Count) -> Iterator[bytes]:
    """The pieces of a response."""
    came = told.tap()
    try:
        for piece in pieces:
            count.seen += len(piece)
            try:
                came(piece)
            except Exception as exc:  # noqa: BLE001 (nothing of ours may reach the application)
                came = told.give_up(exc)
            yield piece
    except GeneratorExit:
        raise  # the application goes away: whoever closes the response says so
    except BaseException as exc:
        told.broke(exc)
        raise
    told.ended(ANSWERED)


class ArrivingAsync:
    """The pieces of a response, awaited."""

    def __init__(self, pieces: AsyncIterator[bytes], told: Told, count: Count) -> None:
        self._pieces = pieces
        self._told = told
        self._count = count

    def __aiter__(self) -> ArrivingAsync:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._pieces.__anext__()
        except StopAsyncIteration:
            self._told.ended(ANSWERED)
            raise
        except BaseException as exc:
            self._told.broke(exc)
            raise
        self._count.seen += len(piece)
        self._told.came(piece)
        return piece


def leaving(told: Told, count: Count) -> None:
    """The application closes a response: at its end if it had all the bytes that were announced, else before it."""
    if told.open:
        told.ended(ANSWERED if count.whole else LEFT)


def going_out(pieces: Iterator[Any], told: Told) -> Iterator[Any]:
    """The pieces of a request."""
    for piece in pieces:
        told.sent(piece.encode() if isinstance(piece, str) else bytes(piece))
        yield piece


async def going_out_async(pieces: AsyncIterator[Any], told: Told) -> AsyncIterator[Any]:
    """The pieces of a request, awaited."""
    async for piece in pieces:
        told.sent(bytes(piece))
        yield piece
