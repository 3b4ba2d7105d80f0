"""Calls that the proxy answers from recordings: transcripts on sockets, and timers without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.corpus import need_shared
from support.corpus_traffic import interactions
from support.exchanges import chat_request, local_url, make_exchange, recorded_exchange, timestamp
from support.raw_sockets import LOOPS, Peer, content_length, read_chunks, request, response
from support.replayed_calls import EVENTS, QUESTION, recorded_call, replaying, streamed
from support.wire_transcripts import CHAT
from traceforge.capture.proxy.response_writer import REMEMBERED_BYTES_MAX, REMEMBERED_MAX
from traceforge.exchange import CallOutcome, Chunk

SENT_HEADERS = frozenset({"anthropic-version", "anthropic-beta", "openai-beta", "api-version", "content-type"})


def test_a_plain_response_is_replayed_unchanged(tmp_path: Path) -> None:
    """Status, headers and body; the connection stays, and the next request gets the next response."""
    calls = [recorded_call({"n": 1}, number=1), recorded_call({"n": 2}, number=2)]
    with replaying(tmp_path, *calls) as (_, proxy, player):
        client = proxy.post(body=QUESTION)
        first = client.response()
        client.send(request(body=QUESTION))
        second = client.response()

    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
    assert (head + b'{"n":1}', head + b'{"n":2}') == (first, second)
    assert 2 == player.played_count


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stream_keeps_its_chunks(tmp_path: Path, loop: str) -> None:
    """Each is one HTTP chunk, whatever its borders; one that redaction has emptied is left out."""
    pieces = [EVENTS[0][:7], EVENTS[0][7:], b"".join(EVENTS[1:3]), b"", EVENTS[3]]
    with replaying(tmp_path, streamed(pieces), loop=loop) as (_, proxy, _):
        client = proxy.post(body=QUESTION)
        head = client.read_head()
        chunks = read_chunks(client)
        client.send(request(body=QUESTION))
        assert client.read_head() == head

    assert b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" == head
    assert [piece for piece in pieces if piece] == chunks


def test_real_streams_keep_their_chunks(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """A sample of the corpus over the socket: the HTTP chunks are the recorded ones."""
    streams = [
        interaction
        for interaction in interactions(need_shared("corpus/llm"))
        if interaction.streaming and interaction.request and interaction.generates
    ]
    calls = []
    for number, interaction in enumerate(streams[::40]):
        exchange = recorded_exchange(interaction, number)
        body = b"".join(chunk.data for chunk in exchange.chunks)
        borders = accumulate([0, *[1 + (number * 7919 + n * 104729) % 2000 for n in range(len(body) // 600)]])
        cuts = [*(border for border in borders if border < len(body)), len(body)]
        pieces = tuple(Chunk(1.0, body[first:second]) for first, second in pairwise(cuts))
        sent = tuple(header for header in exchange.request_headers if header[0].lower() in SENT_HEADERS)
        calls.append(
            msgspec.structs.replace(
                exchange,
                url=local_url(exchange.url),
                request_headers=sent,
                chunks=pieces,
                started_at=timestamp(number),
            )
        )
    equal = 0
    with replaying(tmp_path, *calls) as (_, proxy, player):
        client = proxy.connect()
        for exchange in calls:
            target = exchange.url.partition("://")[2].partition("/")[2]
            headers = "".join(f"{name}: {value}\r\n" for name, value in exchange.request_headers)
            client.send(request(f"/up/{target}", exchange.request_body, headers.encode()))
            head = client.read_head()
            if b"chunked" not in head:
                client.read_exactly(content_length(head))
                continue
            chunks = read_chunks(client)
            equal += [chunk.data for chunk in exchange.chunks if chunk.data] == chunks
    record_property(
        "summary", f"streams of the corpus over the proxy's socket, chunks equal: {equal} of {len(calls)}"
    )
    assert [] == player.unmatched
    assert equal > 0.9 * len(calls) > 50


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 529, 299])
def test_a_provider_error_is_replayed_unchanged(tmp_path: Path, status: int) -> None:
    """With its headers; also a status without a standard phrase."""
    body = {"error": {"message": "slow down"}}
    with replaying(tmp_path, recorded_call(body, status=status)) as (_, proxy, player):
        response_bytes = proxy.post(body=QUESTION).response()

    assert response_bytes.startswith(f"HTTP/1.1 {status} ".encode())
    assert response_bytes.endswith(b'\r\n\r\n{"error":{"message":"slow down"}}')
    assert [] == player.unmatched


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(tmp_path: Path, status: int) -> None:
    """Nor does the response have a length."""
    with replaying(tmp_path, recorded_call(b"", status=status)) as (_, proxy, _):
        client = proxy.post(body=QUESTION)
        head = client.read_head()
        client.send(request(body=QUESTION))
        assert client.read_head() == head

    assert b"content-length" not in head.lower()
    assert b"transfer-encoding" not in head.lower()


def test_the_response_to_head_has_no_body(tmp_path: Path) -> None:
    """The next response on the connection is read correctly."""
    models = make_exchange("/v1/models", b"", b"", media_type="application/json", request_media_type="")
    head_call = msgspec.structs.replace(models, method="HEAD")
    with replaying(tmp_path, head_call, recorded_call({"n": 1}, number=1)) as (_, proxy, _):
        client = proxy.connect()
        client.send(b"HEAD /up/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = client.read_head()
        client.send(request(body=QUESTION))

        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert client.response().endswith(b'{"n":1}')


def test_an_http_1_0_client_gets_a_stream_until_the_close(tmp_path: Path) -> None:
    """HTTP/1.0 has no chunks."""
    with replaying(tmp_path, streamed()) as (_, proxy, _):
        client = proxy.connect()
        client.send(b"POST /up%s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(QUESTION), QUESTION))
        head = client.read_head()

        assert b"Connection: close" in head
        assert b"chunked" not in head
        assert b"".join(EVENTS) == client.read_to_end()


@pytest.mark.parametrize("minor", [0, 1])
def test_a_cut_stream_is_cut_again(tmp_path: Path, minor: int) -> None:
    """No end is invented: a client would take half a response for a complete one."""
    with replaying(tmp_path, streamed(EVENTS[:2], outcome=CallOutcome.CUT)) as (_, proxy, player):
        client = proxy.connect()
        head = b"POST /up%s HTTP/1.%d\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        client.send(head % (CHAT.encode(), minor, len(QUESTION)) + QUESTION)
        if minor:
            client.read_head()
            assert EVENTS[:2] == [client.read_exactly(int(client.read_until(b"\r\n"), 16) + 2)[:-2] for _ in range(2)]
            assert b"" == client.read_to_end()
        else:
            assert client.is_closed_by_peer()
    assert [] == player.unmatched


def test_a_cut_plain_response_is_cut_again(tmp_path: Path) -> None:
    """Half a document is not a document."""
    with replaying(tmp_path, recorded_call(b'{"choices": [', outcome=CallOutcome.CUT)) as (_, proxy, _):
        client = proxy.post(body=QUESTION)
        client.read_head()

        assert b'd\r\n{"choices": [\r\n' == client.read_to_end()


def test_an_unmatched_request_is_answered_at_once_and_counted(tmp_path: Path) -> None:
    """In one response, on a connection that stays."""
    with replaying(tmp_path, recorded_call({"n": 1})) as (_, proxy, player):
        client = proxy.post(body=json.dumps(chat_request("hallo")).encode())
        response_bytes = client.response()
        client.send(request(body=QUESTION))
        assert client.response().endswith(b'{"n":1}')

    assert response_bytes.startswith(b"HTTP/1.1 418 ")
    assert b"\r\nx-should-retry: false\r\n" in response_bytes
    assert b'recorded \\"hello\\", sent \\"hallo\\"' in response_bytes
    assert (1, 1) == (len(player.unmatched), player.played_count)


def test_without_recordings_every_request_is_unmatched(tmp_path: Path) -> None:
    """The upstream is never called."""
    with replaying(tmp_path) as (_, proxy, player):
        assert b"nothing was recorded" in proxy.post(body=QUESTION).response()
    assert 1 == len(player.unmatched)


def test_a_client_with_traceforge_headers_gets_the_name_of_the_trace(tmp_path: Path) -> None:
    """Other clients get the provider's response and nothing else."""
    exchange = recorded_call({"n": 1})
    with replaying(tmp_path, exchange) as (_, proxy, _):
        spoken = proxy.post(body=QUESTION, headers=b"X-TraceForge-Session-ID: s\r\n").response()
        silent = proxy.post(body=QUESTION).response()

    assert f"\r\nX-TraceForge-Replayed: {exchange.id}\r\n".encode() in spoken
    assert b"TraceForge" not in silent


def test_an_unusable_traceforge_header_is_refused(tmp_path: Path) -> None:
    """While recording it is counted and the call goes on; in a replay it would be another call."""
    with replaying(tmp_path, recorded_call({"n": 1})) as (_, proxy, player):
        client = proxy.post(body=QUESTION, headers=b"X-TraceForge-Step-Index: first\r\n")
        response_bytes = client.response()
        client.send(request(body=QUESTION))
        assert client.response().endswith(b'{"n":1}')

    assert response_bytes.startswith(b"HTTP/1.1 400 ")
    assert b"X-TraceForge-Step-Index must be a whole number from 0" in response_bytes
    assert 1 == len(player.unmatched)


@pytest.mark.parametrize("auto", [False, True])
def test_a_request_that_is_not_admitted_is_unmatched_in_a_strict_replay(tmp_path: Path, auto: bool) -> None:
    """An unknown path, an upgrade: the application did not get what it got when recording."""
    upgrade = b"GET /up/v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n"
    with replaying(tmp_path, recorded_call({"n": 1}), auto=auto) as (_, proxy, player):
        assert proxy.post("/nowhere/x").response().startswith(b"HTTP/1.1 404 ")
        client = proxy.connect()
        client.send(upgrade)
        assert client.response().startswith(b"HTTP/1.1 501 ")
        client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        client.response()

    assert (0 if auto else 2) == len(player.unmatched)


def test_a_bug_of_ours_gets_a_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that breaks would be tried again without a reason."""
    with replaying(tmp_path, recorded_call({"n": 1})) as (_, proxy, player):
        monkeypatch.setattr(player, "play", lambda *_, **__: 1 / 0)
        response_bytes = proxy.post(body=QUESTION).response()

    assert response_bytes.startswith(b"HTTP/1.1 418 ")
    assert b"the lookup of a recording failed (ZeroDivisionError)" in response_bytes
    assert 1 == len(player.unmatched)


def test_a_body_may_arrive_in_several_reads_and_after_100_continue(tmp_path: Path) -> None:
    """Chunked, too."""
    with replaying(tmp_path, recorded_call({"n": 1})) as (_, proxy, _):
        client = proxy.connect()
        client.send(b"POST /up%s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % CHAT.encode())
        for piece in (QUESTION[:9], QUESTION[9:]):
            client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        client.send(b"0\r\n\r\n")
        assert client.response().endswith(b'{"n":1}')

        head = b"POST /up%s HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        client.send(head % (CHAT.encode(), len(QUESTION)))
        assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.read_head()
        client.send(QUESTION)
        assert client.response().endswith(b'{"n":1}')


def test_pipelined_requests_are_answered_in_turn(tmp_path: Path) -> None:
    """On one connection."""
    calls = [recorded_call({"n": n}, number=n) for n in range(3)]
    with replaying(tmp_path, *calls) as (_, proxy, _):
        client = proxy.connect()
        client.send(request(body=QUESTION) * 3)

        assert [f'{{"n":{n}}}'.encode() for n in range(3)] == [client.response()[-7:] for _ in range(3)]


# -- auto


def test_in_auto_mode_an_unmatched_request_is_relayed_and_recorded(tmp_path: Path) -> None:
    """Recorded ones are not relayed; none counts as unmatched."""
    other = json.dumps(chat_request("new")).encode()
    with replaying(tmp_path, recorded_call({"n": 1}), auto=True) as (upstream, proxy, player):
        assert proxy.post(body=QUESTION).response().endswith(b'{"n":1}')
        client = proxy.post(body=other)
        server = upstream.accept()
        assert server.request().endswith(other)
        server.send(response(b'{"n":2}'))
        assert client.response().endswith(b'{"n":2}')
        (exchange,) = proxy.sink.wait()
        client.send(request(body=QUESTION))
        assert client.response().endswith(b'{"n":1}')

    assert (other, 200) == (exchange.request_body, exchange.status)
    assert ([], 1, 2) == (player.unmatched, player.upstream_count, player.played_count)
    assert 0 == proxy.state.metrics.in_flight


def test_in_auto_mode_a_chunked_body_is_relayed_unchanged(tmp_path: Path) -> None:
    """Byte for byte."""
    with replaying(tmp_path, auto=True) as (upstream, proxy, _):
        client = proxy.connect()
        client.send(b"POST /up/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        client.send(b"0\r\n\r\n")
        server = upstream.accept()
        server.read_head()
        assert b"2\r\n{}\r\n0\r\n\r\n" == server.read_exactly(12)
        server.send(response(b"{}"))
        assert client.response().endswith(b"{}")


@pytest.mark.parametrize("size", [10, REMEMBERED_BYTES_MAX])
def test_a_remembered_response_is_never_sent_for_another(tmp_path: Path, size: int) -> None:
    """In turn, past the last one, after others, and beside a response that is filled from the request."""
    mails = ("ada@lovelace.org", "grace@hopper.org")
    calls = [recorded_call({"n": n, "fill": "x" * size}, number=n) for n in range(1, 4)]
    others = [
        make_exchange(CHAT, chat_request(f"q{n}"), {"q": n}, number=10 + n, request_media_type="")
        for n in range(REMEMBERED_MAX)
    ]
    echo = make_exchange(
        CHAT, chat_request(f"write to {mails[0]}"), {"to": mails[0]}, number=4, request_media_type=""
    )
    with replaying(tmp_path, *calls, *others, echo) as (_, proxy, _):
        client = proxy.connect()

        def send_request(body: bytes) -> dict[str, Any]:
            client.send(request(body=body))
            answer: dict[str, Any] = json.loads(client.response().partition(b"\r\n\r\n")[2])
            return answer

        turns = [send_request(QUESTION)["n"] for _ in range(5)]
        echoed = [
            send_request(json.dumps(chat_request(f"write to {mail}")).encode())["to"] for mail in (*mails, *mails)
        ]
        numbers = [
            send_request(json.dumps(chat_request(f"q{n}")).encode())["q"] for n in [*range(REMEMBERED_MAX), 0, 1]
        ]

    assert [1, 2, 3, 3, 3] == turns
    assert [*mails, *mails] == echoed
    assert [*range(REMEMBERED_MAX), 0, 1] == numbers


def test_a_client_may_leave_a_paced_stream(tmp_path: Path) -> None:
    """On a real socket: the proxy goes on, and has nothing in flight."""
    with replaying(tmp_path, streamed(times=[1, 60_000, 60_000, 60_000]), pace=1.0) as (_, proxy, _):
        client: Peer = proxy.post(body=QUESTION)
        client.read_head()
        client.read_until(EVENTS[0])
        client.reset()
        other = proxy.connect()
        for _ in range(200):
            other.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            page = other.response()
            if b'in_flight{worker="0"} 0' in page:
                break
    assert b'outcomes_total{outcome="left",worker="0"} 1' in page
