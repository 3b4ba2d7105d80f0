"""A context store on a server, called from an event loop.

Each request in flight has a connection of its own, so a call that waits for a model holds up no other call. A few
idle connections are kept for the next requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from http.client import RemoteDisconnected
from typing import Any

from traceforge.context.api.error_responses import read_error
from traceforge.context.api.http_transport import (
    STALE_CONNECTION,
    EventReader,
    ServerAddress,
    can_send_twice,
    decode_answer,
    name_response,
)
from traceforge.context.api.operation_types import LIMIT_DEFAULT, Operation
from traceforge.context.api.operations import OPERATIONS_BY_NAME
from traceforge.context.model.objects import ResponseEvent
from traceforge.errors import StoreUnavailable
from traceforge.http.body_framing import InvalidBody, UntilCloseBody, open_body
from traceforge.http.message_head import HeadReader, InvalidHead, ResponseHead

IDLE_CONNECTIONS_MAX = 16
READ_BYTES = 1 << 16

_FAILURES = (OSError, InvalidHead, InvalidBody)


class AsyncHTTPTransport:
    """Requests to a server, awaited."""

    def __init__(self, address: ServerAddress, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []

    async def call(
        self, operation: Operation, ids: tuple[str, ...], body: bytes | None, key: str | None, limit: int,
        after: str | None,
    ) -> Any:  # noqa: ANN401  # fmt: skip
        """Send a request and read its response."""
        path, body = self._address.path_and_body(operation, ids, body, limit, after)
        request = self._encode_request(operation.method, path, body, self._address.headers(body, key))
        status, data = await self._send(operation.method, request, can_send_twice(operation, key))
        return decode_answer(operation, status, data)

    async def stream(self, operation: Operation, body: bytes, key: str | None) -> AsyncIterator[ResponseEvent]:
        """Send a request on a connection of its own and read the events as they arrive."""
        request = self._encode_request(
            operation.method, self._address.path(operation, ()), body, self._address.headers(body, key)
        )
        events = EventReader()
        connection: _Connection | None = None
        try:
            connection = await self._connect()
            head = await connection.send(operation.method, request)
            if head.status != operation.status:
                raise read_error(head.status, await connection.read_body())
            async for data in connection.iterate_body():
                for event in events.feed(data):
                    yield event
        except _FAILURES as exc:
            raise await self._broken_stream(exc, operation.method, events.response_id) from None
        finally:
            if connection is not None:
                connection.close()
        if not events.has_ended:
            broken = RemoteDisconnected("the stream broke off")
            raise await self._broken_stream(broken, operation.method, events.response_id)

    async def close(self) -> None:
        connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()
            await connection.wait_closed()

    def _encode_request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        address = self._address
        host = f"[{address.host}]" if ":" in address.host else address.host
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{address.port}" if address.port else f"Host: {host}"]
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join((*lines, "\r\n")).encode("ascii") + (body or b"")

    async def _send(self, method: str, request: bytes, can_retry: bool) -> tuple[int, bytes]:
        idle_connection = self._take_idle()
        try:
            return await self._exchange(idle_connection or await self._connect(), method, request)
        except _FAILURES as exc:
            if not can_retry and not (idle_connection is not None and isinstance(exc, STALE_CONNECTION)):
                raise self._address.no_answer(exc, method) from None
        try:
            return await self._exchange(await self._connect(), method, request)
        except _FAILURES as exc:
            raise self._address.no_answer(exc, method) from None

    async def _exchange(self, connection: _Connection, method: str, request: bytes) -> tuple[int, bytes]:
        try:
            head = await connection.send(method, request)
            data = await connection.read_body()
        except BaseException:  # A cancelled call too: its response would be read as that of the next request.
            connection.close()
            raise
        if head.keep_alive and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append(connection)
        else:
            connection.close()
        return head.status, data

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        address = self._address
        default_port = 443 if address.tls else 80
        async with asyncio.timeout(self._timeout_s):
            reader, writer = await asyncio.open_connection(
                address.host, address.port or default_port, ssl=address.tls
            )
        return _Connection(reader, writer, self._timeout_s)

    async def _broken_stream(self, exc: Exception, method: str, response_id: str | None) -> StoreUnavailable:
        """The error for a stream without an end.

        Raises:
            ContentPurged: what the response is about was purged meanwhile.
        """
        error = self._address.no_answer(exc, method)
        if response_id is None:
            return error
        with suppress(StoreUnavailable):
            await self.call(OPERATIONS_BY_NAME["get_response"], (response_id,), None, None, LIMIT_DEFAULT, None)
        return name_response(error, response_id)


class _Connection:
    """One connection: a request, then its response, then the next request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout_s: float) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._body = open_body(0)
        self._unread = b""  # Bytes after the head.

    @property
    def is_usable(self) -> bool:
        """Whether another request may be sent; a connection of a loop that has ended is of no use."""
        return self._loop is asyncio.get_running_loop() and not self._reader.at_eof() and not self._unread

    async def send(self, method: str, request: bytes) -> ResponseHead:
        """Send a request and read the head of its response."""
        self._writer.write(request)
        async with asyncio.timeout(self._timeout_s):
            await self._writer.drain()
        while True:
            head = ResponseHead(await self._read_head(), method)
            if head.status >= 200:
                self._body = open_body(head.length)
                return head

    async def read_body(self) -> bytes:
        """The complete body of the response."""
        return b"".join([data async for data in self.iterate_body()])

    async def iterate_body(self) -> AsyncIterator[bytes]:
        """The body of the response as it arrives."""
        body = self._body
        while not body.is_complete:
            data, self._unread = self._unread or await self._receive(), b""
            if not data:
                if isinstance(body, UntilCloseBody):
                    return
                raise ConnectionError("the connection closed in the middle of a response")
            self._unread = body.feed(data)
            for piece in body.payload:
                yield piece

    def close(self) -> None:
        with suppress(RuntimeError):  # Its loop has ended, and the connection with it.
            self._writer.close()

    async def wait_closed(self) -> None:
        with suppress(OSError, RuntimeError):
            await self._writer.wait_closed()

    async def _read_head(self) -> bytes:
        reader = HeadReader.for_response()
        while True:
            data, self._unread = self._unread or await self._receive(), b""
            if not data:
                raise RemoteDisconnected("the connection closed without a response")
            head = reader.feed(data)
            if head is not None:
                self._unread = reader.remainder
                return head

    async def _receive(self) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._reader.read(READ_BYTES)
        except TimeoutError:
            raise TimeoutError("timed out") from None
