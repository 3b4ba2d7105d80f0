"""Bodies on their way: each chunk is handed on as it comes, and reported to the call.

In: an iterator of chunks. Out: the same chunks, one by one, the same objects. Never: holds a chunk back, joins or
cuts chunks, or asks for one before the application does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from .guarded_call import GuardedCall
from .in_flight_call import ANSWERED, CLIENT_LEFT


class BodyLength:
    """How many bytes of a response came, of how many that `Content-Length` announced ("" where there is none)."""

    __slots__ = ("announced", "received")

    def __init__(self, announced: str) -> None:
        self.announced = announced
        self.received = 0

    @property
    def is_complete(self) -> bool:
        """Whether all announced bytes came; False where none were announced."""
        return self.announced.isdigit() and int(self.announced) == self.received


def watch_response(chunks: Iterator[bytes], call: GuardedCall, length: BodyLength) -> Iterator[bytes]:
    try:
        for chunk in chunks:
            length.received += len(chunk)
            call.add_response_chunk(chunk)
            yield chunk
    except GeneratorExit:
        raise  # The application goes away: `end_on_close` says so.
    except BaseException as exc:
        call.end_on_read_error(exc)
        raise
    call.end(ANSWERED)


class WatchedAsyncResponse:
    """As `watch_response`; a class, because an async generator that is dropped is closed in another task."""

    def __init__(self, chunks: AsyncIterator[bytes], call: GuardedCall, length: BodyLength) -> None:
        self._chunks = chunks
        self._call = call
        self._length = length

    def __aiter__(self) -> WatchedAsyncResponse:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._chunks.__anext__()
        except StopAsyncIteration:
            self._call.end(ANSWERED)
            raise
        except BaseException as exc:
            self._call.end_on_read_error(exc)
            raise
        self._length.received += len(chunk)
        self._call.add_response_chunk(chunk)
        return chunk


def end_on_close(call: GuardedCall, length: BodyLength) -> None:
    """The application closes a response: at its end if it had all announced bytes, else before it."""
    if call.is_open:
        call.end(ANSWERED if length.is_complete else CLIENT_LEFT)


def watch_request(chunks: Iterator[Any], call: GuardedCall) -> Iterator[Any]:
    for chunk in chunks:
        call.add_request_chunk(chunk.encode() if isinstance(chunk, str) else bytes(chunk))
        yield chunk


async def watch_request_async(chunks: AsyncIterator[Any], call: GuardedCall) -> AsyncIterator[Any]:
    async for chunk in chunks:
        call.add_request_chunk(bytes(chunk))
        yield chunk
