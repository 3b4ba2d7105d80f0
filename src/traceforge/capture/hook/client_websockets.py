"""The hook for `websockets`, the library through which the SDKs of OpenAI and Google open WebSockets.

In: its modules. Out: connections whose frames are recorded as they pass; in a replay, connections over one end of a
socket pair, which recordings answer. Never: changes a frame, or connects where nothing may be sent.

    asyncio.client.connect.__await__        a connection is opened
    sync.client.reconnect.connect           the same; `sync.client.connect` in versions without that class
    ClientProtocol.send_request             the handshake goes out
    ClientProtocol.process_response         its answer
    ClientProtocol.send_frame, recv_frame   a frame, before it is compressed and after it was decompressed
    ClientProtocol.receive_eof              the connection is over

The legacy client has other places: `legacy.client.Connect.__await_impl__`; and `write_http_request`,
`read_http_response`, `write_frame_sync`, `read_frame` and `connection_lost` of its protocol.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import partial
from typing import Any

from .guarded_call import call_safely
from .patches import Patches
from .recorded_conversation import begin_recording
from .replayed_conversation import open_replayed
from .websocket_frames import SWITCHING

_MARK = "_traceforge_conversation"  # on a protocol
_URL_MARK = "_traceforge_url"  # on what opens connections, once it has another address
_LIVE_OPTIONS = ("ssl", "ssl_context", "server_hostname", "unix", "path", "host", "port", "local_addr")


def hook_asyncio(module: Any, patches: Patches) -> None:
    """Hook the client for asyncio, `websockets.asyncio.client`."""
    _hook_protocol(module.ClientProtocol, patches)
    patches.wrap(module.connect, "__await__", lambda connect: _wrap_await(connect, module))


def hook_sync(module: Any, patches: Patches) -> None:
    """Hook the client for threads, `websockets.sync.client`."""
    _hook_protocol(module.ClientProtocol, patches)
    if hasattr(module, "reconnect"):
        patches.wrap(module.reconnect, "connect", lambda connect: _wrap_reconnect(connect, module))
    else:
        patches.wrap(module, "connect", _wrap_connect)


def hook_legacy(module: Any, patches: Patches) -> None:
    """The first client for asyncio, which old SDKs use; `websockets.connect` before version 14."""
    protocol = module.WebSocketClientProtocol
    patches.wrap(module.Connect, "__await_impl__", _wrap_await_impl)
    patches.wrap(protocol, "write_http_request", _wrap_write_http_request)
    patches.wrap(protocol, "read_http_response", _wrap_read_http_response)
    patches.wrap(protocol, "write_frame_sync", _wrap_write_frame_sync)
    patches.wrap(protocol, "read_frame", _wrap_read_frame)
    patches.wrap(protocol, "connection_lost", _wrap_connection_lost)


def _hook_protocol(protocol: Any, patches: Patches) -> None:
    patches.wrap(protocol, "send_request", _wrap_send_request)
    patches.wrap(protocol, "process_response", _wrap_process_response)
    patches.wrap(protocol, "send_frame", _wrap_send_frame)
    patches.wrap(protocol, "recv_frame", _wrap_recv_frame)
    patches.wrap(protocol, "receive_eof", _wrap_receive_eof)


def _wrap_await(connect: Any, module: Any) -> Any:
    def watched(self: Any) -> Generator[Any, None, Any]:
        url = getattr(self, _URL_MARK, None) or str(self.uri)
        client_socket = open_replayed(url)
        if client_socket is not None:
            options = getattr(self, "create_connection_kwargs", None)
            options = self.connection_kwargs if options is None else options
            for name in _LIVE_OPTIONS:
                options.pop(name, None)
            options["sock"] = client_socket
            _redirect(self, url, module)
        return (yield from connect(self))

    return watched


def _wrap_reconnect(connect: Any, module: Any) -> Any:
    def watched(self: Any) -> Any:
        url = getattr(self, _URL_MARK, None) or str(self.uri)
        client_socket = open_replayed(url)
        if client_socket is not None:
            self.sock, self.ssl = client_socket, None
            _redirect(self, url, module)
        return connect(self)

    return watched


def _redirect(connecter: Any, url: str, module: Any) -> None:
    """Make it speak to our end of the socket pair, which needs neither TLS nor a proxy."""
    setattr(connecter, _URL_MARK, url)
    connecter.uri = _without_tls(url)
    connecter.ws_uri = module.parse_uri(connecter.uri)
    connecter.proxy = None


def _without_tls(url: str) -> str:
    return re.sub(r"\Awss(?=://)", "ws", url, flags=re.IGNORECASE)


def _wrap_connect(connect: Any) -> Any:
    def watched(uri: Any, *args: Any, **options: Any) -> Any:
        client_socket = open_replayed(str(uri))
        if client_socket is None:
            return connect(uri, *args, **options)
        for name in _LIVE_OPTIONS:
            options.pop(name, None)
        if "proxy" in connect.__kwdefaults__:
            options["proxy"] = None
        return connect(_without_tls(str(uri)), *args, **{**options, "sock": client_socket})

    return watched


def _conversation_of(protocol: Any) -> Any:
    """The `RecordedConversation` of a connection; None where it is not watched."""
    return getattr(protocol, _MARK, None)


def _wrap_send_request(send_request: Any) -> Any:
    def watched(self: Any, request: Any) -> Any:
        _begin(self, request)
        return send_request(self, request)

    return watched


def _begin(protocol: Any, request: Any) -> None:
    url = call_safely("", _find_url, protocol, request)
    if url:
        setattr(protocol, _MARK, begin_recording(url, request.headers.raw_items()))


def _find_url(protocol: Any, request: Any) -> str:
    uri = getattr(protocol, "uri", None) or protocol.wsuri
    return f"{'wss' if uri.secure else 'ws'}://{request.headers['Host']}{request.path}"


def _wrap_process_response(process_response: Any) -> Any:
    def watched(self: Any, response: Any) -> Any:
        conversation = _conversation_of(self)
        if conversation is not None and response.status_code == SWITCHING:
            conversation.accept(response.status_code, response.headers.raw_items())
        elif conversation is not None:
            conversation.reject(response.status_code, response.headers.raw_items(), bytes(response.body or b""))
        return process_response(self, response)

    return watched


def _wrap_send_frame(send_frame: Any) -> Any:
    def watched(self: Any, frame: Any) -> Any:
        conversation = _conversation_of(self)
        if conversation is not None:
            conversation.send_fragment(int(frame.opcode), bytes(frame.data), frame.fin)
        return send_frame(self, frame)

    return watched


def _wrap_recv_frame(recv_frame: Any) -> Any:
    def watched(self: Any, frame: Any) -> Any:
        conversation = _conversation_of(self)
        if conversation is not None:
            conversation.receive_fragment(int(frame.opcode), bytes(frame.data), frame.fin)
        return recv_frame(self, frame)

    return watched


def _wrap_receive_eof(receive_eof: Any) -> Any:
    def watched(self: Any) -> Any:
        conversation = _conversation_of(self)
        if conversation is not None:
            conversation.end()
        return receive_eof(self)

    return watched


def _wrap_await_impl(connect: Any) -> Any:
    async def watched(self: Any) -> Any:
        client_socket = open_replayed(str(self._uri))
        if client_socket is not None:
            create = self._create_connection  # a method of the loop, with a factory and the application's options
            loop, factory = create.func.__self__, create.args[0]
            self._create_connection = partial(loop.create_connection, factory, sock=client_socket)
        return await connect(self)

    return watched


def _wrap_write_http_request(write: Any) -> Any:
    def watched(self: Any, path: str, headers: Any) -> Any:
        url = f"{'wss' if self._secure else 'ws'}://{headers['Host']}{path}"
        setattr(self, _MARK, begin_recording(url, headers.raw_items()))
        return write(self, path, headers)

    return watched


def _wrap_read_http_response(read: Any) -> Any:
    async def watched(self: Any) -> Any:
        status, headers = await read(self)
        conversation = _conversation_of(self)
        if conversation is not None and status == SWITCHING:
            conversation.accept(status, headers.raw_items())
        elif conversation is not None:
            conversation.reject(status, headers.raw_items(), b"")
        return status, headers

    return watched


def _wrap_write_frame_sync(write: Any) -> Any:
    def watched(self: Any, fin: bool, opcode: int, data: Any) -> Any:
        conversation = _conversation_of(self)
        if conversation is not None:
            conversation.send_fragment(int(opcode), bytes(data), fin)
        return write(self, fin, opcode, data)

    return watched


def _wrap_read_frame(read: Any) -> Any:
    async def watched(self: Any, max_size: Any) -> Any:
        frame = await read(self, max_size)
        conversation = _conversation_of(self)
        if conversation is not None:
            conversation.receive_fragment(int(frame.opcode), bytes(frame.data), frame.fin)
        return frame

    return watched


def _wrap_connection_lost(lost: Any) -> Any:
    def watched(self: Any, exc: Any) -> Any:
        conversation = _conversation_of(self)
        if conversation is not None:
            conversation.end()
        return lost(self, exc)

    return watched
