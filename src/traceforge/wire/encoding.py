"""Content encodings: the bytes a provider meant, from the bytes it sent.

In: a body and its `content-encoding`. Out: the decoded body and what was found. Never: more than a stated size,
however small the body is that claims to hold it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple, Protocol

DECODED_BYTES_MAX = 256 << 20  # A model's answer is far smaller; a bomb is far larger.
_MEMBERS_MAX = 10_000  # Nobody sends a body in more pieces than this, except to keep us busy.
_ZSTD_WINDOW_BYTES_MAX = 8 << 20  # RFC 9659: more is not allowed in a content encoding.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class EncodingState(StrEnum):
    """What the header said against what the bytes were."""

    NONE = "none"
    DECODED = "decoded"
    STALE = "stale_header"  # a plain body under a header that says otherwise
    FAILED = "failed"  # neither plain text nor what the header says
    TOO_LARGE = "too_large"


class Decoded(NamedTuple):
    """A body as it was meant; where it could not be decoded, as it was sent."""

    body: bytes
    state: EncodingState


def decode_body(body: bytes, encodings: str, *, limit: int = DECODED_BYTES_MAX) -> Decoded:
    """Undo `content-encoding`; several are undone from the last to the first."""
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not names or not body:
        return Decoded(body, EncodingState.NONE)
    if len(body) > 1 and _is_text(body):  # First, because a bare deflate decoder takes some plain texts for its own.
        return Decoded(body, EncodingState.STALE)
    data = body
    for name in reversed(names):
        try:
            data = _undo(data, name, limit)
        except _TooLargeError:
            return Decoded(body, EncodingState.TOO_LARGE)
        except Exception:  # noqa: BLE001 (each library has errors of its own; none may end a recording)
            return Decoded(body, EncodingState.STALE if _is_text(body) else EncodingState.FAILED)
    return Decoded(data, EncodingState.DECODED)


class _TooLargeError(Exception):
    pass


def _undo(data: bytes, name: str, limit: int) -> bytes:
    if name in ("gzip", "x-gzip"):
        return _inflate(data, 31, limit)
    if name == "deflate":
        try:
            return _inflate(data, 15, limit)
        except zlib.error:
            return _inflate(data, -15, limit)  # Some servers send it without the zlib header.
    if name == "br":
        return _unbrotli(data, limit)
    if name == "zstd":
        return _unzstd(data, limit)
    raise ValueError(f"unknown content encoding {name}")


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _inflate(data: bytes, window: int, limit: int) -> bytes:
    return _decode(data, lambda: zlib.decompressobj(window), 1024, limit)  # one byte holds at most 1032


def _unzstd(data: bytes, limit: int) -> bytes:
    import zstandard

    library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    return _decode(data, library.decompressobj, 128, limit)  # four bytes hold at most 128 KiB


def _decode(data: bytes, new_decoder: Callable[[], _Decoder], step: int, limit: int) -> bytes:
    """Decode members one after another, as gzip and zstd allow, in steps so small that no bomb goes off in one."""
    parts: list[bytes] = []
    room = limit
    members = 1
    decoder = new_decoder()
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        while piece:
            if decoder.eof:
                decoder = new_decoder()
                members += 1
            parts.append(decoder.decompress(piece))
            room -= len(parts[-1])
            if room < 0 or members > _MEMBERS_MAX:
                raise _TooLargeError
            piece = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise ValueError("the stream ends too early")
    return b"".join(parts)


def _unbrotli(data: bytes, limit: int) -> bytes:
    import brotli

    decoder = brotli.Decompressor()
    parts = [decoder.process(data, output_buffer_limit=limit + 1)]
    size = len(parts[0])
    while size <= limit and not decoder.is_finished():
        parts.append(decoder.process(b"", output_buffer_limit=limit + 1))
        size += len(parts[-1])
        if not parts[-1]:
            raise ValueError("the stream ends too early")
    if size > limit:
        raise _TooLargeError
    return b"".join(parts)


def _is_text(body: bytes) -> bool:
    """Nothing compressed is UTF-8 without a control character, except the one byte in which brotli says nothing."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(body) is None
