"""The frames of `application/vnd.amazon.eventstream`, in which Bedrock streams: read and written.

In: bytes, split anywhere. Out: the headers and the payload of each frame; events, for a dialect. Never: passes on a
frame with a wrong checksum to a dialect, or waits for a frame that is longer than any client accepts.

A frame is: its length and that of its headers (4 bytes each, the most significant first), the CRC-32 of these eight
bytes, the headers, the payload, and the CRC-32 of all that. A header is: a length of one byte, the name, a type of
one byte, the value. The headers that matter are texts:

    :message-type     event, exception or error
    :event-type       the name of an event; of an exception, `:exception-type`
    :error-code       of an error, and `:error-message`: it has no payload
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

from traceforge.canon import json_bytes

FRAMES_TYPE = "application/vnd.amazon.eventstream"
PRELUDE_BYTES = 12
HEADERS_BYTES_MAX = 128 << 10  # As in the SDKs: a frame with more is not read.
PAYLOAD_BYTES_MAX = 24 << 20
TEXT_TYPES = frozenset({6, 7})  # types of headers: bytes and text, with two bytes of length and the value

_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_OVERHEAD_BYTES = PRELUDE_BYTES + _CHECKSUM.size
_VALUE_BYTES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # of each type of header with a fixed size


class Frame(NamedTuple):
    """The headers and the payload of one frame."""

    headers: bytes
    payload: bytes

    def encode(self) -> bytes:
        sizes = struct.pack(">II", _OVERHEAD_BYTES + len(self.headers) + len(self.payload), len(self.headers))
        data = sizes + _CHECKSUM.pack(crc32(sizes)) + self.headers + self.payload
        return data + _CHECKSUM.pack(crc32(data))


class FrameEvent(NamedTuple):
    """What a dialect reads of a frame.

    The name is that of an event, or `exception:` or `error:` and what went wrong. A frame that is broken is an event
    without data.
    """

    name: str
    data: bytes


def begins_with_frame(data: bytes) -> bool:
    """Whether the first twelve bytes are those of a frame: the checksum of its lengths is right."""
    return data[:1] == b"\0" and _read_sizes(data, 0) is not None


def _read_sizes(data: bytes | bytearray, start: int) -> tuple[int, int] | None:
    if len(data) - start < PRELUDE_BYTES:
        return None
    size, headers_size, checksum = _PRELUDE.unpack_from(data, start)
    is_valid = size >= _OVERHEAD_BYTES + headers_size and checksum == crc32(data[start : start + 8])
    return (size, headers_size) if is_valid else None


def read_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The frames, and the bytes after the last complete one. Their own checksums are not compared."""
    frames: list[Frame] = []
    start = 0
    while (sizes := _read_sizes(data, start)) is not None and start + sizes[0] <= len(data):
        headers_start = start + PRELUDE_BYTES
        payload_start = headers_start + sizes[1]
        end = start + sizes[0]
        frames.append(Frame(data[headers_start:payload_start], data[payload_start : end - _CHECKSUM.size]))
        start = end
    return frames, data[start:]


def read_headers(data: bytes) -> list[tuple[bytes, int, bytes]] | None:
    """The name, type and value of each header; None where they cannot be parsed."""
    headers: list[tuple[bytes, int, bytes]] = []
    place = 0
    while place < len(data):
        name_end = place + 1 + data[place]
        kind = data[name_end] if name_end < len(data) else -1
        start = name_end + (3 if kind in TEXT_TYPES else 1)
        end = start + _VALUE_BYTES.get(kind, int.from_bytes(data[name_end + 1 : start], "big"))
        if (kind not in _VALUE_BYTES and kind not in TEXT_TYPES) or end > len(data):
            return None
        headers.append((data[place + 1 : name_end], kind, data[start:end]))
        place = end
    return headers


def write_headers(headers: dict[str, str]) -> bytes:
    """Write headers whose values are all texts."""
    parts: list[bytes] = []
    for name, value in headers.items():
        text = value.encode()
        parts.append(bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text)
    return b"".join(parts)


class FrameParser:
    """Turns bytes into events, and ends at the first frame that is broken: where the next one begins is unknown."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._is_broken = False

    def feed(self, data: bytes) -> list[FrameEvent]:
        """Take more bytes; return the events they complete."""
        if self._is_broken:
            return []
        self._buffer += data
        events: list[FrameEvent] = []
        while len(self._buffer) >= PRELUDE_BYTES and not self._is_broken:
            sizes = _read_sizes(self._buffer, 0)
            if sizes is None or not _is_acceptable(*sizes):
                return [*events, self._break()]
            if len(self._buffer) < sizes[0]:
                break
            frame = bytes(self._buffer[: sizes[0]])
            del self._buffer[: sizes[0]]
            event = _read_event(frame, sizes[1])
            events.append(self._break() if event is None else event)
        return events

    def finish(self) -> list[FrameEvent]:
        """The stream has ended: a frame that was cut off is broken."""
        return [self._break()] if self._buffer else []

    def _break(self) -> FrameEvent:
        self._is_broken = True
        self._buffer.clear()
        return FrameEvent("", b"")


def _is_acceptable(size: int, headers_size: int) -> bool:
    return headers_size <= HEADERS_BYTES_MAX and size - headers_size - _OVERHEAD_BYTES <= PAYLOAD_BYTES_MAX


def _read_event(frame: bytes, headers_size: int) -> FrameEvent | None:
    """The event in a frame; None where its checksum is wrong, or its headers cannot be read."""
    if _CHECKSUM.unpack(frame[-_CHECKSUM.size :])[0] != crc32(frame[: -_CHECKSUM.size]):
        return None
    payload_start = PRELUDE_BYTES + headers_size
    headers = read_headers(frame[PRELUDE_BYTES:payload_start])
    if headers is None:
        return None
    texts = {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in headers}
    payload = frame[payload_start : -_CHECKSUM.size]
    kind = texts.get(":message-type", "event")
    if kind == "event":
        return FrameEvent(texts.get(":event-type", ""), payload)
    reason = texts.get(":exception-type", texts.get(":error-code", ""))
    return FrameEvent(f"{kind}:{reason}", payload or json_bytes({"message": texts.get(":error-message", "")}))
