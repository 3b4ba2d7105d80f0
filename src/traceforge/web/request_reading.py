"""What comes in: who may, and the body of a request.

In: the head and the pieces of a request. Out: its headers, its body, or the refusal. Never: lets a page of another
origin in, reads a body that is too large to its end, or takes a body for JSON that does not say that it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from typing import Any

from traceforge.context.api.error_responses import ErrorResponse
from traceforge.http.access import AccessDenied, AccessPolicy, is_json_content_type

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

BODY_BYTES_MAX = 2 << 20
BODY_SECONDS_MAX = 60.0  # For a whole body; who is slower holds a connection for nothing.


def read_headers(scope: Scope) -> dict[str, str]:
    """The headers by their lower-case names; of several of one name, all, joined as HTTP says."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def check_host_and_origin(guard: AccessPolicy, headers: dict[str, str]) -> None:
    """Is it meant for this server, and does it come from nobody's page but its own?

    Raises:
        ErrorResponse: it is not.
    """
    try:
        guard.check(headers)
    except AccessDenied as exc:
        raise ErrorResponse(exc.status, "other_host" if exc.status == 421 else "other_origin", str(exc)) from None


def content_type_problem(headers: dict[str, str]) -> ErrorResponse | None:
    """A body is JSON in UTF-8 and says so: the refusal where it does not, or is compressed."""
    if not is_json_content_type(headers.get("content-type", "")):
        message = "the body must be application/json in UTF-8"
        return ErrorResponse(415, "unsupported_media_type", message, param="Content-Type")
    if headers.get("content-encoding", "identity").lower() != "identity":
        message = "a compressed body is not read here"
        return ErrorResponse(415, "unsupported_media_type", message, param="Content-Encoding")
    return None


async def read_body(headers: dict[str, str], receive: Receive) -> bytes:
    """The whole body.

    Raises:
        ErrorResponse: it is larger than BODY_BYTES_MAX, which is said as soon as it is known, or came too slowly.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > BODY_BYTES_MAX:
        raise too_large()
    if length == "0" or (not length and "transfer-encoding" not in headers):
        return b""
    pieces: list[bytes] = []
    size = 0
    until: float | None = None
    try:
        while True:
            begun = receive().__await__()
            try:  # What is there already is had without a clock.
                waits_for = next(begun)
            except StopIteration as there:
                message: Message = there.value
            else:
                until = until or asyncio.get_running_loop().time() + BODY_SECONDS_MAX
                async with asyncio.timeout_at(until):
                    message = await _Rest(begun, waits_for)
            if message["type"] == "http.disconnect":
                raise Disconnected
            piece = message.get("body", b"")
            size += len(piece)
            if size > BODY_BYTES_MAX:
                raise too_large()
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)
    except TimeoutError:
        raise ErrorResponse(
            408, "body_timeout", f"the body did not come within {BODY_SECONDS_MAX:.0f} seconds"
        ) from None


class _Rest:
    """What is left of something awaited, after its first step."""

    def __init__(self, begun: Generator[Any, Any, Message], waits_for: object) -> None:
        self._begun = begun
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Message]:
        try:
            yield self._waits_for
        except BaseException as exc:  # noqa: BLE001 (it was cancelled: so is what has begun)
            yield self._begun.throw(exc)
        return (yield from self._begun)


class Disconnected(Exception):
    """The client left before it had said what it wants."""


def too_large() -> ErrorResponse:
    """A body that is too large."""
    return ErrorResponse(413, "body_too_large", f"the body is larger than {BODY_BYTES_MAX} bytes")
