"""WebSockets through `websockets` and aiohttp: recorded frame by frame, and replayed as a conversation."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client
from websockets.exceptions import InvalidStatus
from websockets.sync.server import ServerConnection

import traceforge
from support.replay_player import make_player, store_exchanges
from support.websocket_server import WebSocketServer, realtime, websocket_server
from support.websocket_talk import TALKS, Closed, Refused, Step, Talk, talk_aiohttp, talk_sync
from traceforge.capture.hook import recorded_conversation
from traceforge.capture.recorder import MemoryRecorder
from traceforge.errors import CallNotRecorded
from traceforge.exchange import CallOutcome, Exchange
from traceforge.traces.trace_index import TraceFilter

UPDATE = {"type": "session.update", "event_id": "mine_1", "session": {"instructions": "Be kind."}}
ASK = {"type": "response.create", "event_id": "mine_2"}
STEPS = (1, UPDATE, 1, ASK, 3)
PATH = "/v1/realtime?model=gpt-realtime"

pytestmark = pytest.mark.usefixtures("no_faults")
each_client = pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)


def record(talk: Talk, url: str, steps: Sequence[Step] = STEPS, **options: Any) -> tuple[Exchange, list[str | bytes]]:
    """The exchange of one conversation, and what was received."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        received = talk(url, steps, **options)
    (exchange,) = sink.exchanges
    return exchange, received


@each_client
def test_a_conversation_is_one_call_with_the_frames_of_both_sides(talk: Talk, server: WebSocketServer) -> None:
    """Each frame of the server says after which frame of the client it came."""
    exchange, received = record(talk, server.url + PATH)

    sent = json.loads(exchange.request_body)
    answered = json.loads(b"".join(chunk.data for chunk in exchange.chunks))
    assert ("GET", server.url.replace("ws:", "http:") + PATH, 101) == (
        exchange.method, exchange.url, exchange.status
    )  # fmt: skip
    assert {"client_frames": [{"layout": "spaced", "json": UPDATE}, {"layout": "spaced", "json": ASK}]} == sent
    assert [0, 1, 2, 2, 2] == [frame["after"] for frame in answered["server_frames"]]
    assert [json.loads(text) for text in received] == [frame["json"] for frame in answered["server_frames"]]
    assert CallOutcome.ANSWERED is exchange.outcome


@each_client
def test_a_conversation_replays_frame_for_frame_without_a_connection(
    talk: Talk, server: WebSocketServer, tmp_path: Path
) -> None:
    """The ids of events, which a client makes up, do not count."""
    exchange, received = record(talk, server.url + PATH)

    steps = [1, {**UPDATE, "event_id": "other"}, 1, {**ASK, "event_id": "another"}, 3]
    with traceforge.replay(player=make_player(tmp_path, exchange)) as replayed:
        again = talk(server.url + PATH, steps)

    assert (received, 1, 1) == (again, replayed.played, server.connections)


CHANGED = {**UPDATE, "session": {"instructions": "Be rude."}}


@each_client
@pytest.mark.parametrize(
    ("steps", "message"),
    [
        pytest.param([1, CHANGED, 1, ASK, 3], r"recorded \"Be kind\.\", sent \"Be rude\.\"", id="changed"),
        pytest.param([1, ASK, 3, UPDATE, 1], r"\$\.client_frames\[0\]", id="reordered"),
        pytest.param([1, UPDATE, 1, ASK, 3, ASK, 3], r"\$\.client_frames\[2\]: recorded nothing", id="one more"),
        pytest.param([1, UPDATE, 1], r"\$\.client_frames\[1\]: recorded .*, sent nothing", id="one fewer"),
        pytest.param([1], r"\$\.client_frames\[0\]: recorded .*, sent nothing", id="closed early"),
        pytest.param([1, UPDATE, 1, json.dumps(ASK).encode(), 3], r"client_frames\[1\]\.binary", id="binary"),
    ],
)
def test_another_conversation_is_unmatched(
    talk: Talk, steps: list[Step], message: str, server: WebSocketServer, tmp_path: Path
) -> None:
    """The difference is named, and nothing that was recorded later is told."""
    exchange, _ = record(talk, server.url + PATH)

    with (
        pytest.raises(CallNotRecorded, match=message),
        traceforge.replay(player=make_player(tmp_path, exchange)) as replayed,
        contextlib.suppress(Closed),
    ):
        talk(server.url + PATH, steps)

    assert (0, 1, 1) == (replayed.played, len(replayed.unmatched), server.connections)


@each_client
def test_an_unrecorded_handshake_is_refused(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """Another model is in the address."""
    exchange, _ = record(talk, server.url + PATH)

    with (
        pytest.raises(CallNotRecorded, match="the parameter model"),
        traceforge.replay(player=make_player(tmp_path, exchange)),
        pytest.raises(Refused, match="418"),
    ):
        talk(server.url + "/v1/realtime?model=another", STEPS)

    assert 1 == server.connections


def test_two_conversations_at_once_get_their_own_recordings(server: WebSocketServer, tmp_path: Path) -> None:
    """Also where the second one goes on before the first."""
    other = {**UPDATE, "session": {"instructions": "Be as brief as you can."}}

    def talk() -> list[dict[str, Any]]:
        with (
            websockets.sync.client.connect(server.url + PATH) as first,
            websockets.sync.client.connect(server.url + PATH) as second,
        ):
            events = [first.recv(), second.recv()]
            for connection, update in ((second, other), (first, UPDATE)):
                connection.send(json.dumps(update))
                events.append(connection.recv())
        return [json.loads(event) for event in events]

    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        live = talk()
    in_order = sorted(sink.exchanges, key=lambda exchange: exchange.started_at)
    with traceforge.replay(player=make_player(tmp_path, *in_order)) as replayed:
        again = talk()

    assert (live, 2, 2) == (again, replayed.played, server.connections)


@each_client
def test_every_kind_of_frame_is_replayed_byte_for_byte(talk: Talk, tmp_path: Path) -> None:
    """Gemini sends JSON in binary frames, on several lines; audio is bytes."""
    frames: list[str | bytes] = [
        b'{\n  "setupComplete": {}\n}\n',
        b"\x00\xff\x10audio",
        b"plain bytes",
        "not JSON",
        '{"a": 1, "b": [1.50]}',
        '{"a":1,"a":2}',
        '{"a": NaN}',
        '{"a":-Infinity}',
        '{"text":"Gr\u00fc\u00dfe \U0001f600"}',
        "",
        "[" * 100_000,
        "x" * 70_000,
    ]

    def script(connection: ServerConnection) -> None:
        for frame in frames:
            connection.send(frame)
        connection.recv()
        connection.recv()

    steps: list[Step] = [len(frames), b"\x01\xfe", '{"a": NaN}']
    with websocket_server(script) as server:
        exchange, received = record(talk, server.url + PATH, steps)
    with traceforge.replay(player=make_player(tmp_path, exchange)):
        again = talk(server.url + PATH, steps)

    assert frames == received == again


@each_client
def test_the_close_of_the_server_is_replayed(talk: Talk, tmp_path: Path) -> None:
    """With its code and its reason."""

    def script(connection: ServerConnection) -> None:
        connection.recv()
        connection.close(4001, "the session expired")

    def find_close(url: str) -> tuple[int, str]:
        with pytest.raises(Closed) as caught:
            talk(url, ["hello", 1])
        return caught.value.code, caught.value.reason

    sink = MemoryRecorder()
    with websocket_server(script) as server:
        with traceforge.capture(sink=sink):
            closed = find_close(server.url + PATH)
        with traceforge.replay(player=make_player(tmp_path, *sink.exchanges)) as replayed:
            again = find_close(server.url + PATH)

    assert (4001, "the session expired") == closed == again
    assert 1 == replayed.played


@each_client
def test_a_connection_that_breaks_off_breaks_off_again(talk: Talk, tmp_path: Path) -> None:
    """Without a close frame."""

    def script(connection: ServerConnection) -> None:
        connection.send("half")
        connection.socket.shutdown(socket.SHUT_RDWR)

    def find_close(url: str) -> int:
        with pytest.raises(Closed) as caught:
            talk(url, [1, 1])
        return caught.value.code

    sink = MemoryRecorder()
    with websocket_server(script) as server:
        with traceforge.capture(sink=sink):
            live = find_close(server.url + PATH)
        with traceforge.replay(player=make_player(tmp_path, *sink.exchanges)) as replayed:
            again = find_close(server.url + PATH)

    assert CallOutcome.CUT is sink.exchanges[0].outcome
    assert (1006, 1006, 1) == (live, again, replayed.played)


@each_client
def test_a_refused_handshake_is_replayed(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """As the status that the server gave."""

    def refuse(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(401, "no such key\n")

    sink = MemoryRecorder()
    with websocket_server(realtime, process_request=refuse) as refusing:
        with traceforge.capture(sink=sink), pytest.raises(Refused, match="401"):
            talk(refusing.url + PATH, STEPS)
        player = make_player(tmp_path, *sink.exchanges)
        with traceforge.replay(player=player) as replayed, pytest.raises(Refused, match="401"):
            talk(refusing.url + PATH, STEPS)

    assert 1 == replayed.played


def test_a_refused_handshake_is_replayed_with_its_body(tmp_path: Path) -> None:
    """A client that reads it finds it."""

    def refuse(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(401, "no such key\n")

    def read_refusal(url: str) -> tuple[int, bytes]:
        with pytest.raises(InvalidStatus) as caught:
            websockets.sync.client.connect(url)
        return caught.value.response.status_code, bytes(caught.value.response.body or b"")

    sink = MemoryRecorder()
    with websocket_server(realtime, process_request=refuse) as refusing:
        with traceforge.capture(sink=sink):
            refused = read_refusal(refusing.url + PATH)
        with traceforge.replay(player=make_player(tmp_path, *sink.exchanges)):
            again = read_refusal(refusing.url + PATH)

    assert (401, b"no such key\n") == refused == again


@pytest.mark.parametrize("talk", [talk_sync, talk_aiohttp], ids=["websockets", "aiohttp"])
def test_credentials_are_not_recorded(talk: Talk, server: WebSocketServer, tmp_path: Path) -> None:
    """In the address, in a header, as the name of a protocol, and in a frame."""
    key = "AIzaSyD-not-a-real-key-0123456789abcdef"
    update = {**UPDATE, "session": {"instructions": "Be kind.", "client_secret": {"value": "ek_" + "5" * 32}}}
    exchange, _ = record(
        talk,
        f"{server.url}{PATH}&key={key}",
        (1, update, 1),
        additional_headers={"Authorization": "Bearer sk-unguessable-unguessable"},
        subprotocols=["realtime", "openai-insecure-api-key.unguessable", "openai-organization.org-unguessable"],
    )
    store = store_exchanges(tmp_path / "traces", [exchange])
    try:
        (row,) = store.list_rows(TraceFilter())
        stored = store.read_stored(row)
    finally:
        store.close()

    trace = stored.trace.decode()
    assert "Be kind." in trace
    assert [] == [secret for secret in ("unguessable", key, "ek_5") if secret in trace]


def test_a_flood_of_frames_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of frames none is kept; the application gets them all."""
    monkeypatch.setattr(recorded_conversation, "FRAMES_MAX", 50)

    def script(connection: ServerConnection) -> None:
        for number in range(200):
            connection.send(str(number))

    with websocket_server(script) as server:
        exchange, received = record(talk_sync, server.url + PATH, [200])

    assert ([str(number) for number in range(200)], b"", ()) == (received, exchange.request_body, exchange.chunks)
    assert "not kept" in exchange.error


def test_other_websockets_are_left_alone(server: WebSocketServer, tmp_path: Path) -> None:
    """A chat room of the application's own."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        talk_sync(server.url + "/room", [1])
    with traceforge.replay(player=make_player(tmp_path)):
        talk_sync(server.url + "/room", [1])

    assert ([], 2) == (sink.exchanges, server.connections)


def test_a_connection_that_is_never_closed_is_still_compared(server: WebSocketServer, tmp_path: Path) -> None:
    """At the end of the replay, with what was sent until then."""
    exchange, _ = record(talk_sync, server.url + PATH)

    def begin(steps: Sequence[Step]) -> None:
        connection = websockets.sync.client.connect(server.url + PATH, legacy=True)
        connections.append(connection)
        for step in steps:
            connection.recv() if isinstance(step, int) else connection.send(json.dumps(step))

    connections: list[Any] = []
    with traceforge.replay(player=make_player(tmp_path / "whole", exchange)) as replayed:
        begin([1, UPDATE, 1, ASK])
    with (
        pytest.raises(CallNotRecorded, match="sent nothing"),
        traceforge.replay(player=make_player(tmp_path / "part", exchange)),
    ):
        begin([1, UPDATE, 1])
    for connection in connections:
        connection.close()

    assert 1 == replayed.played
