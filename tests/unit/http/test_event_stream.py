"""Server-sent events, split anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.http.event_stream import EventStreamParser, ServerSentEvent

# Everything that could mean something to a parser, and pieces of a character that needs several bytes.
_PIECES = (
    b"data", b"event", b"id", b"retry", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"data: ", b"event: x",
    b"\xef\xbb\xbf", b"\xef", b"\xf0\x9f\x98\x80", b"\x98", b"a", b"\x00", b"[DONE]", b": comment\n", b"data\n",
    b"data:{}",
)  # fmt: skip
streams = st.lists(st.sampled_from(_PIECES), max_size=30).map(b"".join)


def reference(stream: bytes) -> list[ServerSentEvent]:
    """The HTML standard's algorithm, word for word on the whole stream; an event at the very end counts."""
    text = stream.removeprefix(b"\xef\xbb\xbf")
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    events, name, data = [], b"", []
    for line in [*lines, b""]:
        if not line:
            if data:
                events.append(ServerSentEvent(name.decode(errors="replace"), b"\n".join(data)))
            name, data = b"", []
        elif not line.startswith(b":"):
            field, colon, value = line.partition(b":")
            value = value[1:] if colon and value[:1] == b" " else value
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
    return events


def parse_in(pieces: list[bytes]) -> list[ServerSentEvent]:
    """All events of a stream that comes in pieces."""
    parser = EventStreamParser()
    return [*(event for piece in pieces for event in parser.feed(piece)), *parser.finish()]


@fuzz(1000)
@given(streams)
def test_any_stream_in_one_read_gives_the_events_of_the_standard(stream: bytes) -> None:
    """The parser agrees with the standard's own algorithm."""
    assert reference(stream) == parse_in([stream])


@fuzz(1000)
@given(st.lists(st.binary(max_size=4) | st.sampled_from(_PIECES), max_size=25))
def test_any_split_of_any_bytes_gives_the_same_events(pieces: list[bytes]) -> None:
    """Where the bytes are divided does not matter, empty reads included."""
    assert reference(b"".join(pieces)) == parse_in(pieces)


def test_an_event_is_returned_as_soon_as_it_is_complete() -> None:
    """A complete event is not held back."""
    parser = EventStreamParser()

    assert [] == parser.feed(b"data: 1\n")
    assert [ServerSentEvent("", b"1")] == parser.feed(b"\n")
    assert [ServerSentEvent("", b"2")] == parser.feed(b"data: 2\r\n\r")
    assert [] == parser.feed(b"\n")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_ends_a_line(ending: bytes) -> None:
    """CR, LF and CRLF."""
    stream = ending.join([b"event: delta", b"data: a", b"data: b", b"", b""])

    assert [ServerSentEvent("delta", b"a\nb")] == parse_in([stream])


def test_a_character_may_be_split() -> None:
    """Data stay bytes, so half a character is no problem."""
    stream = "data: 😀\n\n".encode()

    assert [ServerSentEvent("", "😀".encode())] == parse_in([stream[:8], stream[8:]])


def test_an_unterminated_last_event_is_returned_at_the_end() -> None:
    """A recording ends with the last byte that came."""
    assert [ServerSentEvent("", b"1"), ServerSentEvent("x", b"2")] == parse_in([b"data: 1\n\nevent: x\ndata: 2"])


def test_a_long_event_in_small_chunks_is_joined_once() -> None:
    """An image of several megabytes, 1 KiB at a time: joining at each piece would copy it a thousand times."""
    parser, pieces = EventStreamParser(), [b"data: ", *(b"A" * 1024 for _ in range(1_000))]
    for piece in pieces:
        parser.feed(piece)
    waiting = list(parser._pending)
    (event,) = parser.feed(b"\n\n")

    assert pieces == waiting
    assert b"A" * 1024 * 1_000 == event.data
