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
_MEMBER_BYTES = 1 << 10  # what another member counts beside its bytes: to begin it is work
_ENCODINGS_MAX = 5  # as in curl and urllib3; each decodes a whole body
_ZSTD_WINDOW_BYTES_MAX = 8 << 20  # RFC 9659: more is not allowed in a content encoding.
_FIRST_STEP_BYTES = 16  # What is not in an encoding fails in these.
_ZLIB_EXPANSION_MAX = 1032  # of one byte
_ZSTD_EXPANSION_MAX = 32 << 10  # of one byte: four are a block of 128 KiB
_BROTLI_STEP_BYTES = 64 << 10  # decoded in one call: what a damaged end undoes is not counted
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


class DecodeBudget:
    """How many bytes may still be decoded, in one body or in several, whether or not their ends are reached."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_left = bytes_max

    def spend(self, count: int) -> None:
        """Count bytes that were decoded."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise _TooLargeError


class DecodedChunks(NamedTuple):
    """The same for a body in pieces: as many pieces as were sent."""

    chunks: list[bytes]
    state: EncodingState


def decode_body(body: bytes, encodings: str, *, bytes_max: int = DECODED_BYTES_MAX) -> DecodedBody:
    """Undo `content-encoding`; several are undone from the last to the first."""
    return decode_body_within(body, encodings, DecodeBudget(bytes_max))


def decode_body_within(body: bytes, encodings: str, budget: DecodeBudget) -> DecodedBody:
    """As `decode_body`, for one of several bodies that share a budget."""
    decoded = _decode_chunks_within([body], encodings, budget)
    if decoded.state is EncodingState.CUT:
        return DecodedBody(body, EncodingState.FAILED)
    return DecodedBody(decoded.chunks[0], decoded.state)


def decode_chunks(chunks: Sequence[bytes], encodings: str, *, bytes_max: int = DECODED_BYTES_MAX) -> DecodedChunks:
    """Undo `content-encoding` chunk by chunk: as many chunks, each with what could be decoded once it was there.

    A body that was cut off is decoded as far as it came.
    """
    return _decode_chunks_within(chunks, encodings, DecodeBudget(bytes_max))


def _decode_chunks_within(chunks: Sequence[bytes], encodings: str, budget: DecodeBudget) -> DecodedChunks:
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    sent = list(chunks)
    body = b"".join(sent)
    if not names or not body:
        return DecodedChunks(sent, EncodingState.NONE)
    if len(body) > 1 and _is_text(body):  # First, because a bare deflate decoder takes some plain texts for its own.
        return DecodedChunks(sent, EncodingState.STALE)
    if len(names) > _ENCODINGS_MAX:
        return DecodedChunks(sent, EncodingState.TOO_LARGE)
    data, is_whole = sent, True
    for name in reversed(names):
        try:
            data, reached_end = _decode_one_encoding(data, name, budget)
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
    budget = DecodeBudget(bytes_max)
    decoder: _ChunkDecoder = _BrotliDecoder(budget) if name == "br" else _zlib_decoder(-15, budget)
    parts: list[bytes] = []
    try:
        for start in range(0, len(data), _START_STEP_BYTES):
            parts.append(decoder.feed(data[start : start + _START_STEP_BYTES]))
    except Exception:  # noqa: BLE001, S110 (each library has errors of its own, and here they only end the text)
        pass
    return b"".join(parts)


class _TooLargeError(Exception):
    pass


def _decode_one_encoding(chunks: list[bytes], name: str, budget: DecodeBudget) -> tuple[list[bytes], bool]:
    """The chunks decoded, and whether the last of them was the end."""
    if name == "deflate":
        try:
            return _decode_all(_zlib_decoder(15, budget), chunks)
        except zlib.error:
            return _decode_all(_zlib_decoder(-15, budget), chunks)  # Some servers send it without the zlib header.
    if name in ("gzip", "x-gzip"):
        return _decode_all(_zlib_decoder(31, budget), chunks)
    if name == "br":
        return _decode_all(_BrotliDecoder(budget), chunks)
    if name == "zstd":
        return _decode_all(_zstd_decoder(budget), chunks)
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


def _zlib_decoder(window: int, budget: DecodeBudget) -> _MemberDecoder:
    return _MemberDecoder(lambda: zlib.decompressobj(window), 1024, _ZLIB_EXPANSION_MAX, budget)


def _zstd_decoder(budget: DecodeBudget) -> _MemberDecoder:
    library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    return _MemberDecoder(library.decompressobj, 128, _ZSTD_EXPANSION_MAX, budget)


class _MemberDecoder:
    """Decodes members one after another, as gzip and zstd allow, in steps so small that no bomb goes off in one."""

    def __init__(
        self, new_decoder: Callable[[], _Decoder], step: int, expansion_max: int, budget: DecodeBudget
    ) -> None:
        self._new_decoder = new_decoder
        self._step = step
        self._expansion_max = expansion_max
        self._budget = budget
        self._members = 1
        self._decoder = new_decoder()
        self._has_begun = False

    @property
    def ended(self) -> bool:
        return self._decoder.eof

    def feed(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        start = 0
        while start < len(data):
            end = start + (self._step if self._has_begun else _FIRST_STEP_BYTES)
            piece = data[start:end]
            while piece:
                if self._decoder.eof:
                    self._begin_member()
                parts.append(self._decode_piece(piece))
                piece = self._decoder.unused_data if self._decoder.eof else b""
            self._has_begun = True
            start = end
        return b"".join(parts)

    def _begin_member(self) -> None:
        self._decoder = self._new_decoder()
        self._members += 1
        self._budget.spend(_MEMBER_BYTES)
        if self._members > _MEMBERS_MAX:
            raise _TooLargeError

    def _decode_piece(self, piece: bytes) -> bytes:
        try:
            decoded = self._decoder.decompress(piece)
        except Exception:
            if self._has_begun:  # All that the piece held may have been decoded before its damage was met.
                self._budget.bytes_left -= len(piece) * self._expansion_max
            raise
        self._budget.spend(len(decoded))
        return decoded


class _BrotliDecoder:
    """Decodes brotli, which has one member."""

    def __init__(self, budget: DecodeBudget) -> None:
        self._decoder = brotli.Decompressor()
        self._budget = budget

    @property
    def ended(self) -> bool:
        return bool(self._decoder.is_finished())

    def feed(self, data: bytes) -> bytes:
        parts: list[bytes] = []
        piece = data
        while True:
            limit = min(max(self._budget.bytes_left, 0) + 1, _BROTLI_STEP_BYTES)
            parts.append(self._decoder.process(piece, output_buffer_limit=limit))
            self._budget.spend(len(parts[-1]))
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
