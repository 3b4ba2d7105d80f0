"""The hook for httpx and httpx2: their transports, sync and async.

In: the client module, whichever of the two. Out: `HTTPTransport.handle_request` and `handle_async_request` of its
twin, which tell what they see. Never: touches the application's request: where something differs on the wire (our
headers taken out, a body that is watched as it streams), a copy is sent. A call that is played gets a response of the
client's own, and no connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from . import dispatch
from .body_streams import ArrivingAsync, Count, arriving, going_out, going_out_async, leaving
from .guarded_call import Told, length_of, pairs, safely
from .patches import Patches
from .replayed_response import Answer, in_time, in_time_async

ADDRESSES_MAX = 1000  # that are remembered: to put one together takes as long as to look an answer up
_EXTENSIONS = {"http_version": b"HTTP/1.1"}
_addresses: dict[Any, str] = {}  # by the parts that the client keeps


def hook(module: Any, patches: Patches) -> None:
    """Watch the transports of `module`."""
    relay, tee = _stream_classes(module)
    played, played_async = _played_classes(module)

    def make(send: Any) -> Any:
        def handle_request(self: Any, request: Any) -> Any:
            try:
                url = _addresses[request.url._uri_reference]
            except (AttributeError, KeyError, TypeError):
                url = _read_address(request.url)
            told = dispatch.begin(request.method, url, request.headers.raw)
            if told is None:
                return send(self, request)
            if told.plays:
                content = getattr(request, "_content", None)
                body = b"".join(request.stream) if content is None else content
                answer = told.play(body)
                if answer is not None:
                    return _respond(module, played, answer, told)
                request = _whole(module, request, body)
            try:
                response = send(self, safely(request, _outgoing, module, tee, request, told))
            except BaseException as exc:
                told.failed(exc)
                raise
            return safely(response, _incoming, relay, response, told)

        return handle_request

    patches.wrap(module.HTTPTransport, "handle_request", make)
    relay_async, tee_async = _async_stream_classes(module)

    def make_async(send: Any) -> Any:
        async def handle_async_request(self: Any, request: Any) -> Any:
            try:
                url = _addresses[request.url._uri_reference]
            except (AttributeError, KeyError, TypeError):
                url = _read_address(request.url)
            told = dispatch.begin(request.method, url, request.headers.raw)
            if told is None:
                return await send(self, request)
            if told.plays:
                content = getattr(request, "_content", None)
                body = b"".join([piece async for piece in request.stream]) if content is None else content
                answer = told.play(body)
                if answer is not None:
                    return _respond(module, played_async, answer, told)
                request = _whole(module, request, body)
            try:
                response = await send(self, safely(request, _outgoing, module, tee_async, request, told))
            except BaseException as exc:
                told.failed(exc)
                raise
            return safely(response, _incoming, relay_async, response, told)

        return handle_async_request

    patches.wrap(module.AsyncHTTPTransport, "handle_async_request", make_async)


def _read_address(url: Any) -> str:
    """The text of an address. One with a query, which could hold a key, is not remembered."""
    text = str(url)
    parts = getattr(url, "_uri_reference", None)
    if isinstance(parts, tuple) and "?" not in text and len(_addresses) < ADDRESSES_MAX:
        _addresses[parts] = text
    return text


def _respond(module: Any, stream: type[Any], answer: Any, told: Told) -> Any:
    """The response; where it cannot be made, one that says so."""
    try:
        answer = answer if type(answer) is Answer else Answer(*answer)
        made = answer.made.get(module)
        if made is None or made[1] is None:
            return _response(module, stream, answer)
        return module.Response(answer.status, headers=made[0], stream=made[1], extensions=_EXTENSIONS.copy())
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return _response(module, stream, told.refuse(exc))


def _response(module: Any, stream: type[Any], answer: Answer) -> Any:
    made = answer.made.get(module)
    if made is None:
        made = answer.made[module] = _make(module, answer)
    headers, body = made
    body = stream(answer) if body is None else body
    return module.Response(answer.status, headers=headers, stream=body, extensions=_EXTENSIONS.copy())


def _make(module: Any, answer: Answer) -> tuple[Any, Any]:
    """What every response with this answer is made of: its headers, which each copies, and a body that is whole."""
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    whole = len(answer.chunks) == 1 and not answer.cut and not answer.pace
    return module.Headers(headers), module.ByteStream(answer.chunks[0][1]) if whole else None


def _whole(module: Any, request: Any, body: bytes) -> Any:
    """The request with a body that was read already."""
    copy = object.__new__(type(request))
    vars(copy).update(vars(request))
    copy._content = body
    copy.stream = module.ByteStream(body)
    return copy


def _outgoing(module: Any, tee: type[Any], request: Any, told: Told) -> Any:
    """The request to send: the application's own, or a copy of it where something must differ."""
    content = vars(request).get("_content")
    if content is not None:
        told.sent(content)
    ours = len(told.headers) != len(request.headers.raw)
    if content is not None and not ours:
        return request
    copy = object.__new__(type(request))
    vars(copy).update(vars(request))
    if ours:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in told.headers]
        copy.headers = module.Headers(raw, encoding=request.headers.encoding)
    if content is None:
        copy.stream = tee(request.stream, told)
    return copy


def _incoming(relay: type[Any], response: Any, told: Told) -> Any:
    """The application's response, with a body that tells what it hands on."""
    headers = pairs(response.headers.raw)
    told.answered(response.status_code, headers)
    count = Count(length_of(headers))
    response.stream = relay(response.stream, told, count)
    for name, value in told.reply_headers:
        response.headers[name] = value
    return response


def _played_classes(module: Any) -> tuple[type[Any], type[Any]]:
    def broken() -> Exception:
        told = "peer closed connection without sending complete message body (incomplete chunked read)"
        error: Exception = module.RemoteProtocolError(told)
        return error

    class Played(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, answer: Answer) -> None:
            self._answer = answer

        def __iter__(self) -> Iterator[bytes]:
            yield from in_time(self._answer)
            if self._answer.cut:
                raise broken()

    class PlayedAsync(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, answer: Answer) -> None:
            self._answer = answer

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in in_time_async(self._answer):
                yield piece
            if self._answer.cut:
                raise broken()

    return Played, PlayedAsync


def _stream_classes(module: Any) -> tuple[type[Any], type[Any]]:
    class Relay(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, told: Told, count: Count) -> None:
            self._stream = stream
            self._told = told
            self._count = count

        def __iter__(self) -> Iterator[bytes]:
            return arriving(iter(self._stream), self._told, self._count)

        def close(self) -> None:
            leaving(self._told, self._count)
            self._stream.close()

        def __del__(self) -> None:
            self._told.dropped()

    class Tee(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, told: Told) -> None:
            self._stream = stream
            self._told = told

        def __iter__(self) -> Iterator[bytes]:
            return going_out(iter(self._stream), self._told)

        def close(self) -> None:
            self._stream.close()

    return Relay, Tee


def _async_stream_classes(module: Any) -> tuple[type[Any], type[Any]]:
    class Relay(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, told: Told, count: Count) -> None:
            self._stream = stream
            self._told = told
            self._count = count

        def __aiter__(self) -> AsyncIterator[bytes]:
            return ArrivingAsync(self._stream.__aiter__(), self._told, self._count)

        async def aclose(self) -> None:
            leaving(self._told, self._count)
            await self._stream.aclose()

        def __del__(self) -> None:
            self._told.dropped()

    class Tee(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, told: Told) -> None:
            self._stream = stream
            self._told = told

        def __aiter__(self) -> AsyncIterator[bytes]:
            return going_out_async(self._stream.__aiter__(), self._told)

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Relay, Tee
