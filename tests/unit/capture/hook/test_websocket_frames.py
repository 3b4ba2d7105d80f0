"""The frames of a WebSocket as bytes, also of peers that break the rules."""

from __future__ import annotations

import json
import struct
import tracemalloc
import zlib

import pytest
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode

from traceforge.capture.hook.conversation_body import SERVER_FRAMES, decode_frame, decode_frames, encode_frame
from traceforge.capture.hook.guarded_call import GuardedCall
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.hook.recorded_conversation import RecordedConversation, WatchedBytes
from traceforge.capture.hook.websocket_frames import (
    BINARY,
    CLOSE,
    MESSAGE_BYTES_MAX,
    PING,
    TEXT,
    Message,
    MessageReader,
    MessageTooLarge,
)

HUGE = struct.pack(">BBQ", 0x81, 127, (1 << 63) - 1)
BOMB_BYTES = MESSAGE_BYTES_MAX + 100


def read_all(reader: MessageReader, data: bytes, piece: int = 0) -> list[Message]:
    """The messages in the bytes, which come in pieces of this size."""
    messages = []
    for start in range(0, len(data), piece or len(data)):
        reader.buffer += data[start : start + (piece or len(data))]
        while (message := reader.next_message()) is not None:
            messages.append(message)
    return messages


def deflate(data: bytes) -> bytes:
    """A compressed message, without the end that the extension leaves out."""
    compressor = zlib.compressobj(wbits=-15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


def frame(first_byte: int, data: bytes) -> bytes:
    """A frame of a server."""
    return struct.pack(">BBQ", first_byte, 127, len(data)) + data


@pytest.mark.parametrize("is_client", [True, False], ids=["client", "server"])
@pytest.mark.parametrize("piece", [0, 1, 7])
def test_fragments_controls_and_compression_are_read_in_any_pieces(is_client: bool, piece: int) -> None:
    """As another implementation writes them: messages refer to those before, and a ping stands between fragments."""
    extension = PerMessageDeflate(False, False, 15, 15)
    frames = [
        Frame(Opcode.TEXT, b"the same words, ", fin=False),
        Frame(Opcode.PING, b"?"),
        Frame(Opcode.CONT, b"the same words"),
        Frame(Opcode.BINARY, b"the same words" * 30),
        Frame(Opcode.TEXT, b""),
        Frame(Opcode.CLOSE, struct.pack(">H", 1000)),
    ]
    data = b"".join(item.serialize(mask=is_client, extensions=[extension]) for item in frames)

    messages = read_all(MessageReader(is_client=is_client, is_deflated=True), data, piece)

    assert [
        (PING, b"?"),
        (TEXT, b"the same words, the same words"),
        (BINARY, b"the same words" * 30),
        (TEXT, b""),
        (CLOSE, b"\x03\xe8"),
    ] == messages


def test_a_compressed_message_may_end_its_stream() -> None:
    """Then the next one begins anew."""
    ended = zlib.compressobj(wbits=-15)
    data = ended.compress(b"one") + ended.flush(zlib.Z_FINISH) + b"\x00"

    reader = MessageReader(is_client=False, is_deflated=True)
    messages = read_all(reader, frame(0xC1, data) + frame(0xC1, deflate(b"2")))

    assert [(TEXT, b"one"), (TEXT, b"2")] == messages


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(HUGE, MessageTooLarge, id="2^63 bytes"),
        pytest.param(struct.pack(">BBQ", 0x81, 127, 1 << 63), MessageTooLarge, id="a negative length"),
        pytest.param(frame(0x01, b"x" * MESSAGE_BYTES_MAX) + frame(0x80, b"x"), MessageTooLarge, id="fragments"),
        pytest.param(frame(0xC1, deflate(b"\0" * BOMB_BYTES)), MessageTooLarge, id="a bomb"),
        pytest.param(frame(0xC1, b"\xff" * 20), ValueError, id="not compressed"),
        pytest.param(b"\x81\x81mask.", ValueError, id="a masked frame of a server"),
        pytest.param(b"\xa1\x00", ValueError, id="an unknown bit"),
        pytest.param(b"\xc9\x00", ValueError, id="a compressed ping"),
        pytest.param(b"\x83\x00", ValueError, id="an unknown kind"),
        pytest.param(b"\x09\x00", ValueError, id="a ping in fragments"),
        pytest.param(b"\x89\x7e\x00\x7e", ValueError, id="a long ping"),
        pytest.param(b"\x80\x00", ValueError, id="a fragment of nothing"),
        pytest.param(b"\x01\x00\x81\x00", ValueError, id="a message within a message"),
    ],
)
def test_a_hostile_peer_is_told_apart(data: bytes, error: type[Exception]) -> None:
    """Before its bytes fill the memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error):
            read_all(MessageReader(is_client=False, is_deflated=True), data)
        assert tracemalloc.get_traced_memory()[1] < 5 * MESSAGE_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_a_frame_that_is_not_compressed_needs_the_extension() -> None:
    """Where it was not agreed, the bit is unknown."""
    with pytest.raises(ValueError, match="cannot be read"):
        read_all(MessageReader(is_client=False), frame(0xC1, deflate(b"x")))


def test_endless_empty_fragments_take_no_memory() -> None:
    """They never make a message."""
    reader = MessageReader(is_client=False)
    read_all(reader, b"\x01\x00")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert [] == read_all(reader, b"\x00\x00" * 50_000)
        assert tracemalloc.get_traced_memory()[0] - before < 10_000
    finally:
        tracemalloc.stop()


def watch(*pieces: bytes, headers: tuple[tuple[str, str], ...] = ()) -> InFlightCall:
    """The call in whose connection the server sent these bytes, and left."""
    ended: list[InFlightCall] = []
    call = GuardedCall(InFlightCall(ended.append, "GET", "http://x/v1/realtime", ()))
    conversation = RecordedConversation(call)
    conversation.accept(101, headers)
    watched = WatchedBytes(conversation, headers)
    for piece in pieces:
        watched.receive(piece)
    conversation.end()
    (finished,) = ended
    return finished


def frames_of(call: InFlightCall) -> list[dict[str, object]]:
    """What the server is recorded to have sent."""
    return decode_frames(SERVER_FRAMES, b"".join(data for _, data in call.response_chunks))


def test_what_is_no_frame_breaks_the_recording_off() -> None:
    """As it ends the connection: nothing of what follows is taken for a frame."""
    call = watch(b"\x81\x02hi", b"\x83\x00", b"\x81\x02no")

    assert [{"after": 0, "text": "hi"}, {"after": 0, "broken": True}] == frames_of(call)
    assert ("cut", False) == (call.outcome, call.is_too_large)


def test_a_message_that_is_too_large_leaves_no_body() -> None:
    """And the recording says so, rather than be one without that message."""
    call = watch(b"\x81\x02hi", HUGE, b"\x81\x02no")

    assert ([], []) == (call.request_chunks, call.response_chunks)
    assert call.is_too_large


def test_a_text_frame_that_is_no_utf_8_is_kept_as_it_is() -> None:
    """A client refuses it, in a replay as well."""
    (first, _) = frames_of(watch(b"\x81\x02\xff\xfe"))

    assert {"after": 0, "base64": "//4=", "text_frame": True} == first


def test_compression_is_agreed_in_the_handshake() -> None:
    """Both in the body and in its length."""
    headers = (("Sec-WebSocket-Extensions", "permessage-deflate; server_no_context_takeover"),)

    (first, _) = frames_of(watch(frame(0xC1, deflate(json.dumps({"type": "x"}).encode())), headers=headers))

    assert {"after": 0, "layout": "spaced", "json": {"type": "x"}} == first | {}


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (json.dumps({"a": ["ü", "😀"]}), "spaced-escaped"),
        (json.dumps({"a": ["ü", "😀"]}, separators=(",", ":")), "escaped"),
        (json.dumps({"a": ["ü", "😀"]}, indent=2), "indented-escaped"),
        (json.dumps({"a": ["ü", "😀"]}, indent=2) + "\n", "indented-lf-escaped"),
    ],
)
def test_json_with_escaped_characters_is_kept_as_its_value(text: str, layout: str) -> None:
    """As Python's `json` writes it: what is compared are values, and the same bytes can be sent again."""
    message = Message(TEXT, text.encode())

    assert {"layout": layout, "json": {"a": ["ü", "😀"]}} == encode_frame(message)
    assert message == decode_frame(encode_frame(message))


@pytest.mark.parametrize("text", [r'{"a":"\ud800"}', r'{"a":"\u00FC"}', r'{"a":"\u00fcü"}'])
def test_json_with_other_escapes_is_kept_as_its_text(text: str) -> None:
    """Half of a surrogate pair cannot be a part of a body; in other spellings, the bytes could not be made again."""
    assert {"text": text} == encode_frame(Message(TEXT, text.encode()))
