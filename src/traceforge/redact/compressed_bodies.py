"""Whether a body is compressed, though no header says so.

In: the bytes of a body. Out: the name of the compression, or none. Never: takes bytes for plain because they are
damaged: what begins as a compressed text does is compressed.
"""

from __future__ import annotations

import codecs

from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.wire.content_encoding import EncodingState, decode_chunks, decode_start

_COMPRESSIONS = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    *((b"\x78" + level, "deflate") for level in (b"\x01", b"\x5e", b"\x9c", b"\xda")),
)
_FIRST_BYTES = frozenset(start[:1] for start, _ in _COMPRESSIONS)

_PROBE_BYTES = 4_096  # of a body are decoded to see whether it is compressed
_PROBE_BYTES_MAX = 1 << 20  # of what they decode to
_SECRET_BYTES_MIN = 6  # No secret is shorter.
_DAMAGED_TEXT_BYTES_MIN = 24  # Random bytes decode to fewer bytes of text before the first that is wrong.
_CONTROL = LazyPattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def list_compressions(data: bytes) -> list[str]:
    """How bytes may be compressed: by the first of them, or, as in brotli and deflate, because they can be decoded.

    Some other bytes can be decoded, too. That does no harm: what they decode to is examined, and then the bytes.
    """
    if data[:1] in _FIRST_BYTES:
        named = next((name for start, name in _COMPRESSIONS if data.startswith(start)), "")
        if named:
            return [named]
    if data.isascii():
        return []
    probe = data[:_PROBE_BYTES]
    if _is_text(probe):  # Also where the probe ends inside of a character.
        return []
    return [name for name in ("deflate", "br") if _can_be_decoded(probe, name)]


def _can_be_decoded(data: bytes, name: str) -> bool:
    decoded = decode_chunks([data], name, bytes_max=_PROBE_BYTES_MAX)
    if decoded.state is EncodingState.FAILED:
        return is_damaged(data, name)
    if decoded.state is EncodingState.TOO_LARGE:
        return True
    return decoded.state is not EncodingState.STALE and len(decoded.chunks[0]) >= _SECRET_BYTES_MIN


def is_damaged(data: bytes, name: str) -> bool:
    """Whether bytes that cannot be decoded to the end were compressed: they begin as a compressed text does."""
    probe = data[:_PROBE_BYTES]
    starts = (probe, probe[2:]) if name == "deflate" else (probe,)  # with and without the header of zlib
    decoded = (decode_start(start, name, bytes_max=_PROBE_BYTES_MAX) for start in starts)
    return any(len(text) >= _DAMAGED_TEXT_BYTES_MIN and _is_text(text) for text in decoded)


def _is_text(data: bytes) -> bool:
    try:
        return _CONTROL.search(codecs.getincrementaldecoder("utf-8")().decode(data)) is None
    except UnicodeDecodeError:
        return False
