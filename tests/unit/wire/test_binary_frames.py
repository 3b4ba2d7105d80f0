"""The frames of an event stream: read however they are cut, and not at all where they are broken."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from support.bedrock_frames import event, exception, frame
from traceforge.wire.binary_frames import FrameEvent, FrameParser

FIRST, SECOND = event("messageStart", {"role": "assistant"}), event("messageStop", {"stopReason": "end_turn"})
BROKEN = FrameEvent("", b"")


def parse(data: bytes, size: int) -> list[FrameEvent]:
    parser = FrameParser()
    events = [item for at in range(0, len(data), size) for item in parser.feed(data[at : at + size])]
    return [*events, *parser.finish()]


@pytest.mark.parametrize("size", [1, 7, 13, 10_000])
def test_frames_are_read_alike_however_they_are_cut(size: int) -> None:
    expected = [
        FrameEvent("messageStart", b'{"role":"assistant"}'),
        FrameEvent("messageStop", b'{"stopReason":"end_turn"}'),
    ]

    assert expected == parse(FIRST + SECOND, size)


def test_an_exception_and_an_error_say_what_went_wrong() -> None:
    """An error has its message in a header, and no payload."""
    error = frame({":message-type": "error", ":error-code": "InternalFailure", ":error-message": "Oops"}, b"")

    events = parse(exception("throttlingException", "Slow down") + error, 5)

    assert [
        FrameEvent("exception:throttlingException", b'{"message": "Slow down"}'),
        FrameEvent("error:InternalFailure", b'{"message":"Oops"}'),
    ] == events


@pytest.mark.parametrize("place", [0, 5, 9, 20, len(FIRST) - 10, len(FIRST) - 1])
def test_nothing_is_read_from_the_first_wrong_checksum_on(place: int) -> None:
    """One bit differs: of the lengths, of their checksum, of a header, of the payload, of the frame's checksum."""
    damaged = FIRST[:place] + bytes([FIRST[place] ^ 1]) + FIRST[place + 1 :]

    assert [FrameEvent("messageStop", b'{"stopReason":"end_turn"}'), BROKEN] == parse(SECOND + damaged + SECOND, 11)


def test_a_frame_that_was_cut_off_is_broken() -> None:
    assert [FrameEvent("messageStart", b'{"role":"assistant"}'), BROKEN] == parse(FIRST + SECOND[:-1], 64)


@pytest.mark.parametrize(
    ("size", "headers_size"),
    [(0xFFFFFFFF, 0), (0xFFFFFFFF, 0xFFFFFFF0), (16, 0xFFFFFFFF), (15, 0), (0, 0), (1 << 20, 200_000)],
)
def test_a_frame_of_an_impossible_length_is_not_waited_for(size: int, headers_size: int) -> None:
    """The checksum of the lengths is right, as only an attacker's would be."""
    sizes = struct.pack(">II", size, headers_size)

    parser = FrameParser()
    events = parser.feed(sizes + struct.pack(">I", crc32(sizes)))

    assert [BROKEN] == events
    assert [] == parser.feed(FIRST)


@pytest.mark.parametrize("headers", [b"\x05:a", b"\x01a\x07\xff\xff", b"\x01a\x63\x00", b"\xff"])
def test_headers_that_are_none_break_a_frame(headers: bytes) -> None:
    sizes = struct.pack(">II", 16 + len(headers) + 2, len(headers))
    data = sizes + struct.pack(">I", crc32(sizes)) + headers + b"{}"

    assert [BROKEN] == parse(data + struct.pack(">I", crc32(data)), 100)
