"""The frames of `application/vnd.amazon.eventstream`, read and written.

In: bytes. Out: the headers and the payload of each frame, and what is left behind the last whole one. Never: looks
into either.

A frame is: its length and that of its headers (4 bytes each, the most significant first), the CRC-32 of these eight
bytes, the headers, the payload, and the CRC-32 of all that. A header is: a length of one byte, the name, a type of
one byte, the value.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from zlib import crc32

PRELUDE_BYTES = 12
_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_OVERHEAD_BYTES = PRELUDE_BYTES + _CHECKSUM.size


class Frame(NamedTuple):
    """The headers and the payload of one frame."""

    headers: bytes
    payload: bytes

    def encode(self) -> bytes:
        sizes = struct.pack(">II", _OVERHEAD_BYTES + len(self.headers) + len(self.payload), len(self.headers))
        data = sizes + _CHECKSUM.pack(crc32(sizes)) + self.headers + self.payload
        return data + _CHECKSUM.pack(crc32(data))


def begins_with_frame(data: bytes) -> bool:
    """Whether the first twelve bytes are those of a frame: the checksum of its lengths is right."""
    return data[:1] == b"\0" and _read_sizes(data, 0) is not None


def _read_sizes(data: bytes, start: int) -> tuple[int, int] | None:
    if len(data) - start < PRELUDE_BYTES:
        return None
    size, headers_size, checksum = _PRELUDE.unpack_from(data, start)
    is_valid = size >= _OVERHEAD_BYTES + headers_size and checksum == crc32(data[start : start + 8])
    return (size, headers_size) if is_valid else None


def read_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The frames, and what is left behind the last whole one."""
    frames: list[Frame] = []
    start = 0
    while (sizes := _read_sizes(data, start)) is not None and start + sizes[0] <= len(data):
        headers_start = start + PRELUDE_BYTES
        payload_start = headers_start + sizes[1]
        end = start + sizes[0]
        frames.append(Frame(data[headers_start:payload_start], data[payload_start : end - _CHECKSUM.size]))
        start = end
    return frames, data[start:]
