"""The archive: old traces in little room.

`archive/<day>-<random>.tfz` holds many traces, compressed with zstd and a dictionary that was trained on them. Traces
of one session share a block, because a conversation repeats itself. Byte by byte:

    4 bytes      "TFZ1"
    blocks       zstd frames with checksums, each of traces and chunks one after another
    contents     one zstd frame: msgpack of (dictionary, blocks as (start, length), entries)
    4 bytes      CRC-32 of the contents, little-endian
    4 bytes      length of the contents, little-endian
    4 bytes      "TFZ1"

An entry is (summary, block, start in the block, length of the trace, length of the chunks).

In: traces as they are kept. Out: the same bytes. Never: changed once it is written; to take a trace out, the archive
is written anew under another name.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from traceforge.conversion import decode_msgpack
from traceforge.errors import CannotRead, InvalidFile
from traceforge.files import list_folder, make_private_folder, read_file, write_atomic
from traceforge.findings import Finding
from traceforge.traces.summary import Kept, Summary

if TYPE_CHECKING:
    import zstandard

FOLDER = "archive"
SUFFIX = ".tfz"
MAGIC = b"TFZ1"
RULE = "TR5"

BLOCK_BYTES_MAX = 256 << 10  # One trace is read by decompressing its block: a millisecond.
ARCHIVE_BYTES_MAX = 256 << 20  # Uncompressed; more traces go to a second archive.
DICTIONARY_BYTES = 64 << 10
SAMPLES_BYTES_MAX = 100 * DICTIONARY_BYTES  # What a dictionary is trained on: more does not make it better.
SAMPLES_MIN = 16  # Fewer are too few to train one.
LEVEL = 9  # Twice as slow as 3 and a fifth smaller; beyond it little is gained.

_END = struct.Struct("<II4s")
_Size = Annotated[int, msgspec.Meta(ge=0)]


class Entry(NamedTuple):
    """Where a trace stands in an archive."""

    summary: Summary
    block: _Size
    start: _Size
    trace_length: _Size
    chunks_length: _Size


class _Contents(msgspec.Struct, array_like=True):
    dictionary: bytes
    blocks: list[tuple[_Size, _Size]]
    entries: list[Entry]


class Archive:
    """An archive that is open for reading."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._data = read_file(path, follow_links=False)
        self._contents = _read_contents(path, self._data)
        self._last: tuple[int, bytes] = (-1, b"")  # the block that was read last: neighbours are read together

    @property
    def entries(self) -> list[Entry]:
        """Everything in it, in order."""
        return self._contents.entries

    def find(self, summary: Summary, hint: int) -> int | None:
        """The place of a trace in `entries`, which is probably `hint`."""
        if hint < len(self.entries) and _is_same(self.entries[hint].summary, summary):
            return hint
        return next((n for n, entry in enumerate(self.entries) if _is_same(entry.summary, summary)), None)

    def read(self, number: int) -> Kept:
        """One trace, by its place in `entries`.

        Raises:
            InvalidFile: the archive is damaged at that place.
        """
        entry = self._contents.entries[number]
        block = self._block(entry.block)
        middle = entry.start + entry.trace_length
        end = middle + entry.chunks_length
        if end > len(block):
            raise _damaged(self.path, f"entry {number} is outside its block")
        return Kept(entry.summary, block[entry.start : middle], block[middle:end])

    def _block(self, number: int) -> bytes:
        if self._last[0] != number:
            try:
                start, length = self._contents.blocks[number]
                data = _decompress(self._data[start : start + length], self._contents.dictionary)
            except (IndexError, ValueError):
                raise _damaged(self.path, f"block {number} cannot be read") from None
            self._last = (number, data)
        return self._last[1]


def _is_same(one: Summary, other: Summary) -> bool:
    return one.id == other.id and one.timestamp == other.timestamp


def find_archives(traces_dir: str) -> list[str]:
    """Every archive, by name."""
    try:
        entries = list_folder(os.path.join(traces_dir, FOLDER))
    except CannotRead:
        return []
    return [entry.path for entry in entries if entry.name.endswith(SUFFIX)]


def write_archive(traces_dir: str, traces: Iterable[Kept]) -> str:
    """Write traces as one archive; its path.

    Raises:
        CannotWrite: the folder is full, or not ours to write; nothing is changed.
    """
    ordered = sorted(traces, key=lambda one: (one.summary.session_id, one.summary.timestamp, one.summary.id))
    dictionary = _train([one.trace for one in ordered])
    parts = [MAGIC]
    contents = _Contents(dictionary, [], [])
    size = len(MAGIC)
    for block in _blocks(ordered):
        start = 0
        for one in block:
            contents.entries.append(Entry(one.summary, len(contents.blocks), start, len(one.trace), len(one.chunks)))
            start += len(one.trace) + len(one.chunks)
        packed = _compress(b"".join(one.trace + one.chunks for one in block), dictionary)
        contents.blocks.append((size, len(packed)))
        parts.append(packed)
        size += len(packed)
    packed = _compress(msgspec.msgpack.encode(contents), b"")
    parts += (packed, _END.pack(zlib.crc32(packed), len(packed), MAGIC))
    folder = os.path.join(traces_dir, FOLDER)
    make_private_folder(folder)
    path = os.path.join(folder, f"{ordered[0].summary.timestamp[:10]}-{secrets.token_hex(6)}{SUFFIX}")
    write_atomic(path, b"".join(parts), mode=0o600)
    return path


def _blocks(traces: Sequence[Kept]) -> Iterator[list[Kept]]:
    """Neighbours together, until a block is full."""
    block: list[Kept] = []
    size = 0
    for one in traces:
        length = len(one.trace) + len(one.chunks)
        if block and size + length > BLOCK_BYTES_MAX:
            yield block
            block, size = [], 0
        block.append(one)
        size += length
    if block:
        yield block


def _train(samples: Sequence[bytes]) -> bytes:
    """A dictionary of what the samples have in common; none where they are too few or too small."""
    import zstandard

    step = max(1, sum(map(len, samples)) // SAMPLES_BYTES_MAX)
    chosen: list[bytes | bytearray | memoryview] = list(samples[::step])
    if len(chosen) < SAMPLES_MIN:
        return b""
    size = min(DICTIONARY_BYTES, sum(map(len, chosen)) // 10)
    try:
        return zstandard.train_dictionary(size, chosen).as_bytes()
    except zstandard.ZstdError:
        return b""


def _dictionary(data: bytes) -> zstandard.ZstdCompressionDict | None:
    import zstandard

    return zstandard.ZstdCompressionDict(data) if data else None


def _compress(data: bytes, dictionary: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(LEVEL, dict_data=_dictionary(dictionary), write_checksum=True).compress(data)


def _decompress(data: bytes, dictionary: bytes) -> bytes:
    """Raises ValueError where it is not what was written."""
    import zstandard

    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= ARCHIVE_BYTES_MAX * 2:
            raise ValueError("too large")
        return zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary)).decompress(data)
    except zstandard.ZstdError:
        raise ValueError("not readable") from None


def _read_contents(path: str, data: bytes) -> _Contents:
    if len(data) < len(MAGIC) + _END.size or data[:4] != MAGIC:
        raise _damaged(path, "this is no archive")
    checksum, length, magic = _END.unpack(data[-_END.size :])
    packed = data[-_END.size - length : -_END.size]
    if magic != MAGIC or len(packed) != length or zlib.crc32(packed) != checksum:
        raise _damaged(path, "its table of contents is damaged")
    try:
        return decode_msgpack(_decompress(packed, b""), _Contents)
    except (msgspec.DecodeError, ValueError):
        raise _damaged(path, "its table of contents cannot be read") from None


def _damaged(path: str, reason: str) -> InvalidFile:
    return InvalidFile((Finding(path, "", RULE, reason, "Restore the archive from a backup, or delete it."),))
