"""Which responses were streams, where no dialect knows."""

from __future__ import annotations

import pytest

from traceforge.wire.dialect_declaration import BodyFraming
from traceforge.wire.unknown_stream import ends_with_done, is_unknown_stream

PIECES = [b"one ", b"", b"two"]


@pytest.mark.parametrize(
    ("framing", "media_type", "chunks", "has_length", "is_left", "expected"),
    [
        (BodyFraming.SSE, "text/event-stream; charset=utf-8", [b"data: 1\n\n"], True, False, True),
        (BodyFraming.SSE, "text/plain", [b"data: 1\n\n"], True, False, False),
        (BodyFraming.SSE, "text/plain", [b"data: 1\n\n"], False, False, True),
        (BodyFraming.LINES, "application/x-ndjson", [b"{}\n"], False, False, True),
        (BodyFraming.LINES, "application/jsonl", [b"{}\n", b"{}\n"], True, False, False),
        (BodyFraming.FRAMES, "application/vnd.amazon.eventstream", [b"\0"], False, False, True),
        (BodyFraming.WHOLE, "audio/mpeg", PIECES, False, False, True),
        (BodyFraming.WHOLE, "audio/mpeg", PIECES, True, False, False),
        (BodyFraming.WHOLE, "", [b"one", b""], False, False, False),
        (BodyFraming.WHOLE, "", [b"one", b""], False, True, True),
        (BodyFraming.WHOLE, "", [b""], False, True, False),
        (BodyFraming.WHOLE, "application/json", [b'{"a":', b"1}"], False, False, False),
        (BodyFraming.WHOLE, "text/plain", [b' {"a":', b"1}"], False, False, False),
        (BodyFraming.WHOLE, "application/problem+json", [b'{"a":', b"1"], False, True, False),
        (BodyFraming.WHOLE, "application/json", [b'{"a":1}\n', b'{"a":2}\n'], False, False, True),
        (BodyFraming.WHOLE, "text/plain", [b"[1", b"2 and so on"], False, False, True),
    ],
)
def test_a_stream_has_a_label_or_chunks_without_a_length(
    framing: BodyFraming, media_type: str, chunks: list[bytes], has_length: bool, is_left: bool, expected: bool
) -> None:
    """And it is no JSON document, not even one that was cut off."""
    assert expected is is_unknown_stream(framing, media_type, chunks, has_length=has_length, is_left=is_left)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\ndata: [DONE]\n\n", True),
        (b"data: a\n\nevent: done\r\ndata: [DONE]", True),
        (b"data: [DONE]\n\ndata: a\n\n", False),
        (b"data: say [DONE]\n\n", False),
        (b"event: done\ndata: {}\n\n", False),
        (b"", False),
    ],
)
def test_only_a_last_event_that_is_done_says_that_a_stream_is_complete(data: bytes, expected: bool) -> None:
    assert expected is ends_with_done(data)
