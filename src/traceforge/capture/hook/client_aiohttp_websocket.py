"""The WebSockets of aiohttp: its connector, the protocol of its connection, and what writes frames.

In: a request that opens a WebSocket. Out: its frames, recorded as they pass; in a replay, a connection over one end
of a socket pair, which recordings answer. Never: changes a frame, or connects where nothing may be sent.

    BaseConnector.connect           the handshake begins: `connect_websocket`
    ClientRequest.send              it goes out on this connection: `watch_connection`
    ClientResponse.start, close     its answer, and the end: `watch_answer`, `end_conversation`
    ResponseHandler.set_parser      from here on, frames come
    WebSocketWriter.send_frame      a frame, before it is compressed; `_send_frame` before aiohttp 3.11
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .guarded_call import call_safely, decode_headers
from .patches import Patches
from .real_address import find_real_url
from .recorded_conversation import RecordedConversation, WatchedBytes, begin_recording
from .replayed_conversation import open_replayed
from .websocket_frames import SWITCHING

_MARK = "_traceforge_conversation"  # on a request, on its response, and on the protocol of its connection
_ANSWER_MARK = "_traceforge_websocket_headers"  # on the protocol: of the answer to the handshake


def hook(module: Any, patches: Patches) -> None:
    """Watch the frames of `module`; its requests are watched by `client_aiohttp`."""
    protocol = import_module(f"{module.__name__}.client_proto")
    patches.wrap(protocol.ResponseHandler, "set_parser", _wrap_set_parser)
    writer = import_module(f"{module.__name__}.http").WebSocketWriter
    patches.wrap(writer, "send_frame" if hasattr(writer, "send_frame") else "_send_frame", _wrap_send_frame)


def is_websocket(req: Any) -> bool:
    """Whether a request opens a WebSocket."""
    return str(req.headers.get("Upgrade", "")).lower() == "websocket"


async def connect_websocket(connect: Any, module: Any, connector: Any, req: Any, *args: Any, **options: Any) -> Any:
    """The connection for a handshake: a recorded one, or one that a recording answers; or just the connection.

    Raises:
        ConnectionRefusedError: nothing may be sent, and no recording can answer.
    """
    unix_socket = getattr(connector, "_path", None)  # of a UnixConnector
    url = find_real_url(str(req.url), unix_socket=unix_socket, proxy=getattr(req, "proxy", None))
    client_socket = open_replayed(url)
    if client_socket is not None:
        protocol = module.ResponseHandler(loop=req.loop)
        await req.loop.create_connection(lambda: protocol, sock=client_socket)
        return module.Connection(_ReplayConnector(connector, protocol), req.connection_key, protocol, req.loop)
    conversation = begin_recording(url, req.headers.items())
    setattr(req, _MARK, conversation)
    try:
        return await connect(connector, req, *args, **options)
    except BaseException as exc:
        if conversation is not None:
            conversation.fail(exc)
        raise


class _ReplayConnector:
    """The connector, for a connection that is not its own and must not be used again."""

    def __init__(self, connector: Any, protocol: Any) -> None:
        self._connector = connector
        self._open: Any = getattr(connector, "_acquired", set())  # what it closes when its session is closed
        call_safely(None, self._open.add, protocol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        call_safely(None, self._open.discard, protocol)
        protocol.close()


def _conversation_of(owner: Any) -> RecordedConversation | None:
    """The conversation of a request, a response or a protocol; None where it is not recorded."""
    return getattr(owner, _MARK, None)


def watch_connection(req: Any, response: Any, protocol: Any) -> None:
    """The handshake has been sent; it is answered on this connection."""
    conversation = _conversation_of(req)
    if conversation is not None:
        setattr(response, _MARK, conversation)
        setattr(protocol, _MARK, conversation)


def fail_handshake(req: Any, exc: BaseException) -> None:
    """The handshake of this request, or the wait for its answer, raised."""
    conversation = _conversation_of(req)
    if conversation is not None:
        conversation.fail(exc)


def watch_answer(response: Any, protocol: Any) -> None:
    """The handshake has been answered."""
    conversation = _conversation_of(response)
    if conversation is not None:
        call_safely(None, _watch_answer, response, protocol, conversation)


def _watch_answer(response: Any, protocol: Any, conversation: RecordedConversation) -> None:
    headers = decode_headers(response.raw_headers)
    if response.status != SWITCHING:
        conversation.reject(response.status, headers, b"".join(getattr(response.content, "_buffer", ())))
        return
    conversation.accept(response.status, headers)
    setattr(protocol, _ANSWER_MARK, headers)


def end_conversation(response: Any) -> None:
    """The application, or aiohttp itself, closes the connection."""
    conversation = _conversation_of(response)
    if conversation is not None:
        call_safely(None, lambda: conversation.end(by_client=True))


def _wrap_set_parser(set_parser: Any) -> Any:
    def watched(self: Any, parser: Any, *args: Any, **options: Any) -> Any:
        conversation, headers = _conversation_of(self), getattr(self, _ANSWER_MARK, None)
        if conversation is not None and headers is not None:
            parser = _WatchedParser(parser, conversation, WatchedBytes(conversation, headers))
        return set_parser(self, parser, *args, **options)

    return watched


class _WatchedParser:
    """aiohttp's parser of frames, which gets the same bytes."""

    def __init__(self, parser: Any, conversation: RecordedConversation, watched: WatchedBytes) -> None:
        self._parser = parser
        self._conversation = conversation
        self._watched = watched

    def feed_data(self, data: Any) -> Any:
        call_safely(None, self._watched.receive, data)
        return self._parser.feed_data(data)

    def feed_eof(self) -> Any:
        call_safely(None, self._conversation.end)
        return self._parser.feed_eof()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _wrap_send_frame(send_frame: Any) -> Any:
    async def watched(self: Any, message: Any, opcode: Any, *args: Any, **options: Any) -> Any:
        conversation = _conversation_of(self.protocol)
        if conversation is not None and not self.transport.is_closing():
            conversation.send_fragment(int(opcode), bytes(message), True)
        return await send_frame(self, message, opcode, *args, **options)

    return watched
