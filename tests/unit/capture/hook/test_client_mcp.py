"""The streams between an MCP client and its server: which a replay holds, closes and hands on as the SDK's own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import anyio
import pytest

from traceforge.capture.hook import client_mcp, dispatch, mcp_traffic
from traceforge.capture.hook.child_processes import RUN_VARIABLE
from traceforge.capture.hook.mcp_messages import WATCHED_VARIABLE
from traceforge.capture.hook.mcp_traffic import McpTraffic
from traceforge.capture.hook.patches import Patches
from traceforge.capture.hook.replayed_response import WAITS_ON, ReplayedResponse, make_refusal

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {}}}


class Item:
    """A message in a stream of the SDK."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.message = SimpleNamespace(model_dump=lambda **_: fields)


class LiveReader:
    """What version 2 of the SDK reads over HTTP."""

    def __init__(self, context: Context) -> None:
        self.last_context = context

    async def receive(self) -> Item:
        return Item({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage"})


class HeldCall:
    """A call that the application left when it was recorded."""

    replays_first = True

    def __init__(self, response: Any) -> None:
        self.response = response
        self.waited_on = 0

    async def replay_async(self, body: bytes) -> Any:
        return self.response

    def count_wait_on(self) -> None:
        self.waited_on += 1


class PretendedModule:
    """What cffi puts among the modules."""

    __slots__ = ()

    @property
    def __class__(self) -> Any:
        return ModuleType

    @__class__.setter
    def __class__(self, other: Any) -> None:
        raise AssertionError


class SdkSession:
    """As that of version 1, which knows for which responses it waits."""

    def __init__(self, write: Callable[[Any], Awaitable[None]]) -> None:
        self._write = write
        self._response_streams = {1: object()}

    async def send_request(self) -> None:
        await self._write(Item(REQUEST))

    def stop_waiting(self) -> None:
        self._response_streams.clear()


def offline_streams() -> tuple[Any, Any]:
    traffic = McpTraffic("mcp://notes")
    reader = client_mcp._Reader(traffic, None, lambda message: message)
    return reader, client_mcp._Writer(traffic, None, reader)


def test_the_client_answers_the_server_in_a_context_that_is_watched() -> None:
    """Its answer may be that of a model; only the calls of the transport are not to be watched."""
    with dispatch.inside_tool_transport():
        inside = copy_context()
    reader = client_mcp._Reader(McpTraffic("mcp://notes"), LiveReader(inside), lambda message: message)

    anyio.run(reader.receive)

    assert inside.run(dispatch._in_tool_transport.get)
    assert not reader.last_context.run(dispatch._in_tool_transport.get)


def test_a_closed_session_sends_nothing_offline() -> None:
    """An application that goes on after the end of its server gets the error of the SDK, and does not wait."""

    async def send() -> None:
        _, writer = offline_streams()
        await writer.aclose()
        await writer.send(Item(REQUEST))

    with pytest.raises(anyio.ClosedResourceError):
        anyio.run(send)


@pytest.mark.parametrize("waits", [True, False])
def test_a_request_that_was_left_is_held(monkeypatch: pytest.MonkeyPatch, waits: bool) -> None:
    """Only a client that still waits afterwards is told, and counted."""
    call = HeldCall(make_refusal(WAITS_ON)._replace(hold_s=0.01))
    monkeypatch.setattr(dispatch, "begin_tool_call", lambda *_: call)

    async def wait() -> Any:
        reader, writer = offline_streams()
        session = SdkSession(writer.send)
        await session.send_request()
        if not waits:
            session.stop_waiting()
        with anyio.move_on_after(5.0 if waits else 0.1):
            return await reader.receive()
        return None

    message = anyio.run(wait)

    assert (waits, int(waits)) == (message is not None, call.waited_on)
    assert not waits or f"TraceForge replay: {WAITS_ON}" == message["error"]["message"]


def test_a_request_that_was_left_after_progress_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets the progress, and does not wait for a result without end."""
    line = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"half"}}\n'
    call = HeldCall(ReplayedResponse(200, (), [(5.0, line)], is_cut=True, is_left_early=True))
    monkeypatch.setattr(dispatch, "begin_tool_call", lambda *_: call)
    monkeypatch.setattr(mcp_traffic, "LEFT_HOLD_S", 0.01)

    async def receive_two() -> list[Any]:
        reader, writer = offline_streams()
        await SdkSession(writer.send).send_request()
        with anyio.move_on_after(5.0):
            return [await reader.receive(), await reader.receive()]
        return []

    messages = anyio.run(receive_two)

    assert [("half", None), (None, f"TraceForge replay: {WAITS_ON}")] == [
        (message.get("params", {}).get("data"), message.get("error", {}).get("message")) for message in messages
    ]
    assert 1 == call.waited_on


def test_an_error_comes_out_of_a_replay_as_it_does_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a group, because each transport of the SDK has a group of tasks: `except*` and retries depend on it."""
    monkeypatch.setattr(dispatch, "find_tool_mode", lambda: dispatch.ConnectionMode.OFFLINE)
    monkeypatch.setattr(client_mcp, "_item_maker", lambda: None)
    connect = client_mcp._wrap(None, lambda: "mcp://notes", 2)

    async def fail() -> None:
        async with connect():
            raise ValueError("mine")

    with pytest.raises(BaseException) as raised:  # noqa: PT011 (a group is not in Python 3.10)
        anyio.run(fail)

    assert ["ValueError('mine')"] == [repr(error) for error in getattr(raised.value, "exceptions", ())]


def test_a_transport_is_hooked_where_it_was_imported_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """`from mcp.client.sse import sse_client` comes first in many programs; afterwards, all is as before."""

    def sse_client() -> None:
        pass

    sdk, application = ModuleType("sdk_with_sse"), ModuleType("application_with_sse")
    for module in (sdk, application):
        monkeypatch.setattr(module, "sse_client", sse_client, raising=False)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "library_of_cffi", PretendedModule())
    patches = Patches()

    client_mcp.hook_sse(sdk, patches)
    hooked = application.sse_client
    client_mcp.hook_sse(sdk, patches)

    assert hooked is application.sse_client is not sse_client
    assert sdk.sse_client is not sse_client
    patches.undo()
    assert (sse_client, sse_client) == (sdk.sse_client, application.sse_client)


class ServerParameters(NamedTuple):
    """As the SDK has them, in short."""

    args: list[str]
    env: dict[str, str] | None

    def model_copy(self, update: dict[str, Any]) -> ServerParameters:
        return self._replace(**update)


@pytest.mark.parametrize(
    ("args", "env", "given"),
    [
        (["server.py"], None, None),
        (["server.py"], {"A": "1"}, {"A": "1"}),
        (["server.py"], {"A": "1", RUN_VARIABLE: "unix:/x\ntoken\n\n\n{}"}, {"A": "1"}),
        (["mcp", "wrap", "--", "server"], None, {WATCHED_VARIABLE: "1"}),
        (["mcp", "wrap", "--", "server"], {RUN_VARIABLE: "unix:/x\ntoken\n\n\n{}"}, {WATCHED_VARIABLE: "1"}),
    ],
)
def test_a_server_is_not_watched_itself(args: list[str], env: Any, given: Any) -> None:
    """Also if its client hands all its own variables on: a test starts no server, so that nothing of it replays."""
    started: list[ServerParameters] = []

    client_mcp._start_watched(started.append, ServerParameters(args, env))

    assert [given] == [server.env for server in started]
