"""RFC 6455 without connections: handshakes and frames, for a replay and to watch a connection of others.

In: the bytes of a client or of a server. Out: handshakes and messages; and the bytes of a server. Never: does I/O, or
keeps more of a message than `MESSAGE_BYTES_MAX`, however small it was compressed.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from typing import NamedTuple

from .in_flight_call import HeaderPairs

SWITCHING = 101  # the status of a handshake that opens a WebSocket
HANDSHAKE_BYTES_MAX = 1 << 17
MESSAGE_BYTES_MAX = 16 << 20  # The realtime API takes 15 MiB of audio in an event.
DEFLATE = "permessage-deflate"  # the one extension that can be read
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NO_STATUS = 1005  # of a close frame that says nothing; never sent
_REASON_BYTES_MAX = 123
_ACCEPT_SALT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
# They belong to one connection, or to the body of a call: they are made anew, or left out.
_OF_CONNECTION = frozenset(
    {"connection", "content-length", "upgrade", "sec-websocket-accept", "sec-websocket-extensions"}
)


class MessageTooLarge(ValueError):
    """A message is larger than `MESSAGE_BYTES_MAX`."""


class Handshake(NamedTuple):
    """The request that opens a WebSocket."""

    target: str  # path and query
    headers: HeaderPairs


class Message(NamedTuple):
    """A whole message, or a control frame."""

    opcode: int
    data: bytes


def read_handshake(buffer: bytearray) -> Handshake | None:
    """Take the handshake from the beginning of a buffer; None: it is not whole yet.

    Raises:
        ValueError: the bytes are not a handshake, or one that is too large.
    """
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > HANDSHAKE_BYTES_MAX:
            raise ValueError("a handshake that is too large")
        return None
    first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    del buffer[: end + 4]
    method, target, _ = first.split(" ", 2)
    if method != "GET":
        raise ValueError("a handshake whose method is not GET")
    return Handshake(
        target, tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
    )


def accept_handshake(handshake: Handshake, headers: HeaderPairs) -> bytes:
    """The response that opens the WebSocket, with the recorded headers."""
    key = next((value for name, value in handshake.headers if name.lower() == "sec-websocket-key"), "")
    accept = base64.b64encode(hashlib.sha1(key.encode("latin-1") + _ACCEPT_SALT).digest()).decode()  # noqa: S324
    lines = [f"HTTP/1.1 {SWITCHING} Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    lines.append(f"Sec-WebSocket-Accept: {accept}")
    lines += [f"{name}: {value}" for name, value in headers if name.lower() not in _OF_CONNECTION]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


class MessageReader:
    """Reads the frames of one side: of a client, which masks them, or of a server, which must not."""

    def __init__(self, *, is_client: bool = True, is_deflated: bool = False) -> None:
        self.buffer = bytearray()
        self._is_client = is_client
        self._inflater = _Inflater() if is_deflated else None
        self._opcode = CONTINUATION  # of the message whose fragments come
        self._is_compressed = False  # that message
        self._parts = bytearray()

    def next_message(self) -> Message | None:
        """The next message or control frame; None: it is not whole yet.

        Raises:
            MessageTooLarge: it is larger than is read.
            ValueError: the bytes are not a frame of this side.
        """
        while True:
            frame = self._take_frame()
            if frame is None:
                return None
            first_byte, data = frame
            opcode = first_byte & 0x0F
            if opcode >= CLOSE:
                return Message(opcode, data)
            self._add_fragment(opcode, data, is_compressed=bool(first_byte & _RSV1))
            if first_byte & _FIN:
                return self._end_message()

    def _add_fragment(self, opcode: int, data: bytes, *, is_compressed: bool) -> None:
        if (opcode == CONTINUATION) is (self._opcode == CONTINUATION):
            raise ValueError("a fragment that continues no message, or a message inside another one")
        if opcode:
            self._opcode, self._is_compressed = opcode, is_compressed
        self._parts += data
        if len(self._parts) > MESSAGE_BYTES_MAX:
            raise MessageTooLarge("a message that is too large")

    def _end_message(self) -> Message:
        data = bytes(self._parts)
        if self._is_compressed and self._inflater is not None:
            data = self._inflater.inflate(data)
        message = Message(self._opcode, data)
        self._opcode, self._parts = CONTINUATION, bytearray()
        return message

    def _take_frame(self) -> tuple[int, bytes] | None:
        """The first byte and the payload of the next frame."""
        buffer = self.buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 0x7F, 2
        if size > 125:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = struct.unpack(">H" if start == 4 else ">Q", buffer[2:start])[0]
        self._check(buffer[0], bool(buffer[1] & _MASKED), size)
        if self._is_client:
            start += 4
        if len(buffer) < start + size:
            return None
        data = bytes(buffer[start : start + size])
        if self._is_client:
            data = _unmask(data, bytes(buffer[start - 4 : start]))
        first_byte = buffer[0]
        del buffer[: start + size]
        return first_byte, data

    def _check(self, first_byte: int, is_masked: bool, size: int) -> None:
        opcode = first_byte & 0x0F
        allowed_bits = _FIN | 0x0F
        if self._inflater is not None and opcode in (TEXT, BINARY):
            allowed_bits |= _RSV1
        is_known = opcode in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG)
        is_short = opcode < CLOSE or (size <= _CONTROL_BYTES_MAX and first_byte & _FIN)
        if first_byte & ~allowed_bits or is_masked is not self._is_client or not is_known or not is_short:
            raise ValueError("a frame that cannot be read")
        if size > MESSAGE_BYTES_MAX:
            raise MessageTooLarge("a frame that is too large")


_FIN, _RSV1, _MASKED = 0x80, 0x40, 0x80
_CONTROL_BYTES_MAX = 125


class _Inflater:
    """Decompresses the messages of one side, which may refer to those before."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(-zlib.MAX_WBITS)

    def inflate(self, data: bytes) -> bytes:
        """The message.

        Raises:
            MessageTooLarge: it is larger than is read.
            ValueError: it is not compressed as the extension says.
        """
        try:
            inflated = self._object.decompress(data + b"\x00\x00\xff\xff", MESSAGE_BYTES_MAX + 1)
        except zlib.error as exc:
            raise ValueError("a message that cannot be decompressed") from exc
        if len(inflated) > MESSAGE_BYTES_MAX:
            raise MessageTooLarge("a message that is too large")
        if self._object.eof:  # Some servers end a message as a stream.
            self._object = zlib.decompressobj(-zlib.MAX_WBITS)
        return inflated


def _unmask(data: bytes, mask: bytes) -> bytes:
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def write_frame(opcode: int, data: bytes) -> bytes:
    """A whole message of a server as one frame."""
    size = len(data)
    if size < 126:
        lengths = bytes([size])
    else:
        lengths = struct.pack(">BH", 126, size) if size < 1 << 16 else struct.pack(">BQ", 127, size)
    return bytes([0x80 | opcode]) + lengths + data


def write_close(code: int, reason: str = "") -> bytes:
    """A close frame of a server; one with `NO_STATUS` has no code."""
    if code == NO_STATUS:
        return write_frame(CLOSE, b"")
    text = reason.encode()[:_REASON_BYTES_MAX].decode("utf-8", "ignore").encode()
    return write_frame(CLOSE, struct.pack(">H", code) + text)


def read_close(data: bytes) -> tuple[int, str]:
    """The code and the reason in a close frame."""
    if len(data) < 2:
        return NO_STATUS, ""
    return struct.unpack(">H", data[:2])[0], data[2:].decode("utf-8", "replace")
