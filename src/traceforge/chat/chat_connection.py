"""A connection of a client, and the requests that come over it, one after the other.

In: bytes of the client. Out: one answer to each request. Never: reads on where the next request could begin in two
places, lets an unfinished request wait for ever, or goes on with a turn whose client has left: the model's answer is
then dropped, and the session remembers nothing of it.

It is made of the proxy's own pieces for heads and bodies; a framework would be the first dependency of the base
install that only serves pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from httptools import HttpRequestParser

from traceforge.chat.chat_admission import BODY_BYTES_MAX, ROUTES, admit, too_large
from traceforge.chat.chat_errors import Code, Refusal
from traceforge.http.access import AccessPolicy
from traceforge.http.body_framing import InvalidBody, MessageBody, open_body
from traceforge.http.message_head import REQUEST_BYTES_MAX, HeadReader, InvalidHead, RequestHead
from traceforge.http.plain_response import CONTINUE, JSON_TYPE, PlainResponse

REQUEST_SECONDS_MAX = 30.0  # For a head and its body to come.
IDLE_SECONDS_MAX = 75.0
LINGER_SECONDS_MAX = 5.0  # How long the rest of a refused body is read, so that the refusal can be.
LINGER_BYTES_MAX = 4 << 20
AHEAD_BYTES_MAX = 64 << 10  # Of requests sent ahead; beyond it the client is read no further.

_HEAD_CODES = {431: Code.HEAD_TOO_LARGE, 505: Code.HTTP_VERSION}
_NOTHING = object()  # llhttp calls nobody back: it only judges.


Serve = Callable[[str, bytes], Awaitable[PlainResponse]]


class Connection(asyncio.Protocol):
    """One connection; requests are served in turn."""

    transport: asyncio.Transport

    def __init__(
        self, serve: Serve, guard: AccessPolicy, everyone: set[Connection], failed: Callable[[Exception], None]
    ) -> None:
        self._serve = serve
        self._guard = guard
        self._everyone = everyone
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._reader: HeadReader | None = None
        self._head: RequestHead | None = None
        self._path = ""
        self._bodiless = False  # HEAD
        self._body: MessageBody | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._ahead = b""
        self._paused = False
        self._lingered = -1  # Bytes of a refused body that were read; -1: nothing was refused.
        self._last = False  # The connection closes after this answer.
        self._full = False  # The client has not taken what was written.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self.transport = cast("asyncio.Transport", transport)
        self._everyone.add(self)
        self._due(REQUEST_SECONDS_MAX)

    def connection_lost(self, exc: Exception | None) -> None:
        """It went; nobody is left to answer."""
        self._everyone.discard(self)
        self._due(0)
        if self._task is not None:
            self._task.cancel()

    def close_after(self) -> None:
        """The server stops: an idle connection goes now, another one after its answer."""
        self._last = True
        if self._task is None:
            self.transport.close()

    # -- what comes in

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._lingered >= 0:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES_MAX:
                self.transport.abort()
        elif self._task is not None or self._full:
            self._ahead += data
            self._steer()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        try:
            if self._head is None:
                data = self._read_head(data)
            if self._head is not None:
                self._read_body(data)
        except InvalidHead as exc:
            self._refuse(Refusal(_HEAD_CODES.get(exc.status, Code.MALFORMED_HTTP), str(exc)))
        except InvalidBody as exc:
            self._refuse(Refusal(Code.MALFORMED_HTTP, str(exc)))
        except Refusal as exc:
            self._refuse(exc)

    def _read_head(self, data: bytes) -> bytes:
        if self._reader is None:
            data = data.lstrip(b"\r\n")  # Empty lines in front of a request are allowed, and mean nothing.
            if not data:
                return b""
            self._reader = HeadReader(HttpRequestParser(_NOTHING), REQUEST_BYTES_MAX)
            self._bodiless = False
            self._due(REQUEST_SECONDS_MAX)
        found = self._reader.feed(data)
        if found is None:
            return b""
        rest, self._reader = self._reader.remainder, None
        head = RequestHead(found)
        self._last = self._last or not head.keep_alive
        self._bodiless = head.method == "HEAD"
        self._path = admit(self._guard, head)
        self._head, self._body, self._pieces, self._size = head, open_body(head.length), [], 0
        if (
            not rest
            and head.length
            and head.http_minor
            and head.inspected.get("expect", "").lower() == "100-continue"
        ):
            self.transport.write(CONTINUE)
        return rest

    def _read_body(self, data: bytes) -> None:
        body = self._body
        assert body is not None
        if data and not body.is_complete:
            data = body.feed(data)
            self._pieces += body.payload
            self._size += sum(map(len, body.payload))
            if self._size > BODY_BYTES_MAX:
                raise too_large()
        if body.is_complete:
            self._ahead, self._head, self._body = data, None, None
            self._due(0)
            self._task = self._loop.create_task(self._answer(self._path, b"".join(self._pieces)))

    # -- what goes out

    async def _answer(self, path: str, body: bytes) -> None:
        try:
            served = await self._serve(path, body)
        except Refusal as exc:
            served = _refused(exc)
        except Exception as exc:  # noqa: BLE001 (a mistake of ours ends one request, and says nothing of its content)
            self._failed(exc)
            served = _refused(Refusal(Code.INTERNAL_ERROR, f"internal error: {type(exc).__name__}"))
        self._task = None
        self._write(served)
        self._due(IDLE_SECONDS_MAX)
        if self._last:
            self.transport.close()
        elif not self._full:
            self._next()

    def _next(self) -> None:
        data, self._ahead = self._ahead, b""
        if data:
            self._read(data)
        self._steer()

    def _steer(self) -> None:
        """Read on, unless too much was sent ahead."""
        pause = len(self._ahead) > AHEAD_BYTES_MAX
        if pause is not self._paused and not self.transport.is_closing():
            self._paused = pause
            if pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close: where the next request would begin is not known, or would be far away."""
        self._last = True
        self._write(_refused(refusal))
        self._lingered = len(self._ahead)
        self._ahead = b""
        self._due(LINGER_SECONDS_MAX)
        if not self.transport.is_closing():
            self.transport.write_eof()

    def _write(self, served: PlainResponse) -> None:
        if not self.transport.is_closing():
            self.transport.write(served.to_bytes(close=self._last, bodiless=self._bodiless))

    def pause_writing(self) -> None:
        """The client takes its answers slowly: no further request is read."""
        self._full = True

    def resume_writing(self) -> None:
        """It has taken them."""
        self._full = False
        if self._task is None and self._lingered < 0 and not self.transport.is_closing():
            self._next()

    # -- what is due

    def _due(self, seconds: float) -> None:
        """Something must happen within so many seconds; 0: nothing is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._expire) if seconds else None

    def _expire(self) -> None:
        if self._lingered >= 0 or self._full or self.transport.is_closing():
            self.transport.abort()  # It was told, and does not listen.
        elif self._reader is not None or self._head is not None:
            self._refuse(Refusal(Code.TOO_SLOW, f"the request did not come within {REQUEST_SECONDS_MAX:g} seconds"))
        else:
            self.transport.close()


def _refused(refusal: Refusal) -> PlainResponse:
    allowed = ("Allow: " + ", ".join(sorted({*ROUTES.values(), "HEAD"})),) if refusal.status == 405 else ()
    return PlainResponse(refusal.status, JSON_TYPE, refusal.body(), allowed)
