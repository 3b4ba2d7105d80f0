"""The hook for aiohttp: its connector, request, response, and the reader that its parser feeds.

In: the client module. Out: methods that tell what they see. The body is seen where the parser hands it over, before
it is decompressed and before the application asks for it. Never: stands between the application and its reader: what
is read, in which pieces and when, is aiohttp's alone. A call that is played gets a connection to nowhere: see
`playback_transport.py`.

    BaseConnector.connect     a call begins, or fails for want of a connection
    ClientRequest.send        it goes out on this connection; `write_bytes`: its body
    ClientResponse.start      the answer begins, or never comes
    StreamReader.__init__     its body will come through this reader
    StreamReader.feed_data    a piece came (DeflateBuffer.feed_data: a compressed one)
    StreamReader.feed_eof     the end; so `set_exception`
    ClientResponse.close      the application went away; so `release`
"""

from __future__ import annotations

from typing import Any

from . import dispatch
from .guarded_call import ANSWERED, CUT, LEFT, Told, error_text, is_ours, pairs, safely
from .patches import Patches
from .playback_transport import Nowhere, read_body
from .replayed_response import Answer

_MARK = "_traceforge_lane"  # on a request, on the protocol of its connection, and on its response


class Lane:
    """One call on its connection. The parser may be done with the body before `start` has seen the headers."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.answered = False
        self.compressed = False
        self.reader = 0  # the id of the reader of its body, which lives for as long as it is read
        self._end: tuple[str, str] | None = None

    def begins(self, status: int, headers: Any) -> None:
        """The headers are there; an end that was waiting for them may be told."""
        self.told.answered(status, headers)
        self.answered = True
        if self._end is not None:
            self.told.ended(*self._end)

    def ends(self, outcome: str, error: str = "") -> None:
        """The body is over; it is told as soon as the headers are."""
        if self.answered:
            self.told.ended(outcome, error)
        elif self._end is None:
            self._end = outcome, error

    def __del__(self) -> None:
        self.told.dropped()


def hook(module: Any, patches: Patches) -> None:
    """Watch the client of `module`."""
    from importlib import import_module

    request = import_module(f"{module.__name__}.client_reqrep")
    connector = import_module(f"{module.__name__}.connector")
    streams = import_module(f"{module.__name__}.streams")
    parser = import_module(f"{module.__name__}.http_parser")
    patches.wrap(connector.BaseConnector, "connect", lambda connect: _connect(connect, module, connector))
    patches.wrap(request.ClientRequest, "send", _send)
    patches.wrap(request.ClientRequest, "write_bytes", _write_bytes)
    patches.wrap(request.ClientResponse, "start", _start)
    patches.wrap(request.ClientResponse, "close", _leave)
    patches.wrap(request.ClientResponse, "release", _leave)
    patches.wrap(request.ClientResponse, "__del__", _drop)
    patches.wrap(streams.StreamReader, "__init__", _new_reader)
    patches.wrap(streams.StreamReader, "feed_data", _feed_data)
    patches.wrap(streams.StreamReader, "feed_eof", _feed_eof)
    patches.wrap(streams.StreamReader, "set_exception", _set_exception)
    patches.wrap(parser.DeflateBuffer, "feed_data", _feed_compressed)


def _lane(thing: Any) -> Any:
    return getattr(thing, _MARK, None)


def _connect(connect: Any, module: Any, connector: Any) -> Any:
    async def watched(self: Any, req: Any, *args: Any, **options: Any) -> Any:
        lane = _begin_or_fail(req)
        if lane is None:
            return await connect(self, req, *args, **options)
        if lane.told.plays:
            body = await read_body(module, req)
            answer = lane.told.play(body)
            if answer is not None:
                setattr(req, _MARK, None)
                return _respond(connector, req, answer, lane.told)
        try:
            return await connect(self, req, *args, **options)
        except BaseException as exc:
            lane.told.failed(exc)
            raise

    return watched


def _respond(connector: Any, req: Any, answer: Any, told: Told) -> Any:
    """A connection on which the answer comes; where that cannot be made, one on which it is said."""
    try:
        return Nowhere(Answer(*answer), req.method).connection(connector, req)
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return Nowhere(told.refuse(exc), req.method).connection(connector, req)


def _begin_or_fail(req: Any) -> Any:
    try:
        return _begin(req)
    except ConnectionRefusedError:
        raise  # a WebSocket, in a replay
    except Exception as exc:  # noqa: BLE001 (nothing of ours may reach the application)
        told = dispatch.failed(exc)
        return None if told is None else Lane(told)


def _begin(req: Any) -> Any:
    """A call on its way to a connection; a request that is sent again is another call."""
    if req.headers.get("Upgrade", "").lower() == "websocket":
        dispatch.note_socket(str(req.url))
        return None
    raw = ((_bytes(name), _bytes(value)) for name, value in req.headers.items())  # read only if the call is ours
    told = dispatch.begin(req.method, str(req.url), raw)
    lane = None if told is None else Lane(told)
    if lane is not None or _lane(req) is not None:
        setattr(req, _MARK, lane)
    if lane is not None:
        for name in {name for name in req.headers if is_ours(name)}:
            req.headers.popall(name, None)
    return lane


def _bytes(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _send(send: Any) -> Any:
    async def watched(self: Any, conn: Any) -> Any:
        lane = _lane(self)
        protocol = conn.protocol
        if lane is None:
            if _lane(protocol) is not None:  # of the call that had this connection before
                setattr(protocol, _MARK, None)
            return await send(self, conn)
        setattr(protocol, _MARK, lane)
        try:
            response = await send(self, conn)
        except BaseException as exc:
            lane.told.failed(exc)
            raise
        setattr(response, _MARK, lane)
        return response

    return watched


def _write_bytes(write_bytes: Any) -> Any:
    async def watched(self: Any, writer: Any, *args: Any, **options: Any) -> Any:
        lane = _lane(self)
        if lane is not None:
            write, told = writer.write, lane.told

            async def tee(chunk: Any, *more: Any, **settings: Any) -> Any:
                told.sent(bytes(chunk))
                return await write(chunk, *more, **settings)

            writer.write = tee
        return await write_bytes(self, writer, *args, **options)

    return watched


def _start(start: Any) -> Any:
    async def watched(self: Any, connection: Any) -> Any:
        lane = _lane(self)
        if lane is None:
            return await start(self, connection)
        try:
            response = await start(self, connection)
        except BaseException as exc:
            lane.told.failed(exc)
            raise
        safely(None, _answered, self, lane)
        return response

    return watched


def _answered(response: Any, lane: Lane) -> None:
    lane.begins(response.status, pairs(response.raw_headers))
    if response.content.is_eof():
        lane.ends(ANSWERED)
    if lane.told.reply_headers:
        headers = response._headers.copy()
        for name, value in lane.told.reply_headers:
            headers.add(name, value)
        response._headers = type(response._headers)(headers)
        response._cache.pop("headers", None)


def _leave(leave: Any) -> Any:
    def watched(self: Any) -> Any:
        lane = _lane(self)
        if lane is not None:
            lane.ends(LEFT)
        return leave(self)

    return watched


def _drop(delete: Any) -> Any:
    def watched(self: Any, *args: Any) -> Any:
        lane = _lane(self)
        if lane is not None:
            lane.told.dropped()
        return delete(self, *args)

    return watched


def _new_reader(init: Any) -> Any:
    def watched(self: Any, protocol: Any, *args: Any, **options: Any) -> None:
        init(self, protocol, *args, **options)
        lane = _lane(protocol)
        if lane is not None:
            lane.reader = id(self)

    return watched


def _feed_data(feed_data: Any) -> Any:
    def watched(self: Any, data: Any, *args: Any) -> Any:
        lane = _lane(self._protocol)
        if lane is not None and not lane.compressed and data:
            lane.told.came(bytes(data))
        return feed_data(self, data, *args)

    return watched


def _feed_compressed(feed_data: Any) -> Any:
    def watched(self: Any, chunk: Any, *args: Any) -> Any:
        lane = _lane(self.out._protocol)
        if lane is not None:
            lane.compressed = True
            if chunk:
                lane.told.came(bytes(chunk))
        return feed_data(self, chunk, *args)

    return watched


def _feed_eof(feed_eof: Any) -> Any:
    def watched(self: Any) -> Any:
        lane = _lane(self._protocol)
        if lane is not None:
            lane.ends(ANSWERED)
        return feed_eof(self)

    return watched


def _set_exception(set_exception: Any) -> Any:
    def watched(self: Any, exc: Any, *args: Any) -> Any:
        lane = _lane(self._protocol)
        # An application may close an answer it has read long after another call took the connection.
        if lane is not None and lane.reader == id(self):
            lane.ends(CUT, error_text(exc) if isinstance(exc, BaseException) else str(exc))
        return set_exception(self, exc, *args)

    return watched
