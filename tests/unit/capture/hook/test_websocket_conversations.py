"""What applications do with a WebSocket, with each client library: recorded, and replayed without a connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets.asyncio.client
import websockets.exceptions
from websockets.sync.server import ServerConnection

import traceforge
from support.replay_player import make_player
from support.websocket_server import WebSocketServer, realtime, websocket_server
from support.websocket_talk import TALKS, Closed, Refused, Step, Talk
from traceforge.capture.hook import replayed_conversation
from traceforge.capture.recorder import MemoryRecorder
from traceforge.errors import CallNotRecorded
from traceforge.exchange import CallOutcome, Exchange

PATH = "/v1/realtime?model=gpt-realtime"
UPDATE = {"type": "session.update", "event_id": "mine_1", "session": {"instructions": "Be kind."}}
ASK = {"type": "response.create", "event_id": "mine_2"}

pytestmark = pytest.mark.usefixtures("no_faults")
each_client = pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)


def record(talk: Talk, url: str, *conversations: Sequence[Step], **options: Any) -> list[Exchange]:
    """The exchanges of these conversations, in their order."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        for steps in conversations:
            talk(url, steps, **options)
    return sorted(sink.exchanges, key=lambda exchange: exchange.started_at)


@each_client
def test_the_message_names_the_frame_that_differs(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """And nothing is told that was recorded after it, although other frames follow."""
    steps: list[Step] = [1, UPDATE, 1, ASK, 3, {**ASK, "response": {"modalities": ["text"]}}, 3, ASK, 3]
    exchanges = record(talk, server.url + PATH, steps)
    steps[5] = {**ASK, "response": {"modalities": ["audio"]}}

    with (
        pytest.raises(CallNotRecorded, match=r'client_frames\[2\].*recorded "text", sent "audio"'),
        traceforge.replay(player=make_player(tmp_path, *exchanges)),
        pytest.raises(Closed) as closed,
    ):
        talk(server.url + PATH, steps)

    assert 1011 == closed.value.code


@each_client
def test_ids_of_events_do_not_count_beside_other_letters(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """Clients in Python write letters beyond ASCII as escapes, which is JSON as any other."""
    update = {"type": "session.update", "event_id": "mine_1", "session": {"instructions": "Grüße höflich."}}
    exchanges = record(talk, server.url + PATH, [1, update, 1, ASK, 3])

    with traceforge.replay(player=make_player(tmp_path, *exchanges)):
        talk(server.url + PATH, [1, {**update, "event_id": "mine_9"}, 1, ASK, 3])


@each_client
def test_a_reconnect_gets_the_second_recording(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """Also where both connections begin in the same way; a third one is unmatched."""
    first: list[Step] = [1, UPDATE, 1]
    second: list[Step] = [1, UPDATE, 1, ASK, 3]
    exchanges = record(talk, server.url + PATH, first, second)

    third: list[Step] = [1, {**UPDATE, "session": {}}, 1]

    def talk_again() -> None:
        for steps in (first, second):
            talk(server.url + PATH, steps)
        with contextlib.suppress(Closed, Refused):
            talk(server.url + PATH, third)

    player = make_player(tmp_path, *exchanges)
    with pytest.raises(CallNotRecorded, match=r"client_frames\[0\]"), traceforge.replay(player=player) as replayed:
        talk_again()

    assert (2, 1, 2) == (replayed.played, len(replayed.unmatched), server.connections)


@each_client
def test_a_client_may_send_much_before_it_reads(talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither side waits for the other, although no socket can hold what both send."""
    monkeypatch.setattr(replayed_conversation, "HOLD_S", 5.0)
    answers = [json.dumps({"type": "delta", "delta": os.urandom(30_000).hex()}) for _ in range(40)]

    def script(connection: ServerConnection) -> None:
        connection.recv()
        for answer in answers:
            connection.send(answer)
        for _ in range(40):
            connection.recv()

    audio = [{"type": "input_audio_buffer.append", "audio": os.urandom(20_000).hex()} for _ in range(40)]
    read_early: list[Step] = [ASK, 40, *audio]
    read_late: list[Step] = [ASK, *audio, 40]
    with websocket_server(script) as server:
        exchanges = record(talk, server.url + PATH, read_early)
        with traceforge.replay(player=make_player(tmp_path, *exchanges)) as replayed:
            again = talk(server.url + PATH, read_late)

    assert (answers, 1) == (again, replayed.played)


def test_a_client_may_take_its_socket_for_one_of_tcp(tmp_path: Path) -> None:
    """The client of `websockets` for threads, before version 17, sets an option of TCP on every socket."""

    def open_socket() -> None:
        client_socket = replayed_conversation.open_replayed("ws://127.0.0.1:1" + PATH)
        assert client_socket is not None
        client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client_socket.close()

    with pytest.raises(CallNotRecorded), traceforge.replay(player=make_player(tmp_path)):
        open_socket()


def test_a_replayed_connection_has_addresses_and_the_headers_of_a_handshake(
    server: WebSocketServer, tmp_path: Path
) -> None:
    """Those of the ends of TCP, of which an application takes the host; and no length, as a 101 has no body."""

    async def connect() -> tuple[Any, Any, list[str]]:
        async with websockets.asyncio.client.connect(server.url + PATH) as connection:
            await connection.recv()
            assert connection.response is not None
            headers = [name.lower() for name in connection.response.headers]
            return connection.remote_address[0], connection.local_address[0], headers

    exchanges = record(TALKS["asyncio"], server.url + PATH, [1])

    with traceforge.replay(player=make_player(tmp_path, *exchanges)):
        peer, own, headers = asyncio.run(connect())

    assert ("127.0.0.1", "127.0.0.1", False) == (peer, own, "content-length" in headers)


@each_client
def test_a_client_that_only_closes_is_compared(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """It sent nothing when it was recorded, and nothing now."""
    exchanges = record(talk, server.url + PATH, [1])

    with traceforge.replay(player=make_player(tmp_path, *exchanges)) as replayed:
        talk(server.url + PATH, [1])

    assert (1, 1) == (replayed.played, server.connections)


def test_a_server_that_answers_late_or_never_is_replayed_to_a_client_that_leaves(tmp_path: Path) -> None:
    """What came before the client closed is all that it is told."""

    def script(connection: ServerConnection) -> None:
        connection.send("working")
        connection.recv()
        connection.recv()  # It never comes.

    async def cancel(url: str) -> list[str]:
        received: list[str] = []

        async def listen() -> None:
            async with websockets.asyncio.client.connect(url) as connection:
                await connection.send("go on")
                async for message in connection:
                    received.append(str(message))
                    listening.set()

        listening = asyncio.Event()
        task = asyncio.create_task(listen())
        await listening.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return received

    sink = MemoryRecorder()
    with websocket_server(script) as server:
        with traceforge.capture(sink=sink):
            asyncio.run(cancel(server.url + PATH))
        with traceforge.replay(player=make_player(tmp_path, *sink.exchanges)) as replayed:
            assert ["working"] == asyncio.run(cancel(server.url + PATH))

    assert (1, CallOutcome.ANSWERED) == (replayed.played, sink.exchanges[0].outcome)


def test_an_application_that_leaves_without_a_word_is_not_told_of_a_break(tmp_path: Path) -> None:
    """aiohttp closes the connection of a session that ends, without a close frame."""

    def script(connection: ServerConnection) -> None:
        connection.send("working")
        with contextlib.suppress(Exception):
            connection.recv()

    async def leave(url: str, wait_s: float) -> str:
        async with aiohttp.ClientSession() as session:
            connection = await session.ws_connect(url)
            message = await connection.receive()
            with contextlib.suppress(TimeoutError):
                message = await asyncio.wait_for(connection.receive(), wait_s)
            connection._response.close()
            return str(message.data)

    sink = MemoryRecorder()
    with websocket_server(script) as server:
        with traceforge.capture(sink=sink):
            asyncio.run(leave(server.url + PATH, 0.05))
        with traceforge.replay(player=make_player(tmp_path, *sink.exchanges)) as replayed:
            assert "working" == asyncio.run(leave(server.url + PATH, 0.2))

    assert (1, CallOutcome.CLIENT_LEFT) == (replayed.played, sink.exchanges[0].outcome)


def test_a_client_that_waits_for_more_than_was_recorded_is_told_of_no_normal_end(
    server: WebSocketServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left when it was recorded. A loop over the messages would end as if the server had closed the connection."""
    monkeypatch.setattr(replayed_conversation, "HOLD_S", 0.1)
    exchanges = record(TALKS["sync"], server.url + PATH, [1, UPDATE, 1])

    async def listen(url: str) -> None:
        async with websockets.asyncio.client.connect(url) as connection:
            await connection.send(json.dumps(UPDATE))
            async for _ in connection:
                pass

    player = make_player(tmp_path, *exchanges)
    with (
        traceforge.replay(player=player) as replayed,
        pytest.raises(websockets.exceptions.ConnectionClosedError, match="the recording ends here"),
    ):
        asyncio.run(listen(server.url + PATH))

    assert (1, 0) == (replayed.played, len(replayed.unmatched))


@pytest.mark.parametrize("compress", [0, 9, 15])
def test_aiohttp_compresses_as_it_would_without_us(compress: int, server: WebSocketServer, tmp_path: Path) -> None:
    """What is recorded is what was said; a replay declines to compress, as a server may."""
    steps: list[Step] = [1, {**UPDATE, "session": {"instructions": "Be kind. " * 50}}, 1, ASK, 3]
    exchanges = record(TALKS["aiohttp"], server.url + PATH, steps, compress=compress, heartbeat=30.0)
    sent = json.loads(exchanges[0].request_body)
    answered = json.loads(b"".join(chunk.data for chunk in exchanges[0].chunks))

    with traceforge.replay(player=make_player(tmp_path, *exchanges)) as replayed:
        again = TALKS["aiohttp"](server.url + PATH, steps, compress=compress)

    assert [steps[1], ASK] == [frame["json"] for frame in sent["client_frames"]]
    assert [json.loads(text) for text in again] == [frame["json"] for frame in answered["server_frames"]]
    assert 1 == replayed.played


def test_a_connection_of_aiohttp_is_of_its_own_making(server: WebSocketServer, tmp_path: Path) -> None:
    """What an application may ask of it is answered in a replay as it is live."""

    async def look(url: str) -> list[Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=["realtime"], heartbeat=30.0, autoping=False) as connection,
        ):
            first = await connection.receive_json()
            await connection.ping(b"?")
            pong = await connection.receive()
            await connection.send_json(UPDATE)
            second = await connection.receive_json()
            closed_early = connection.closed
            await connection.close(code=1001)
            return [first, pong, second, connection.protocol, closed_early, connection.closed, connection.close_code]

    sink = MemoryRecorder()
    with websocket_server(realtime, subprotocols=["realtime"]) as speaking:
        with traceforge.capture(sink=sink):
            live = asyncio.run(look(speaking.url + PATH))
        with traceforge.replay(player=make_player(tmp_path, *sink.exchanges)) as replayed:
            again = asyncio.run(look(speaking.url + PATH))

    assert ["realtime", False, True] == live[3:6]
    assert (live, 1) == (again, replayed.played)
