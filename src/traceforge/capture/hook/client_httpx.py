"""The hook for httpx and httpx2: their transports, sync and async.

In: the client module, whichever of the two. Out: `HTTPTransport.handle_request` and its async twin, which report what
they see. Never: changes the application's request: where something differs on the wire (our headers taken out, a body
that is watched as it streams), a copy is sent. In a replay, the whole request body is read first. A call that is
replayed gets a response of the client's own classes, and no connection.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

from . import client_mocks, dispatch
from .body_streams import (
    BodyLength,
    WatchedAsyncResponse,
    end_on_close,
    watch_request,
    watch_request_async,
    watch_response,
)
from .guarded_call import GuardedCall, call_safely, decode_headers, find_content_length
from .held_calls import READ_TIMED_OUT, hold_call, hold_call_async, plan_hold
from .other_websockets import check_socket
from .patches import Patches
from .real_address import find_real_url
from .replayed_response import ReplayedResponse, paced_chunks, paced_chunks_async

_HTTPCORE_STUBS = "vcr.stubs.httpcore_stubs"  # vcrpy 8.0 and 8.1 see calls below the transports


def hook(module: Any, patches: Patches) -> None:
    """Watch the transports of `module`."""
    _hook_sync(module, patches)
    _hook_async(module, patches)
    client_mocks.hook_mock_transport(module, patches)


def _find_safe_url(transport: Any, request: Any) -> str:
    url: str = call_safely("", _find_url, transport, request)
    return url or str(request.url)


def _find_url(transport: Any, request: Any) -> str:
    """The URL as it is sent: the extension `target` replaces its path and query."""
    target = getattr(request, "extensions", {}).get("target")
    url = str(request.url)
    if target:
        text = target.decode("latin-1") if isinstance(target, bytes) else str(target)
        url = f"{request.url.scheme}://{request.url.netloc.decode('latin-1')}/{text.removeprefix('/')}"
    pool = getattr(transport, "_pool", None)
    proxy_url = getattr(pool, "_proxy_url", None)
    proxy = bytes(proxy_url).decode("latin-1") if proxy_url is not None else ""
    return find_real_url(url, unix_socket=getattr(pool, "_uds", None), proxy=proxy)


def _hook_sync(module: Any, patches: Patches) -> None:
    response_stream, request_stream = _make_sync_streams(module)
    replayed_stream, _ = _make_replayed_streams(module)

    def wrap(send: Any) -> Any:
        def handle_request(self: Any, request: Any) -> Any:
            url = _find_safe_url(self, request)
            if _opens_websocket(module, request, url):
                return send(self, request)
            call = dispatch.begin_call(
                request.method, url, request.headers.raw, is_above_vcrpy=_HTTPCORE_STUBS in sys.modules
            )
            if call is None:
                return send(self, request)
            if call.replays_first:
                content = getattr(request, "_content", None)
                body = b"".join(request.stream) if content is None else content
                replayed = call.replay(body)
                if replayed is not None:
                    hold = call_safely(None, plan_hold, replayed, _read_timeout(request))
                    if hold is not None and hold_call(hold, call):
                        raise module.ReadTimeout(READ_TIMED_OUT)
                    return _make_response(module, replayed_stream, replayed, call)
                request = _with_body(module, request, body)
            try:
                response = send(self, call_safely(request, _watch_request, module, request_stream, request, call))
            except BaseException as exc:
                call.end_unanswered(exc, module.ReadTimeout)
                raise
            return call_safely(response, _watch_response, response_stream, response, call)

        return handle_request

    patches.wrap(module.HTTPTransport, "handle_request", wrap)


def _hook_async(module: Any, patches: Patches) -> None:
    response_stream, request_stream = _make_async_streams(module)
    _, replayed_stream = _make_replayed_streams(module)

    def wrap(send: Any) -> Any:
        async def handle_async_request(self: Any, request: Any) -> Any:
            url = _find_safe_url(self, request)
            if _opens_websocket(module, request, url):
                return await send(self, request)
            call = dispatch.begin_call(
                request.method, url, request.headers.raw, is_above_vcrpy=_HTTPCORE_STUBS in sys.modules
            )
            if call is None:
                return await send(self, request)
            if call.replays_first:
                content = getattr(request, "_content", None)
                body = b"".join([chunk async for chunk in request.stream]) if content is None else content
                replayed = await call.replay_async(body)
                if replayed is not None:
                    hold = call_safely(None, plan_hold, replayed, _read_timeout(request))
                    if hold is not None and await hold_call_async(hold, call):
                        raise module.ReadTimeout(READ_TIMED_OUT)
                    return _make_response(module, replayed_stream, replayed, call)
                request = _with_body(module, request, body)
            try:
                response = await send(
                    self, call_safely(request, _watch_request, module, request_stream, request, call)
                )
            except BaseException as exc:
                call.end_unanswered(exc, module.ReadTimeout)
                raise
            return call_safely(response, _watch_response, response_stream, response, call)

        return handle_async_request

    patches.wrap(module.AsyncHTTPTransport, "handle_async_request", wrap)


def _opens_websocket(module: Any, request: Any, url: str) -> bool:
    """Whether a request is the handshake of a WebSocket, as httpx-ws sends it: its frames are not seen.

    Raises:
        ConnectError, of the client: nothing may be sent, and it cannot be replayed.
    """
    if request.headers.get("upgrade", "").lower() != "websocket":
        return False
    try:
        check_socket(module.__name__, url)
    except ConnectionRefusedError as exc:
        raise module.ConnectError(str(exc), request=request) from exc
    return True


def _read_timeout(request: Any) -> Any:
    """How many seconds the client waits for a response; None: for ever."""
    timeout = getattr(request, "extensions", {}).get("timeout")
    return timeout.get("read") if isinstance(timeout, dict) else None


def _make_response(module: Any, stream: type[Any], fields: Any, call: GuardedCall) -> Any:
    """The client's response with a replayed one in it; where that fails, with a refusal."""
    try:
        return _build_response(module, stream, ReplayedResponse(*fields), call)
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return _build_response(module, stream, call.refuse(exc), call)


def _build_response(module: Any, stream: type[Any], replayed: ReplayedResponse, call: GuardedCall) -> Any:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in replayed.headers]
    is_single = len(replayed.chunks) == 1 and not replayed.is_cut and not replayed.pace
    body = module.ByteStream(replayed.chunks[0][1]) if is_single else stream(replayed, call)
    return module.Response(replayed.status, headers=headers, stream=body, extensions={"http_version": b"HTTP/1.1"})


def _copy_request(request: Any) -> Any:
    copy = object.__new__(type(request))
    vars(copy).update(vars(request))
    return copy


def _with_body(module: Any, request: Any, body: bytes) -> Any:
    """The request with a body that was read already."""
    copy = _copy_request(request)
    copy._content = body
    copy.stream = module.ByteStream(body)
    return copy


def _watch_request(module: Any, request_stream: type[Any], request: Any, call: GuardedCall) -> Any:
    """The request to send: the application's own, or a copy of it where something must differ."""
    content = vars(request).get("_content")
    if content is not None:
        call.add_request_chunk(content)
    has_traceforge_headers = len(call.request_headers) != len(request.headers.raw)
    if content is not None and not has_traceforge_headers:
        return request
    copy = _copy_request(request)
    if has_traceforge_headers:
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in call.request_headers]
        copy.headers = module.Headers(raw, encoding=request.headers.encoding)
    if content is None:
        copy.stream = request_stream(request.stream, call)
    return copy


def _watch_response(response_stream: type[Any], response: Any, call: GuardedCall) -> Any:
    """The application's response, with a body that reports what it hands on."""
    headers = decode_headers(response.headers.raw)
    call.start_response(response.status_code, headers)
    response.stream = response_stream(response.stream, call, BodyLength(find_content_length(headers)))
    for name, value in call.extra_response_headers:
        response.headers[name] = value
    return response


def _make_replayed_streams(module: Any) -> tuple[type[Any], type[Any]]:
    """Bodies of replayed responses, as subclasses of the client's own streams: sync, and async."""

    def break_off(response: ReplayedResponse, call: GuardedCall) -> None:
        if not response.is_cut:
            return
        if response.is_left_early:
            call.count_read_on()
        message = "peer closed connection without sending complete message body (incomplete chunked read)"
        raise module.RemoteProtocolError(message)

    class ReplayedStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, response: ReplayedResponse, call: GuardedCall) -> None:
            self._response = response
            self._call = call

        def __iter__(self) -> Iterator[bytes]:
            yield from paced_chunks(self._response)
            break_off(self._response, self._call)

    class ReplayedAsyncStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, response: ReplayedResponse, call: GuardedCall) -> None:
            self._response = response
            self._call = call

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in paced_chunks_async(self._response):
                yield chunk
            break_off(self._response, self._call)

    return ReplayedStream, ReplayedAsyncStream


def _make_sync_streams(module: Any) -> tuple[type[Any], type[Any]]:
    """Bodies that report what passes, of a response and of a request."""

    class ResponseStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, call: GuardedCall, length: BodyLength) -> None:
            self._stream = stream
            self._call = call
            self._length = length

        def __iter__(self) -> Iterator[bytes]:
            return watch_response(iter(self._stream), self._call, self._length)

        def close(self) -> None:
            end_on_close(self._call, self._length)
            self._stream.close()

        def __del__(self) -> None:
            self._call.defer_end()

    class RequestStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, call: GuardedCall) -> None:
            self._stream = stream
            self._call = call

        def __iter__(self) -> Iterator[bytes]:
            return watch_request(iter(self._stream), self._call)

        def close(self) -> None:
            self._stream.close()

    return ResponseStream, RequestStream


def _make_async_streams(module: Any) -> tuple[type[Any], type[Any]]:
    """The streams of `_make_sync_streams`, for the asynchronous client."""

    class AsyncResponseStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, call: GuardedCall, length: BodyLength) -> None:
            self._stream = stream
            self._call = call
            self._length = length

        def __aiter__(self) -> AsyncIterator[bytes]:
            return WatchedAsyncResponse(self._stream.__aiter__(), self._call, self._length)

        async def aclose(self) -> None:
            end_on_close(self._call, self._length)
            await self._stream.aclose()

        def __del__(self) -> None:
            self._call.defer_end()

    class AsyncRequestStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, call: GuardedCall) -> None:
            self._stream = stream
            self._call = call

        def __aiter__(self) -> AsyncIterator[bytes]:
            return watch_request_async(self._stream.__aiter__(), self._call)

        async def aclose(self) -> None:
            await self._stream.aclose()

    return AsyncResponseStream, AsyncRequestStream
