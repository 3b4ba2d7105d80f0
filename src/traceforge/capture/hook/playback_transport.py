"""A connection of aiohttp that leads nowhere: a recorded answer comes on it.

In: an answer. Out: a `Connection` with aiohttp's own protocol and parser, and a transport that takes what is written
and brings the answer, piece by piece. Never: a socket.

A piece is brought when the one before has been read, so that pieces stay apart as they were; a reader that does
something else in between is waited for a few turns of the event loop, as a network would.
"""

from __future__ import annotations

import io
from typing import Any

from .replayed_response import Answer, wire_pieces

TURNS_MAX = 50  # of the event loop, for which a piece waits until the one before has been read


async def read_body(module: Any, req: Any) -> bytes:
    """The whole body of a request, which can then still be sent."""
    body = req.body
    if isinstance(body, (bytes, bytearray)):
        return bytes(body)
    writer = _Collector()
    await body.write(writer)
    whole = b"".join(writer.pieces)
    if not isinstance(body, module.payload.BytesPayload):  # it may be readable only once
        req._body = module.payload.BytesIOPayload(io.BytesIO(whole))
    return whole


class _Collector:
    """What a payload takes for the writer of a connection."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def write(self, chunk: Any, *args: Any, **options: Any) -> None:
        """A piece."""
        self.pieces.append(bytes(chunk))

    async def write_eof(self, chunk: Any = b"") -> None:
        """The last one."""
        self.pieces.append(bytes(chunk))

    async def drain(self) -> None:
        """It has always gone."""


class Nowhere:
    """The transport, and what aiohttp takes for the connector behind it."""

    force_close = False

    def __init__(self, answer: Answer, method: str) -> None:
        self._pieces = wire_pieces(method, answer)
        self._cut = answer.cut
        self._protocol: Any = None
        self._loop: Any = None
        self._began = 0.0
        self._place = 0
        self._turns = 0
        self._paused = False
        self._waiting: Any = None
        self._closing = False

    def connection(self, connector: Any, req: Any) -> Any:
        """What a request is sent on."""
        self._loop = req.loop
        self._protocol = connector.ResponseHandler(loop=self._loop)
        self._protocol.connection_made(self)
        self._began = self._loop.time()
        self._waiting = self._loop.call_soon(self._bring)
        return connector.Connection(self, req.connection_key, self._protocol, self._loop)

    def _bring(self) -> None:
        """Bring the next piece, if it is due and the one before has been read."""
        self._waiting = None
        if self._closing or self._paused:
            return
        if self._place == len(self._pieces):
            if self._cut:
                self.close()
            return
        due, data = self._pieces[self._place]
        left = self._began + due - self._loop.time()
        if due and left > 0:
            self._waiting = self._loop.call_later(left, self._bring)
        elif self._unread and self._turns < TURNS_MAX:
            self._turns += 1
            self._waiting = self._loop.call_soon(self._bring)
        else:
            self._place += 1
            self._turns = 0
            self._protocol.data_received(data)
            if self._waiting is None:
                self._waiting = self._loop.call_soon(self._bring)

    @property
    def _unread(self) -> bool:
        """Is something there that nobody has read yet? A head that nobody waits for yet counts as well."""
        protocol = self._protocol
        if getattr(protocol, "_parser", None) is None:
            return self._place > 0
        payload = getattr(protocol, "_payload", None)
        return bool(getattr(protocol, "_buffer", None)) or bool(getattr(payload, "_buffer", None))

    # -- as aiohttp's connector

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        self.close()

    # -- as a transport of asyncio

    def write(self, data: Any) -> None:
        """The request is known already."""

    def writelines(self, pieces: Any) -> None:
        """So is this."""

    def write_eof(self) -> None:
        """And its end."""

    def can_write_eof(self) -> bool:
        """As a socket can."""
        return True

    def is_closing(self) -> bool:
        """Is it over?"""
        return self._closing

    def close(self) -> None:
        """It is over, and the protocol is told as any transport would."""
        if not self._closing:
            self._closing = True
            if self._waiting is not None:
                self._waiting.cancel()
            if not self._loop.is_closed():
                self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """The reader has enough."""
        self._paused = True

    def resume_reading(self) -> None:
        """It wants more."""
        if self._paused:
            self._paused = False
            if self._waiting is None and not self._closing:
                self._waiting = self._loop.call_soon(self._bring)

    def is_reading(self) -> bool:
        """Does it?"""
        return not self._paused

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """There is no socket to know anything about."""
        return default
