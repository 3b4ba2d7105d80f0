"""Any bytes in place of messages: frames of WebSockets and of Bedrock, lines of tool servers.

However the bytes are cut, the same comes out of them; nothing but a refusal is raised, and nothing is lost.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from traceforge.canon import json_bytes
from traceforge.capture.hook.conversation_body import decode_frame, encode_frame
from traceforge.capture.hook.mcp_lines import MessageLines
from traceforge.capture.hook.mcp_messages import parse_messages
from traceforge.capture.hook.websocket_frames import CLOSE, Message, MessageReader, write_frame
from traceforge.redact.event_frames import redact_frames
from traceforge.redact.secret_finder import SecretFinder
from traceforge.wire.binary_frames import Frame, FrameParser, read_frames, read_headers, write_headers

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
FINDER = SecretFinder((), (), ())
CUTS = st.lists(st.integers(0, 300), max_size=6)
PAYLOADS = st.sampled_from(
    [b"", b"a", b'{"type":"x"}', b'{"a":\xff', b"[1, 2]", b"\x03\xe8", b"x" * 200]
) | st.binary(max_size=20)


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


@st.composite
def websocket_frames(draw: st.DrawFn) -> bytes:
    """A frame of a server, mostly a right one."""
    data = draw(PAYLOADS)
    first = draw(st.sampled_from([0x81, 0x82, 0x01, 0x00, 0x80, 0x88, 0x89, 0x8A, 0xC1, 0x41, 0xF1, 0x83]))
    whole = bytearray(write_frame(first & 0x0F, deflate(data) if first & 0x40 else data))
    whole[0] = first
    if draw(st.integers(0, 9)) == 0:
        whole[1] = draw(st.sampled_from([0x80, 0x7E, 0x7F, 0xFF]))
    return bytes(whole)


def cut_at(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.fuzzer(15)
@fuzz(300)
@given(st.lists(websocket_frames() | st.binary(max_size=12), max_size=8).map(b"".join), CUTS, st.booleans())
def test_a_websocket_is_read_alike_however_it_is_cut(data: bytes, cuts: list[int], is_deflated: bool) -> None:
    """The same messages until the first frame that cannot be read; each can be recorded and written again."""

    def read(pieces: list[bytes]) -> tuple[list[Message], bool]:
        reader = MessageReader(is_client=False, is_deflated=is_deflated)
        messages: list[Message] = []
        try:
            for piece in pieces:
                reader.buffer += piece
                while (message := reader.next_message()) is not None:
                    messages.append(message)
        except ValueError:
            return messages, True
        return messages, False

    whole = read([data])
    assert whole == read(cut_at(data, cuts))
    for message in whole[0]:
        if message.opcode < CLOSE:
            again = decode_frame(encode_frame(message))
            assert message.data == again.data


EVENT_HEADERS = st.sampled_from(
    [
        {":message-type": "event", ":event-type": "chunk"},
        {":message-type": "exception"},
        {":message-type": "\x1b"},
        {},
    ]
)


@st.composite
def bedrock_frames(draw: st.DrawFn) -> bytes:
    """A frame, now and then a damaged one."""
    headers = draw(EVENT_HEADERS.map(write_headers) | st.binary(max_size=12))
    whole = bytearray(Frame(headers, draw(PAYLOADS)).encode())
    if draw(st.integers(0, 5)) == 0:
        whole[draw(st.integers(0, len(whole) - 1))] ^= draw(st.integers(1, 255))
    if draw(st.integers(0, 5)) == 0:
        whole[:8] = draw(st.binary(min_size=8, max_size=8))
        whole[8:12] = struct.pack(">I", zlib.crc32(whole[:8]))
    return bytes(whole)


@pytest.mark.fuzzer(15)
@fuzz(300)
@given(st.lists(bedrock_frames(), max_size=5).map(b"".join), CUTS)
def test_binary_frames_are_read_alike_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    """No event holds more than came, and a broken frame is the last one."""

    def read(pieces: list[bytes]) -> list[Any]:
        parser = FrameParser()
        return [event for piece in pieces for event in parser.feed(piece)] + parser.finish()

    events = read([data])
    assert events == read(cut_at(data, cuts))
    assert sum(len(event.data) for event in events) <= len(data) + 20 * len(events)
    frames, rest = read_frames(data)
    assert len(data) == sum(len(frame.encode()) for frame in frames) + len(rest)
    for frame in frames:
        read_headers(frame.headers)


@pytest.mark.fuzzer(15)
@fuzz(100)
@given(st.lists(bedrock_frames(), max_size=4).map(b"".join), st.booleans())
def test_any_binary_frames_are_redacted(data: bytes, secret_first: bool) -> None:
    """Whatever stands beside it, a key does not stay."""
    frame = Frame(write_headers({":event-type": "chunk"}), json_bytes({"text": KEY})).encode()

    cleaned = redact_frames(FINDER, frame + data if secret_first else data + frame).value

    assert KEY.encode() not in cleaned


LINE_PIECES = st.sampled_from(
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b"\n",
        b"\r\n",
        b"[]",
        b'[{"id":1}]',
        b"{",
        b"\xff",
        b"\0",
        b" ",
        b"\x1b[2J",
    ]
)


@pytest.mark.fuzzer(15)
@fuzz(300)
@given(st.lists(LINE_PIECES | st.binary(max_size=8), max_size=20).map(b"".join), CUTS)
def test_lines_of_a_tool_server_are_read_alike_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    """Not a byte is lost, and what is no message is none."""

    def read(pieces: list[bytes]) -> list[Any]:
        lines = MessageLines()
        return [piece for data in pieces for piece in lines.feed(data)] + list(lines.flush())

    whole = read([data])
    assert whole == read(cut_at(data, cuts))
    assert data == b"".join(piece.data for piece in whole)
    for piece in whole:
        parse_messages(piece.data)
