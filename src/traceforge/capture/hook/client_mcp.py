"""The hook for `mcp`, the SDK of the Model Context Protocol: records and replays what a client asks of servers.

In: the modules of the SDK's transports, 1.x and 2.x. Out: transports whose streams report each request of the client
and each message of the server. Never: starts a server, or connects to one, where nothing may leave the process;
sends a request whose answer is approved; changes a message, or makes a task of its own.

    recording      the transport is opened as ever; messages are seen as they pass
    `record`       the same, but an approved request is answered from its recording, and its server is not asked;
                   unless it asks what the server is and has (`DESCRIPTIONS`)
    offline        the transport is not opened; a request is answered from its recording, or refused
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import ModuleType
from typing import Any

from . import dispatch
from .child_processes import RUN_VARIABLE
from .guarded_call import call_safely
from .mcp_messages import (
    WATCHED_VARIABLE,
    Message,
    encode_request,
    find_wrapped,
    is_request,
    name_server,
    server_address,
)
from .mcp_traffic import McpTraffic
from .patches import Patches
from .server_environment import clean_environment

_MARK = "_traceforge_watched"
_SENDER_FRAMES_MAX = 5  # between a session of the SDK and the stream that it writes to


def hook_stdio(module: Any, patches: Patches) -> None:
    """Servers that are child processes."""
    _wrap_copies(module, "stdio_client", patches, lambda connect: _wrap(connect, _find_program, 2, _start_watched))


def hook_sse(module: Any, patches: Patches) -> None:
    """Servers of the older HTTP transport."""
    _wrap_copies(module, "sse_client", patches, lambda connect: _wrap(connect, _find_url, 2))


def hook_streamable_http(module: Any, patches: Patches) -> None:
    """Servers of the HTTP transport. In 1.x it yields a function, too, which returns the id of the session."""
    names = [name for name in ("streamablehttp_client", "streamable_http_client") if hasattr(module, name)]
    size = 3 if "streamablehttp_client" in names else 2
    for name in names:
        _wrap_copies(module, name, patches, lambda connect: _wrap(connect, _find_url, size))


def _wrap_copies(module: Any, name: str, patches: Patches, wrapper: Callable[[Any], Any]) -> None:
    """Wrap a function also where it was imported by its name, before anything was watched."""
    original = vars(module)[name]
    if hasattr(original, _MARK):
        return  # It is wrapped already, and so is what has been imported since.
    for owner in [module, *sys.modules.values()]:
        # A library of cffi says that it is a module, and has no `__dict__`; `vars` would load a module that is lazy.
        is_module = issubclass(type(owner), ModuleType)
        if is_module and object.__getattribute__(owner, "__dict__").get(name) is original:
            patches.wrap(owner, name, wrapper)


def _find_program(server: Any, *_: Any, **__: Any) -> str:
    return server_address(name_server(str(server.command), [str(word) for word in server.args]))


def _find_url(url: Any, *_: Any, **__: Any) -> str:
    return str(url)


def _connect(connect: Any, *args: Any, **options: Any) -> Any:
    return connect(*args, **options)


def _start_watched(connect: Any, server: Any, *args: Any, **options: Any) -> Any:
    """Start a server, which is not watched itself; a variable says so to a `traceforge mcp wrap` in front of it."""
    return connect(call_safely(server, _set_variables, server), *args, **options)


def _set_variables(server: Any) -> Any:
    variables = server.env
    if variables and RUN_VARIABLE in variables:
        variables = clean_environment(variables, variables[RUN_VARIABLE])
    if find_wrapped(server.args) is not None:
        variables = {**(variables or {}), WATCHED_VARIABLE: "1"}
    return server if variables is server.env else server.model_copy(update={"env": variables})


def _wrap(connect: Any, find_address: Callable[..., str], size: int, connect_watched: Any = _connect) -> Any:
    """A transport that yields `size` values, the first two of them streams."""

    @asynccontextmanager
    async def watched(*args: Any, **options: Any) -> AsyncIterator[Any]:
        mode = dispatch.find_tool_mode()
        if mode is dispatch.ConnectionMode.UNWATCHED:
            async with connect(*args, **options) as transport:
                yield transport
            return
        traffic = McpTraffic(call_safely(server_address("server"), partial(find_address, *args, **options)))
        try:
            if mode is dispatch.ConnectionMode.OFFLINE:
                reader = _Reader(traffic, None, _item_maker())
                async with _anyio().create_task_group():  # As live: an error is in a group when it comes out.
                    yield (reader, _Writer(traffic, None, reader), *(_no_session_id for _ in range(size - 2)))
            else:
                async with _Outside(connect_watched(connect, *args, **options), traffic) as (
                    live_reader,
                    live_writer,
                    *more,
                ):
                    reader = _Reader(traffic, live_reader, _item_maker())
                    yield (reader, _Writer(traffic, live_writer, reader), *more)
        finally:
            call_safely(None, traffic.close)

    setattr(watched, _MARK, True)
    return watched


def _no_session_id() -> None:
    """No server has given this session an id."""


class _Outside:
    """A transport whose own HTTP calls are not watched: its messages are."""

    def __init__(self, transport: Any, traffic: McpTraffic) -> None:
        self._transport = transport
        self._traffic = traffic

    async def __aenter__(self) -> Any:
        with dispatch.inside_tool_transport():  # The tasks that it starts are inside, too.
            return await self._transport.__aenter__()

    async def __aexit__(self, *exc_info: Any) -> Any:
        try:
            with dispatch.inside_tool_transport():
                return await self._transport.__aexit__(*exc_info)
        except Exception:  # such as a server that cannot be reached: the SDK says so when the transport is closed
            if not isinstance(exc_info[1], Exception):
                call_safely(None, self._traffic.close_by_server)
            raise


class _Reader:
    """What the client reads: messages of recordings, and of the server where there is one."""

    def __init__(self, traffic: McpTraffic, live: Any, make_message: Callable[[Message], Any]) -> None:
        self._traffic = traffic
        self._live = live  # None: offline
        self._make_message = make_message
        self._waiting: Any = None  # what `wake` cancels
        self._is_closed = False
        self.last_context: Any = None  # of 2.x: in which it handles the message; None: in its own

    def wake(self) -> None:
        """There may be a message to tell."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def receive(self) -> Any:
        """The next message.

        Raises:
            anyio.EndOfStream, anyio.ClosedResourceError: there will be none.
        """
        while True:
            message = self._traffic.next_replayed()
            if message is not None:
                self.last_context = None
                return self._make_message(message)
            if self._is_closed:
                raise _anyio().ClosedResourceError
            if self._traffic.has_ended:
                raise _anyio().EndOfStream
            with self._make_scope() as self._waiting:
                item = await self._receive_live()
                call_safely(None, self._watch, item)
                return item

    def _make_scope(self) -> Any:
        """What `wake` cancels, and ends when the client has waited for too long."""
        left_s = self._traffic.seconds_to_hold()
        if left_s == math.inf:  # as in each recording; the time of the event loop is not looked up in vain
            return _anyio().CancelScope()
        return _anyio().CancelScope(deadline=_anyio().current_time() + left_s)

    async def _receive_live(self) -> Any:
        if self._live is None:
            await _anyio().sleep_forever()
        try:
            item = await self._live.receive()
            self.last_context = dispatch.outside_tool_transport(getattr(self._live, "last_context", None))
            return item
        except Exception:
            call_safely(None, self._traffic.close if self._is_closed else self._traffic.close_by_server)
            raise

    def _watch(self, item: Any) -> None:
        message = read_message(item)
        if message is not None:
            self._traffic.take_server_message(message)

    def close(self) -> None:
        self._is_closed = True
        self.wake()
        if self._live is not None:
            self._live.close()

    async def aclose(self) -> None:
        self._is_closed = True
        self.wake()
        if self._live is not None:
            await self._live.aclose()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except _anyio().EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)


class _Writer:
    """What the client writes to."""

    def __init__(self, traffic: McpTraffic, live: Any, reader: _Reader) -> None:
        self._traffic = traffic
        self._live = live  # None: offline
        self._reader = reader
        self._is_closed = False

    async def send(self, item: Any) -> None:
        """Send a message to the server, unless a recording answers it."""
        if self._is_closed:
            if self._live is None:
                raise _anyio().ClosedResourceError
            await self._live.send(item)  # which raises what it raises
            return
        message = call_safely(None, read_message, item)
        is_awaited = call_safely(_always, _find_waiting, message)
        if (message is None or await self._goes_to_server(message, is_awaited)) and self._live is not None:
            with dispatch.inside_tool_transport():  # 2.x sends it in the context of who wrote it.
                await self._live.send(item)

    async def _goes_to_server(self, message: Message, is_awaited: Callable[[], bool]) -> bool:
        if not is_request(message):
            is_for_server: bool = call_safely(True, self._traffic.take_client_message, message)
            self._reader.wake()
            return is_for_server
        call = call_safely(None, self._traffic.begin, message)
        response = None
        if call is not None and call.replays_first:
            response = await call.replay_async(call_safely(b"", encode_request, message))
        goes_to_server = self._traffic.settle(message, call, response, is_awaited, is_offline=self._live is None)
        if not goes_to_server:
            self._reader.wake()
        return goes_to_server

    def close(self) -> None:
        self._is_closed = True
        if self._live is not None:
            self._live.close()

    async def aclose(self) -> None:
        self._is_closed = True
        if self._live is not None:
            await self._live.aclose()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)


def read_message(item: Any) -> Message | None:
    """The message in what a stream of the SDK carries; None for an error, which it carries too."""
    message = getattr(item, "message", None)
    if message is None or isinstance(item, BaseException):
        return None
    fields: Message = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return fields


def _always() -> bool:
    return True


def _find_waiting(message: Message | None) -> Callable[[], bool]:
    """What says whether the SDK still waits for the response to a request that it is sending.

    1.x does not report when it stops waiting, after a timeout or when it is cancelled; 2.x tells the server.
    """
    frame = sys._getframe(3)  # of who sends: below are `send` and `call_safely`
    for _ in range(_SENDER_FRAMES_MAX):
        waiting = getattr(frame.f_locals.get("self"), "_response_streams", None)
        if message is not None and isinstance(waiting, dict) and message.get("id") in waiting:
            return partial(waiting.__contains__, message["id"])
        if frame.f_back is None:
            break
        frame = frame.f_back
    return _always


def _item_maker() -> Callable[[Message], Any]:
    """What makes an item of the SDK's streams. A JSON-RPC message in it is of a class in 1.x, of a union in 2.x."""
    item_type: Any = sys.modules["mcp.shared.message"].SessionMessage
    types: Any = sys.modules.get("mcp_types") or sys.modules["mcp.types"]
    adapter = getattr(types, "jsonrpc_message_adapter", None)
    validate = types.JSONRPCMessage.model_validate if adapter is None else adapter.validate_python
    return lambda message: item_type(validate(message))


def _anyio() -> Any:
    """The SDK has imported it; we import nothing."""
    return sys.modules["anyio"]
