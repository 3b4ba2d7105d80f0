"""The hook for aiohttp: its connector, request, response, and the reader that its parser feeds.

In: the client module. Out: methods that report what they see. The body is seen where the parser hands it over, before
it is decompressed and before the application asks for it. Never: stands between the application and its reader: what
is read, in which chunks and when, is aiohttp's alone. A call that is replayed gets a connection without a socket: see
`playback_transport.py`. WebSockets have a module of their own: `client_aiohttp_websocket.py`.

    BaseConnector.connect     a call begins, or fails for want of a connection
    ClientRequest.send        it goes out on this connection; `write_bytes`: its body
    ClientResponse.start      the response begins, or never comes
    StreamReader.__init__     its body will come through this reader
    StreamReader._wait        the application waits for more than what came
    StreamReader.feed_data    a chunk came (DeflateBuffer.feed_data: a compressed one)
    StreamReader.feed_eof     the end; `set_exception`: the upstream broke off
    ClientResponse.close      the application closes it; also `release`
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from . import client_aiohttp_websocket, dispatch
from .client_aiohttp_websocket import is_websocket
from .guarded_call import GuardedCall, call_safely, decode_headers, describe_error, is_traceforge_header
from .in_flight_call import ANSWERED, CLIENT_LEFT, CUT
from .patches import Patches
from .playback_transport import PlaybackTransport, read_body
from .real_address import find_real_url
from .replayed_response import ReplayedResponse

_MARK = "_traceforge_call"  # on a request, on the protocol of its connection, and on its response


class TrackedCall:
    """A call, and what was seen of its response.

    The parser may be done with the body before `start` has seen the headers: then the end waits for them.
    """

    def __init__(self, call: GuardedCall) -> None:
        self.call = call
        self.has_response = False
        self.is_compressed = False
        self.reader_id = 0  # of the reader of its body, which lives for as long as it is read
        self._pending_end: tuple[str, str] | None = None

    def start_response(self, status: int, headers: Any) -> None:
        """Report the response; an end that was waiting for it follows."""
        self.call.start_response(status, headers)
        self.has_response = True
        if self._pending_end is not None:
            self.call.end(*self._pending_end)

    def end(self, outcome: str, error: str = "") -> None:
        """The body is over; that is reported as soon as the response is."""
        if self.has_response:
            self.call.end(outcome, error)
        elif self._pending_end is None:
            self._pending_end = outcome, error

    def __del__(self) -> None:
        self.call.defer_end()


def hook(module: Any, patches: Patches) -> None:
    """Watch the client of `module`."""
    request = import_module(f"{module.__name__}.client_reqrep")
    connector = import_module(f"{module.__name__}.connector")
    streams = import_module(f"{module.__name__}.streams")
    parser = import_module(f"{module.__name__}.http_parser")
    patches.wrap(connector.BaseConnector, "connect", lambda connect: _wrap_connect(connect, module, connector))
    patches.wrap(request.ClientRequest, "send", _wrap_send)
    patches.wrap(request.ClientRequest, "write_bytes", _wrap_write_bytes)
    patches.wrap(request.ClientResponse, "start", _wrap_start)
    patches.wrap(request.ClientResponse, "close", _wrap_close)
    patches.wrap(request.ClientResponse, "release", _wrap_close)
    patches.wrap(request.ClientResponse, "__del__", _wrap_del)
    patches.wrap(streams.StreamReader, "__init__", _wrap_reader_init)
    patches.wrap(streams.StreamReader, "_wait", _wrap_wait)
    patches.wrap(streams.StreamReader, "feed_data", _wrap_feed_data)
    patches.wrap(streams.StreamReader, "feed_eof", _wrap_feed_eof)
    patches.wrap(streams.StreamReader, "set_exception", _wrap_set_exception)
    patches.wrap(parser.DeflateBuffer, "feed_data", _wrap_feed_compressed)
    client_aiohttp_websocket.hook(module, patches)


def _call_of(owner: Any) -> Any:
    """The `TrackedCall` of a request, a protocol or a response; None where it is not watched."""
    return getattr(owner, _MARK, None)


def _wrap_connect(connect: Any, module: Any, connector: Any) -> Any:
    async def watched(self: Any, req: Any, *args: Any, **options: Any) -> Any:
        if is_websocket(req):
            return await client_aiohttp_websocket.connect_websocket(connect, connector, self, req, *args, **options)
        tracked = _begin_or_refuse(self, req)
        if tracked is None:
            return await connect(self, req, *args, **options)
        if tracked.call.replays_first:
            body = await read_body(module, req)
            replayed = await tracked.call.replay_async(body)
            if replayed is not None:
                setattr(req, _MARK, None)  # `send` must not report the replayed call as well.
                return _make_connection(connector, req, replayed, tracked.call)
        try:
            return await connect(self, req, *args, **options)
        except BaseException as exc:
            if tracked.call.replays_first:  # The replay has read the body already: record it with the failure.
                tracked.call.add_request_chunk(body)
            tracked.call.end_unanswered(exc)
            raise

    return watched


def _make_connection(connector: Any, req: Any, fields: Any, call: GuardedCall) -> Any:
    """Make a connection that plays the replayed response; where that fails, one that plays a refusal."""
    try:
        return PlaybackTransport(ReplayedResponse(*fields), req.method, call).connect(connector, req)
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return PlaybackTransport(call.refuse(exc), req.method, call).connect(connector, req)


def _begin_or_refuse(connector: Any, req: Any) -> Any:
    """Begin to track a call; None where the request is not watched."""
    try:
        return _begin_call(connector, req)
    except Exception as exc:  # noqa: BLE001 (no error of the hook may reach the application)
        call = dispatch.begin_after_fault(exc)
        return None if call is None else TrackedCall(call)


def _begin_call(connector: Any, req: Any) -> Any:
    """As `_begin_or_refuse`; a request that is sent again is another call."""
    raw = ((_encode(name), _encode(value)) for name, value in req.headers.items())  # read only if the call is ours
    unix_socket = getattr(connector, "_path", None)  # of a UnixConnector
    url = find_real_url(str(req.url), unix_socket=unix_socket, proxy=getattr(req, "proxy", None))
    call = dispatch.begin_call(req.method, url, raw)
    tracked = None if call is None else TrackedCall(call)
    if tracked is not None or _call_of(req) is not None:
        setattr(req, _MARK, tracked)
    if tracked is not None:
        for name in {name for name in req.headers if is_traceforge_header(name)}:
            req.headers.popall(name, None)
    return tracked


def _encode(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _wrap_send(send: Any) -> Any:
    async def watched(self: Any, conn: Any) -> Any:
        tracked = _call_of(self)
        protocol = conn.protocol
        if tracked is None:
            if _call_of(protocol) is not None:  # of the call that had this connection before
                setattr(protocol, _MARK, None)
            return await _send_unwatched(send, self, conn)
        setattr(protocol, _MARK, tracked)
        try:
            response = await send(self, conn)
        except BaseException as exc:
            tracked.call.end_unanswered(exc)
            raise
        setattr(response, _MARK, tracked)
        return response

    return watched


async def _send_unwatched(send: Any, req: Any, conn: Any) -> Any:
    """Send a request that is not a model call but may open a WebSocket to a model."""
    if not is_websocket(req):
        return await send(req, conn)
    protocol = conn.protocol
    try:
        response = await send(req, conn)
    except BaseException as exc:
        client_aiohttp_websocket.fail_handshake(req, exc)
        raise
    client_aiohttp_websocket.watch_connection(req, response, protocol)
    return response


def _wrap_write_bytes(write_bytes: Any) -> Any:
    async def watched(self: Any, writer: Any, *args: Any, **options: Any) -> Any:
        tracked = _call_of(self)
        if tracked is not None:
            write, call = writer.write, tracked.call

            async def tee(chunk: Any, *more: Any, **settings: Any) -> Any:
                call.add_request_chunk(bytes(chunk))
                return await write(chunk, *more, **settings)

            writer.write = tee
        return await write_bytes(self, writer, *args, **options)

    return watched


def _wrap_start(start: Any) -> Any:
    async def watched(self: Any, connection: Any) -> Any:
        tracked = _call_of(self)
        if tracked is None:
            return await _start_unwatched(start, self, connection)
        try:
            response = await start(self, connection)
        except BaseException as exc:
            tracked.call.end_unanswered(exc, asyncio.TimeoutError)
            raise
        call_safely(None, _watch_response, self, tracked)
        return response

    return watched


async def _start_unwatched(start: Any, response: Any, connection: Any) -> Any:
    protocol = connection.protocol
    try:
        started = await start(response, connection)
    except BaseException as exc:
        client_aiohttp_websocket.fail_handshake(response, exc)
        raise
    client_aiohttp_websocket.watch_answer(response, protocol)
    return started


def _watch_response(response: Any, tracked: TrackedCall) -> None:
    tracked.start_response(response.status, decode_headers(response.raw_headers))
    if response.content.is_eof():
        tracked.end(ANSWERED)
    if tracked.call.extra_response_headers:
        headers = response._headers.copy()
        for name, value in tracked.call.extra_response_headers:
            headers.add(name, value)
        response._headers = type(response._headers)(headers)
        response._cache.pop("headers", None)


def _wrap_close(close: Any) -> Any:
    def watched(self: Any) -> Any:
        tracked = _call_of(self)
        if tracked is not None:
            tracked.end(CLIENT_LEFT)
        client_aiohttp_websocket.end_conversation(self)
        return close(self)

    return watched


def _wrap_del(delete: Any) -> Any:
    def watched(self: Any, *args: Any) -> Any:
        tracked = _call_of(self)
        if tracked is not None:
            tracked.call.defer_end()
        return delete(self, *args)

    return watched


def _wrap_reader_init(init: Any) -> Any:
    def watched(self: Any, protocol: Any, *args: Any, **options: Any) -> None:
        init(self, protocol, *args, **options)
        tracked = _call_of(protocol)
        if tracked is not None:
            tracked.reader_id = id(self)

    return watched


def _wrap_wait(wait: Any) -> Any:
    async def watched(self: Any, *args: Any) -> Any:
        transport = getattr(self._protocol, "transport", None)
        if isinstance(transport, PlaybackTransport):
            transport.await_more()
        return await wait(self, *args)

    return watched


def _wrap_feed_data(feed_data: Any) -> Any:
    def watched(self: Any, data: Any, *args: Any) -> Any:
        tracked = _call_of(self._protocol)
        if tracked is not None and not tracked.is_compressed and data:
            tracked.call.add_response_chunk(bytes(data))
        return feed_data(self, data, *args)

    return watched


def _wrap_feed_compressed(feed_data: Any) -> Any:
    def watched(self: Any, chunk: Any, *args: Any) -> Any:
        tracked = _call_of(self.out._protocol)
        if tracked is not None:
            tracked.is_compressed = True
            if chunk:
                tracked.call.add_response_chunk(bytes(chunk))
        return feed_data(self, chunk, *args)

    return watched


def _wrap_feed_eof(feed_eof: Any) -> Any:
    def watched(self: Any) -> Any:
        tracked = _call_of(self._protocol)
        if tracked is not None:
            tracked.end(ANSWERED)
        return feed_eof(self)

    return watched


def _wrap_set_exception(set_exception: Any) -> Any:
    def watched(self: Any, exc: Any, *args: Any) -> Any:
        tracked = _call_of(self._protocol)
        # An application may close an answer it has read long after another call took the connection.
        if tracked is not None and tracked.reader_id == id(self):
            tracked.end(CUT, describe_error(exc) if isinstance(exc, BaseException) else str(exc))
        return set_exception(self, exc, *args)

    return watched
