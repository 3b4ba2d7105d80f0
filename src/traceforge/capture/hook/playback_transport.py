"""A connection of aiohttp without a socket: a replayed response comes on it.

In: a response. Out: a `Connection` with aiohttp's own protocol and parser, and a transport that discards what is
written and delivers the response, chunk by chunk. Never: a socket.

A chunk is delivered when the one before has been read, so that chunks stay apart as they were recorded. A reader that
does something else in between is waited for during a few turns of the event loop, as on a network.
"""

from __future__ import annotations

import io
from typing import Any

from .guarded_call import GuardedCall
from .replayed_response import ReplayedResponse, http1_chunks

TURNS_MAX = 50  # of the event loop, for which a chunk waits until the one before has been read


async def read_body(module: Any, req: Any) -> bytes:
    """The whole body of a request, which can then still be sent."""
    body = req.body
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    writer = _BodyCollector()
    await body.write(writer)
    data = b"".join(writer.chunks)
    if not isinstance(body, module.payload.BytesPayload):  # it may be readable only once
        req._body = module.payload.BytesIOPayload(io.BytesIO(data))
    return data


class _BodyCollector:
    """What a payload takes for the writer of a connection."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    async def write(self, chunk: Any, *args: Any, **options: Any) -> None:
        self.chunks.append(bytes(chunk))

    async def write_eof(self, chunk: Any = b"") -> None:
        self.chunks.append(bytes(chunk))

    async def drain(self) -> None:
        pass


class PlaybackTransport:
    """The transport, and what aiohttp takes for the connector behind it."""

    force_close = False

    def __init__(self, response: ReplayedResponse, method: str, call: GuardedCall) -> None:
        self._chunks = http1_chunks(method, response)
        self._is_cut = response.is_cut
        self._is_left_early = response.is_left_early
        self._hold_s = response.hold_s
        self._call = call
        self._protocol: Any = None
        self._loop: Any = None
        self._began = 0.0
        self._delivered = 0  # chunks
        self._turns = 0
        self._is_paused = False
        self._scheduled: Any = None
        self._is_closing = False

    def connect(self, connector: Any, req: Any) -> Any:
        """The connection on which aiohttp sends a request."""
        self._loop = req.loop
        self._protocol = connector.ResponseHandler(loop=self._loop)
        self._protocol.connection_made(self)
        self._began = self._loop.time()
        if self._hold_s:  # Until then, aiohttp's own timeouts end the call, or the application does.
            self._scheduled = self._loop.call_later(self._hold_s, self._end_hold)
        else:
            self._scheduled = self._loop.call_soon(self._deliver)
        return connector.Connection(self, req.connection_key, self._protocol, self._loop)

    def _deliver(self) -> None:
        """Deliver the next chunk, if it is due and the one before has been read."""
        self._scheduled = None
        if self._is_closing or self._is_paused:
            return
        if self._delivered == len(self._chunks):
            if self._is_left_early:
                self._break_off_reader()
            elif self._is_cut and self._has_unread and self._turns < TURNS_MAX:
                self._turns += 1  # aiohttp drops what was not read yet.
                self._scheduled = self._loop.call_soon(self._deliver)
            elif self._is_cut:
                self.close()
            return
        due_s, data = self._chunks[self._delivered]
        wait_s = self._began + due_s - self._loop.time()
        if due_s and wait_s > 0:
            self._scheduled = self._loop.call_later(wait_s, self._deliver)
        elif self._has_unread and self._turns < TURNS_MAX:
            self._turns += 1
            self._scheduled = self._loop.call_soon(self._deliver)
        else:
            self._delivered += 1
            self._turns = 0
            self._protocol.data_received(data)
            if self._scheduled is None:
                self._scheduled = self._loop.call_soon(self._deliver)

    def _end_hold(self) -> None:
        """The application did not cancel the call: deliver the refusal."""
        self._call.count_wait_on()
        self._deliver()

    def await_more(self) -> None:
        """The application is about to wait for more: at the end of a stream that it left early, it is broken off."""
        if self._is_left_early and self._delivered == len(self._chunks) and self._scheduled is None:
            self._scheduled = self._loop.call_soon(self._deliver)

    def _break_off_reader(self) -> None:
        """Break off if the application waits for more; otherwise it is left to close the response, as it did."""
        payload = getattr(self._protocol, "_payload", None)
        if getattr(payload, "_waiter", None) is not None:
            self._call.count_read_on()
            self.close()

    @property
    def _has_unread(self) -> bool:
        """Whether the application has not read everything yet, or does not wait for the head yet."""
        protocol = self._protocol
        if getattr(protocol, "_parser", None) is None:
            return self._delivered > 0
        payload = getattr(protocol, "_payload", None)
        return bool(getattr(protocol, "_buffer", None)) or bool(getattr(payload, "_buffer", None))

    # -- as aiohttp's connector

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        self.close()

    # -- as a transport of asyncio

    def write(self, data: Any) -> None:
        pass  # The request was read before.

    def writelines(self, chunks: Any) -> None:
        pass

    def write_eof(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close it, and tell the protocol, as any transport does."""
        if not self._is_closing:
            self._is_closing = True
            if self._scheduled is not None:
                self._scheduled.cancel()
            if not self._loop.is_closed():
                self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._scheduled is None and not self._is_closing:
                self._scheduled = self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return not self._is_paused

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default
