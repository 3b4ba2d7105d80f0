"""Streams that no dialect knows, as traces: redacted, with their chunks, and never taken for complete."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import msgspec
import pytest

from support.exchanges import COMPOSER, make_exchange, response_bytes, trace_body
from support.wire_transcripts import CHAT
from traceforge.exchange import CallOutcome, Chunk, Exchange
from traceforge.redact.redactions import REDACTED
from traceforge.replay.trace_recordings import response_from_trace
from traceforge.traces.chunk_file import read_chunks
from traceforge.wire.binary_frames import FRAMES_TYPE, Frame, write_headers

MAIL = "ann.lee@corp-example.org"
SSE = "text/event-stream"
EVENTS = b"event: output\ndata: Leek \n\nevent: output\ndata: soup\n\nevent: done\ndata: {}\n\n"
FRAMES = Frame(write_headers({":event-type": "part"}), b'{"part":1}').encode() * 2
SOUND = b"ID3\x04" + bytes(range(256))


def streamed(body: bytes, media_type: str, *, cut: int = 10, **fields: object) -> Exchange:
    """A response in chunks of a few bytes, without a length."""
    return make_exchange(
        "/v1/other", {"x": 1}, body, media_type=media_type, cuts=range(cut, len(body), cut), **fields
    )  # type: ignore[arg-type]


def chunks_of(exchange: Exchange) -> list[Chunk]:
    return read_chunks(COMPOSER.compose(exchange).chunks)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (EVENTS, SSE), (EVENTS, "text/plain"), (b'{"a":1}\n{"a":2}\n', "application/x-ndjson"),
        (b'{"a":1}\n{"a":2}\n', "application/json"), (b'{"a": 1, "a": 2}\n', "application/jsonl"),
        (FRAMES, FRAMES_TYPE), (SOUND, "audio/mpeg"), (b"a plain text that comes word by word", "text/plain"),
    ],
)  # fmt: skip
def test_every_stream_keeps_its_chunks_and_their_times(body: bytes, media_type: str) -> None:
    """The trace says that it was one, and holds its text."""
    exchange = streamed(body, media_type)

    stored = COMPOSER.compose(exchange)

    trace = trace_body(stored)
    assert list(exchange.chunks) == read_chunks(stored.chunks)
    assert (True, True, "raw") == (stored.summary.streamed, trace["request"]["stream"], trace["wire"]["ending"])
    assert "response_layout" not in trace["wire"]
    response = response_from_trace(trace, stored.chunks)
    assert response is not None
    assert (exchange.chunks, True, False) == (response.chunks, response.streamed, response.cut)
    assert body == response_bytes(stored)


def test_a_whole_answer_has_no_chunks() -> None:
    """A JSON document, also under the label of a stream; what has a length; what a tool says; and a WebSocket."""
    sized = (("Content-Length", "36"), ("Content-Type", "text/plain"))
    tool = make_exchange("mcp://files/tools/call", {}, b"{}\n{}\n", media_type="application/x-ndjson", cuts=[3])
    exchanges = [
        streamed(b'{"error": {"message": "no such model"}}', SSE),
        streamed(b'{"a": [1, 2, 3, 4]}', "application/json"),
        msgspec.structs.replace(streamed(SOUND, "audio/mpeg"), response_headers=sized),
        tool,
        streamed(b'{"server_frames":[{"after":1,', "", status=101),
        make_exchange(CHAT, {"model": "m"}, b"<html>Bad gateway</html>", media_type="text/html", cuts=[6]),
    ]

    assert [b""] * 6 == [COMPOSER.compose(exchange).chunks for exchange in exchanges]


@pytest.mark.parametrize(
    ("outcome", "body", "is_cut"),
    [
        (CallOutcome.CUT, EVENTS, True),
        (CallOutcome.CLIENT_LEFT, EVENTS, True),
        (CallOutcome.CUT, b'{"done": true}\n', True),
        (CallOutcome.ANSWERED, EVENTS, False),
        (CallOutcome.CUT, EVENTS + b"data: [DONE]\n\n", False),
        (CallOutcome.CUT, EVENTS + b"data: [DONE]\n\ndata: more", True),
    ],
)
def test_a_stream_that_broke_off_is_not_taken_for_complete(outcome: CallOutcome, body: bytes, is_cut: bool) -> None:
    """Unless its last event is one that says so."""
    media_type = "application/x-ndjson" if body.startswith(b"{") else SSE
    stored = COMPOSER.compose(streamed(body, media_type, outcome=outcome))

    response = response_from_trace(trace_body(stored), stored.chunks)

    assert response is not None
    assert (is_cut, True) == (response.cut, response.streamed)
    assert trace_body(stored)["metadata"]["status"] == ("error" if is_cut else "success")


def test_an_error_in_a_stream_is_one() -> None:
    """A status, or the only line."""
    line = b'{"error": {"message": "too many"}}\n'
    by_line, by_status = (
        trace_body(COMPOSER.compose(streamed(body, kind, status=status)))
        for body, kind, status in ((line, "application/x-ndjson", 200), (EVENTS, SSE, 503))
    )

    assert ("error", "too many") == (by_line["wire"]["ending"], by_line["metadata"]["error"])
    assert ("error", "HTTP status 503") == (by_status["wire"]["ending"], by_status["metadata"]["error"])


@pytest.mark.parametrize("media_type", [SSE, "text/plain", "audio/mpeg"])
@pytest.mark.parametrize("cut", [1, 5, 16, 40])
def test_a_secret_over_a_border_is_redacted(media_type: str, cut: int) -> None:
    """In the chunks and in the text; an echo of the request is refilled from there."""
    body = f"data: to {MAIL} and\n\ndata: bob.ray@corp-example.org\n\n".encode()
    exchange = make_exchange("/v1/other", {"to": MAIL}, body, media_type=media_type, cuts=range(cut, len(body), cut))

    stored = COMPOSER.compose(exchange)

    trace, chunks = trace_body(stored), read_chunks(stored.chunks)
    assert len(exchange.chunks) == len(chunks)
    data = f"data: to {REDACTED} and\n\ndata: {REDACTED}\n\n"
    assert data == trace["provider_response"] == b"".join(chunk.data for chunk in chunks).decode()
    assert [{"marker": 0, "path": "$.to", "nth": 0}] == trace["redacted"]["echoes"]
    assert b"corp-example" not in stored.trace + stored.chunks


def test_borders_beside_a_secret_stay_where_they_were() -> None:
    """In a plain text: a chunk without a secret is the same."""
    pieces = [b"to ", MAIL.encode(), b" or ", MAIL.encode()[:9], MAIL.encode()[9:], b" at ", b"noon"]
    borders = [sum(map(len, pieces[:count])) for count in range(len(pieces))]

    chunks = chunks_of(make_exchange("/v1/other", b"", b"".join(pieces), media_type="text/plain", cuts=borders))

    marker = REDACTED.encode()
    assert [b"to ", marker, b" or ", marker, b"", b" at ", b"noon"] == [chunk.data for chunk in chunks]


def test_an_encoded_stream_is_decoded_chunk_by_chunk() -> None:
    """As many chunks as came, and the text."""
    body = gzip.compress(EVENTS)
    exchange = streamed(body, SSE, encoding="gzip")

    stored = COMPOSER.compose(exchange)

    chunks = read_chunks(stored.chunks)
    assert [chunk.t_ms for chunk in exchange.chunks] == [chunk.t_ms for chunk in chunks]
    assert EVENTS == b"".join(chunk.data for chunk in chunks)


def test_json_in_one_line_is_a_value_with_exact_numbers() -> None:
    """Beside its chunks."""
    stored = COMPOSER.compose(streamed(b'{"id":12345678901234567890123}\n', "application/x-ndjson"))

    assert 12345678901234567890123 == trace_body(stored)["provider_response"]["id"]
    assert all(earlier.t_ms < later.t_ms for earlier, later in pairwise(read_chunks(stored.chunks)))
    assert json.loads(stored.chunks.splitlines()[0])["data"] == '{"id":1234'
