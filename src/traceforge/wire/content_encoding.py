"""Content encodings: the bytes a provider meant, from the bytes it sent.

In: a body and its `content-encoding`. Out: the decoded body, or the problem. Never: more than a stated size,
so that a small body cannot expand without limit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import brotli
import zstandard

DECODED_BYTES_MAX = 256 << 20  # A model's answer is far smaller; a bomb is far larger.
_MEMBERS_MAX = 10_000  # Only a hostile body has more pieces than this.
_ZSTD_WINDOW_BYTES_MAX = 8 << 20  # RFC 9659: more is not allowed in a content encoding.
_START_STEP_BYTES = 8  # So little is lost before a byte that cannot be decoded.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class EncodingState(StrEnum):
    """How the body compares with its `content-encoding` header."""

    NONE = "none"
    DECODED = "decoded"
    STALE = "stale_header"  # the header names an encoding, and the body is plain text
    FAILED = "failed"  # the body is neither plain text nor in the named encoding
    TOO_LARGE = "too_large"
    CUT = "cut"  # decoded as far as it came


class DecodedBody(NamedTuple):
    """A decoded body; where it could not be decoded, the body as it was sent."""

    body: bytes
    state: EncodingState


class DecodedChunks(NamedTuple):
    """The same for a body in pieces: as many pieces as were sent."""

    chunks: list[bytes]
    state: EncodingState


def decode_body(body: bytes, encodings: str, *, bytes_max: int = DECODED_BYTES_MAX) -> DecodedBody:
    """Undo `content-encoding`; several are undone from the last to the first."""
    decoded = decode_chunks([body], encodings, bytes_max=bytes_max)
    if decoded.state is EncodingState.CUT:
        return DecodedBody(body, EncodingState.FAILED)
    return DecodedBody(decoded.chunks[0], decoded.state)


def decode_chunks(chunks: Sequence[bytes], encodings: str, *, bytes_max: int = DECODED_BYTES_MAX) -> DecodedChunks:
    """Undo `content-encoding` chunk by chunk: as many chunks, each with what could be decoded once it was there.

    A body that was cut off is decoded as far as it came.
    """
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    sent = list(chunks)
    body = b"".join(sent)
    if not names or not body:
        return DecodedChunks(sent, EncodingState.NONE)
    if len(body) > 1 and _is_text(body):  # First, because a bare deflate decoder takes some plain texts for its own.
        return DecodedChunks(sent, EncodingState.STALE)
    data, is_whole = sent, True
    for name in reversed(names):
        try:
            data, reached_end = _decode_one_encoding(data, name, bytes_max)
        except _TooLargeError:
            return DecodedChunks(sent, EncodingState.TOO_LARGE)
        except Exception:  # noqa: BLE001 (each library has errors of its own; none may end a recording)
            return DecodedChunks(sent, EncodingState.STALE if _is_text(body) else EncodingState.FAILED)
        is_whole = is_whole and reached_end
    return DecodedChunks(data, EncodingState.DECODED if is_whole else EncodingState.CUT)


def decode_start(data: bytes, name: str, *, bytes_max: int) -> bytes:
    """What deflate, without its header, or brotli gives before the first byte that cannot be decoded.

    At most about `bytes_max`. For bodies that `decode_chunks` refuses: they are damaged, or end in other bytes.
    """
    decoder: _ChunkDecoder = _BrotliDecoder(bytes_max) if name == "br" else _zlib_decoder(-15, bytes_max)
    parts: list[bytes] = []
    try:
        for start in range(0, len(data), _START_STEP_BYTES):
            parts.append(decoder.feed(data[start : start + _START_STEP_BYTES]))
    except Exception:  # noqa: BLE001, S110 (each library has errors of its own, and here they only end the text)
        pass
    return b"".join(parts)


class _TooLargeError(Exception):
    pass


def _decode_one_encoding(chunks: list[bytes], name: str, limit: int) -> tuple[list[bytes], bool]:
    """The chunks decoded, and whether the last of them was the end."""
    if name == "deflate":
        try:
            return _decode_all(_zlib_decoder(15, limit), chunks)
        except zlib.error:
            return _decode_all(_zlib_decoder(-15, limit), chunks)  # Some servers send it without the zlib header.
    if name in ("gzip", "x-gzip"):
        return _decode_all(_zlib_decoder(31, limit), chunks)
    if name == "br":
        return _decode_all(_BrotliDecoder(limit), chunks)
    if name == "zstd":
        return _decode_all(_zstd_decoder(limit), chunks)
    raise ValueError(f"unknown content encoding {name}")


class _ChunkDecoder(Protocol):
    """Undoes one encoding, piece by piece."""

    @property
    def ended(self) -> bool: ...

    def feed(self, data: bytes) -> bytes: ...


def _decode_all(decoder: _ChunkDecoder, chunks: list[bytes]) -> tuple[list[bytes], bool]:
    return [decoder.feed(chunk) for chunk in chunks], decoder.ended


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _zlib_decoder(window: int, limit: int) -> _MemberDecoder:
    return _MemberDecoder(lambda: zlib.decompressobj(window), 1024, limit)  # one byte holds at most 1032


def _zstd_decoder(limit: int) -> _MemberDecoder:
    library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    return _MemberDecoder(library.decompressobj, 128, limit)  # four bytes hold at most 128 KiB


class _MemberDecoder:
    """Decodes members one after another, as gzip and zstd allow, in steps so small that no bomb goes off in one."""

    def __init__(self, new_decoder: Callable[[], _Decoder], step: int, limit: int) -> None:
        self._new_decoder = new_decoder
        self._step = step
        self._bytes_left = limit
        self._members = 1
        self._decoder = new_decoder()

    @property
    def ended(self) -> bool:
        return self._decoder.eof

    def feed(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        for start in range(0, len(data), self._step):
            piece = data[start : start + self._step]
            while piece:
                if self._decoder.eof:
                    self._decoder = self._new_decoder()
                    self._members += 1
                parts.append(self._decoder.decompress(piece))
                self._bytes_left -= len(parts[-1])
                if self._bytes_left < 0 or self._members > _MEMBERS_MAX:
                    raise _TooLargeError
                piece = self._decoder.unused_data if self._decoder.eof else b""
        return b"".join(parts)


class _BrotliDecoder:
    """Decodes brotli, which has one member."""

    def __init__(self, limit: int) -> None:
        self._decoder = brotli.Decompressor()
        self._bytes_left = limit

    @property
    def ended(self) -> bool:
        return bool(self._decoder.is_finished())

    def feed(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        piece = data
        while True:
            parts.append(self._decoder.process(piece, output_buffer_limit=self._bytes_left + 1))
            self._bytes_left -= len(parts[-1])
            if self._bytes_left < 0:
                raise _TooLargeError
            piece = b""
            if not parts[-1] or self._decoder.is_finished():
                return b"".join(parts)


def _is_text(body: bytes) -> bool:
    """Compressed data is never UTF-8 without control characters, except the one byte of an empty brotli body."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(body) is None
