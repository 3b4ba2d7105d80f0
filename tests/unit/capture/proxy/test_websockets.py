"""WebSockets through the proxy: forwarded byte for byte, recorded frame by frame, and replayed."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode

from support.raw_sockets import LOOPS, Peer, Proxy, Upstream, read_until_broken, request, response
from support.replay_player import make_player
from support.websocket_server import realtime, websocket_server
from support.websocket_talk import TALKS, Closed, Refused, Step, Talk, talk_sync
from traceforge.capture.hook.websocket_frames import MESSAGE_BYTES_MAX
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.exchange import CallOutcome, Exchange
from traceforge.http.server_limits import PROXY_LIMITS
from traceforge.replay.player import Player

UPDATE = {"type": "session.update", "event_id": "mine_1", "session": {"instructions": "Be kind."}}
ASK = {"type": "response.create", "event_id": "mine_2"}
STEPS: tuple[Step, ...] = (1, UPDATE, 1, ASK, 3)
PATH = "/v1/realtime?model=gpt-realtime"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = (
    f"GET /up{PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n"
).encode()
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Server: it\r\n"
HELLO = b"\x81\x05hello"
CLOSED = b"\x88\x02\x03\xe8"


@contextmanager
def running(url: str, **options: Any) -> Iterator[Proxy]:
    """A proxy in front of a server that it knows by a path."""
    proxy = Proxy({"up": url.replace("ws:", "http:")}, **options)
    try:
        yield proxy
    finally:
        proxy.stop()


def url_of(proxy: Proxy) -> str:
    return f"ws://127.0.0.1:{proxy.port}/up{PATH}"


def record(talk: Talk = talk_sync, steps: tuple[Step, ...] = STEPS, **options: Any) -> Exchange:
    """One conversation, as the proxy records it."""
    with websocket_server(realtime) as server, running(server.url) as proxy:
        talk(url_of(proxy), steps, **options)
        (exchange,) = proxy.sink.wait()
        found: Exchange = exchange
    return found


@contextmanager
def replaying(folder: Path, *exchanges: Exchange, loop: str = "uvloop") -> Iterator[tuple[Proxy, Player]]:
    """A proxy that replays, and knows no server."""
    player = make_player(folder, *exchanges)
    proxy = Proxy({"up": "http://127.0.0.1:1"}, loop=loop, replay=ReplayResponder(player), sink=False)
    try:
        yield proxy, player
    finally:
        proxy.stop()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_a_conversation_is_recorded_and_replayed(talk: Talk, loop: str, tmp_path: Path) -> None:
    """As it is without the proxy, whatever the client library negotiates."""
    with websocket_server(realtime) as server:
        direct = talk(server.url + PATH, STEPS)
        with running(server.url, loop=loop) as proxy:
            relayed = talk(url_of(proxy), STEPS)
            (exchange,) = proxy.sink.wait()
    with replaying(tmp_path, exchange, loop=loop) as (proxy, player):
        again = talk(url_of(proxy), STEPS)

    sent = [frame["json"] for frame in json.loads(exchange.request_body)["client_frames"]]
    answered = json.loads(b"".join(chunk.data for chunk in exchange.chunks))["server_frames"]
    assert direct == relayed == again
    assert (["GET", f"http://127.0.0.1:{server.port}{PATH}"], [UPDATE, ASK]) == (
        [exchange.method, exchange.url],
        sent,
    )
    assert [json.loads(text) for text in direct] == [frame["json"] for frame in answered]
    assert [0, 1, 2, 2, 2] == [frame["after"] for frame in answered]
    assert (CallOutcome.ANSWERED, 101, 1, 0) == (
        exchange.outcome, exchange.status, player.played_count, len(player.unmatched)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        pytest.param((1, {**UPDATE, "session": {"instructions": "Be rude."}}, 1), "client_frames[0]", id="changed"),
        pytest.param((1, UPDATE, 1), "client_frames[1]: recorded", id="one fewer"),
        pytest.param((1, UPDATE, 1, ASK, 3, ASK, 3), "client_frames[2]: recorded nothing", id="one more"),
        pytest.param((1,), "client_frames[0]: recorded", id="closed early"),
    ],
)
def test_another_conversation_is_unmatched(steps: tuple[Step, ...], message: str, tmp_path: Path) -> None:
    """Nothing that was recorded later is told; and the message names the frame."""
    with replaying(tmp_path, record()) as (proxy, player), contextlib.suppress(Closed):
        talk_sync(url_of(proxy), steps)

    (unmatched,) = player.unmatched
    assert (0, True) == (player.played_count, message in unmatched.message), unmatched.message


def test_a_client_that_never_closes_is_compared_when_the_proxy_stops(tmp_path: Path) -> None:
    """With what it had sent by then."""
    with replaying(tmp_path, record()) as (proxy, player):
        connection = websockets.sync.client.connect(url_of(proxy), legacy=True)
        connection.recv()
        connection.send(json.dumps(UPDATE))
        connection.recv()
    connection.close()

    assert (0, 1) == (player.played_count, len(player.unmatched))


def test_an_unrecorded_websocket_is_refused(tmp_path: Path) -> None:
    """With the status of every unmatched call; the application's headers for TraceForge are read."""
    with replaying(tmp_path, record()) as (proxy, player):
        with pytest.raises(Refused, match="418"):
            talk_sync(url_of(proxy).replace("gpt-realtime", "another"), STEPS)
        with pytest.raises(Refused, match="418"):
            talk_sync(url_of(proxy), STEPS, additional_headers={"X-TraceForge-Step-Index": "no number"})

    unknown, unusable = [item.message for item in player.unmatched]
    assert "the parameter model" in unknown
    assert "X-TraceForge-Step-Index" in unusable


def test_a_replay_that_may_go_upstream_records_the_conversation(tmp_path: Path) -> None:
    """It cannot be looked up before it is open."""
    responder = ReplayResponder(make_player(tmp_path, record()), 0.0, True)
    with websocket_server(realtime) as server, running(server.url, replay=responder) as proxy:
        talk_sync(url_of(proxy), STEPS)
        proxy.sink.wait()

    assert 1 == server.connections


# -- bytes


def opened(pair: tuple[Upstream, Proxy], headers: bytes = b"", answer: bytes = ACCEPTED) -> tuple[Peer, Peer]:
    """A client and a server between which a WebSocket is open."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(HANDSHAKE + headers + b"\r\n")
    server = upstream.accept()
    server.read_head()
    server.send(answer + b"\r\n")
    client.read_head()
    return client, server


def frames_of(exchange: Exchange) -> tuple[list[Any], list[Any]]:
    """The frames of both sides."""
    answered = json.loads(b"".join(chunk.data for chunk in exchange.chunks))
    return json.loads(exchange.request_body)["client_frames"], answered["server_frames"]


def test_the_handshake_goes_through_as_it_is(pair: tuple[Upstream, Proxy]) -> None:
    """But for the address, and offers of extensions that could not be read; frames may come with the answer."""
    upstream, proxy = pair
    client = proxy.connect()
    extensions = b"Sec-WebSocket-Extensions: x-own;a=1, permessage-deflate; client_max_window_bits\r\n"
    client.send(HANDSHAKE + extensions + b"X-TraceForge-Step-Index: 1\r\n\r\n")
    server = upstream.accept()
    received = server.read_head()
    server.send(ACCEPTED + b"X-Other: 1\r\n\r\n" + HELLO)
    answer = client.read_head()
    hello = client.read_exactly(len(HELLO))

    assert (
        received
        == (
            f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{upstream.port}\r\nSec-WebSocket-Key: {KEY}\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        ).encode()
    )
    assert {b"X-Server: it", b"X-Other: 1", b"Connection: Upgrade", b"Upgrade: websocket"} <= {*answer.split(b"\r\n")}
    assert HELLO == hello


@pytest.mark.parametrize("is_deflated", [False, True])
def test_frames_go_through_byte_for_byte(pair: tuple[Upstream, Proxy], is_deflated: bool) -> None:
    """Fragments, pings between them, compression, binary frames; what was said is recorded."""
    agreed = b"Sec-WebSocket-Extensions: permessage-deflate\r\n" if is_deflated else b""
    client, server = opened(pair, agreed, ACCEPTED + agreed)
    frames = [
        Frame(Opcode.TEXT, b'{"type": ', fin=False),
        Frame(Opcode.PING, b"?"),
        Frame(Opcode.CONT, b'"x"}'),
        Frame(Opcode.BINARY, b"\x00\xff" * 40_000),
        Frame(Opcode.PONG, b""),
    ]
    for sender, receiver, mask in ((client, server, True), (server, client, False)):
        extensions = [PerMessageDeflate(False, False, 15, 15)] if is_deflated else []
        data = b"".join(frame.serialize(mask=mask, extensions=extensions) for frame in frames)
        for start in range(0, len(data), 1000):
            sender.send(data[start : start + 1000])
        assert data == receiver.read_exactly(len(data))
    server.send(CLOSED)
    client.read_exactly(4)
    server.close()

    assert client.is_closed_by_peer()
    sent, answered = frames_of(pair[1].sink.wait()[0])
    assert [{"layout": "spaced", "json": {"type": "x"}}] == sent[:1]
    assert [{"after": 2, **frame} for frame in sent] + [{"after": 2, "close": 1000}] == answered


def test_what_is_no_websocket_goes_through_and_breaks_the_recording_off(pair: tuple[Upstream, Proxy]) -> None:
    """Who reads it judges it: a masked frame of a server, and whatever follows."""
    client, server = opened(pair)
    server.send(HELLO + b"\x81\x81mask." + b"\xff" * 100_000)
    assert HELLO == client.read_exactly(len(HELLO))
    client.read_exactly(7 + 100_000)
    server.close()

    assert client.is_closed_by_peer()
    (exchange,) = pair[1].sink.wait()
    assert [{"after": 0, "text": "hello"}, {"after": 0, "broken": True}] == frames_of(exchange)[1]
    assert (CallOutcome.CUT, {}) == (exchange.outcome, pair[1].state.metrics.recording_failures)


def test_a_frame_of_any_size_goes_through_without_being_kept(pair: tuple[Upstream, Proxy]) -> None:
    """Its length alone says that it is not recorded."""
    client, server = opened(pair)
    head = struct.pack(">BBQ", 0x82, 127, (1 << 63) - 1)
    server.send(head + b"x" * 200_000)
    client.read_exactly(len(head) + 200_000)
    client.close()

    assert server.is_closed_by_peer()
    (exchange,) = pair[1].sink.wait()
    assert (b"", (), CallOutcome.CUT) == (exchange.request_body, exchange.chunks, exchange.outcome)
    assert "not kept" in exchange.error


def test_a_slow_reader_stops_the_other_side(pair: tuple[Upstream, Proxy]) -> None:
    """What it does not read waits at the sender, not in the proxy; then everything arrives."""
    client, server = opened(pair)
    server.sock.settimeout(0.5)
    message = struct.pack(">BBQ", 0x82, 127, 1 << 20) + b"\x01" * (1 << 20)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64:
            server.sock.sendall(message)
            sent += 1
    received = client.read_exactly(sent * len(message))
    client.close()

    assert (True, True) == (sent < 32, message * sent == received)


# -- endings


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_server_that_breaks_off_breaks_off_at_the_client(pair: tuple[Upstream, Proxy], how: str) -> None:
    """The client sees the same end."""
    client, server = opened(pair)
    server.send(HELLO)
    client.read_exactly(len(HELLO))
    server.reset() if how == "reset" else server.close()

    assert b"" == read_until_broken(client, how)
    (exchange,) = pair[1].sink.wait()
    assert CallOutcome.CUT is exchange.outcome
    assert {"after": 0, "broken": True} == frames_of(exchange)[1][-1]
    assert 0 == pair[1].state.metrics.in_flight


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_client_that_leaves_leaves_at_the_server(pair: tuple[Upstream, Proxy], says_goodbye: bool) -> None:
    """What it sent last arrives before."""
    client, server = opened(pair)
    goodbye = Frame(Opcode.CLOSE, b"\x03\xe9").serialize(mask=True) if says_goodbye else b""
    hello = Frame(Opcode.TEXT, b"hello").serialize(mask=True)
    client.send(hello + goodbye)
    client.close()

    assert hello + goodbye == server.read_to_end()
    (exchange,) = pair[1].sink.wait()
    assert ([{"text": "hello"}], []) == frames_of(exchange)
    assert (CallOutcome.ANSWERED if says_goodbye else CallOutcome.CLIENT_LEFT) is exchange.outcome


def test_a_refused_handshake_is_a_response_like_any_other(pair: tuple[Upstream, Proxy]) -> None:
    """The connection goes on, and what the client sent too early is its next request."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(HANDSHAKE + b"\r\n" + request())
    server = upstream.accept()
    server.read_head()
    server.send(response(b"no such key", status=b"401 Unauthorized"))
    assert client.response().endswith(b"no such key")
    server.request()
    server.send(response(b"[]"))

    assert client.response().endswith(b"[]")
    refused = next(exchange for exchange in proxy.sink.wait(2) if exchange.status == 401)
    assert (b'{"client_frames":[]}', b"no such key", CallOutcome.ANSWERED) == (
        refused.request_body, b"".join(chunk.data for chunk in refused.chunks), refused.outcome
    )  # fmt: skip


def test_a_switch_that_was_not_asked_for_opens_no_websocket(pair: tuple[Upstream, Proxy]) -> None:
    """Of a request without an upgrade, or to another protocol: forwarded as it is, for the client to judge."""
    upstream, proxy = pair
    client = proxy.connect()
    client.send(HANDSHAKE + b"\r\n")
    server = upstream.accept()
    server.read_head()
    answer = ACCEPTED.replace(b"websocket", b"TLS/1.0") + b"\r\n"
    server.send(answer)

    assert answer == client.read_head()
    assert CallOutcome.FAILED is proxy.sink.wait()[0].outcome


def test_what_asks_for_no_websocket_gets_none(pair: tuple[Upstream, Proxy]) -> None:
    """A POST, a body, another protocol; each is refused and counted."""
    upstream, proxy = pair
    for old, new in ((b"GET", b"POST"), (b"WebSocket", b"other"), (b"keep-alive, Upgrade", b"keep-alive")):
        client = proxy.connect()
        client.send(HANDSHAKE.replace(old, new) + b"\r\n")
        assert client.read_head().startswith(b"HTTP/1.1 501 ")

    assert 3 == proxy.state.metrics.unseen
    assert upstream.has_no_other_connection()


def test_websockets_count_as_calls() -> None:
    """No more are open than one client may have calls in flight; those that are open when the proxy stops are cut."""
    limits = PROXY_LIMITS._replace(calls_per_address=2)
    with websocket_server(realtime) as server, running(server.url, limits=limits) as proxy:
        peers = [proxy.connect() for _ in range(2)]
        for peer in peers:
            peer.send(HANDSHAKE + b"\r\n")
            assert peer.read_head().startswith(b"HTTP/1.1 101 ")
        third = proxy.connect()
        third.send(HANDSHAKE + b"\r\n")

        assert third.read_head().startswith(b"HTTP/1.1 429 ")
        assert 2 == proxy.state.metrics.in_flight
    assert [CallOutcome.CUT] * 2 == [exchange.outcome for exchange in proxy.sink.wait(2)]


def test_a_flood_of_tiny_fragments_is_not_kept(pair: tuple[Upstream, Proxy]) -> None:
    """A message that never ends is forwarded and takes no more memory than its bytes."""
    client, server = opened(pair)
    flood = b"\x02\x00" + b"\x00\x00" * 100_000
    server.send(flood)
    assert flood == client.read_exactly(len(flood))
    client.close()

    (exchange,) = pair[1].sink.wait()
    assert [] == frames_of(exchange)[1]
    assert MESSAGE_BYTES_MAX < 64 << 20
