"""Archives: compressed files of old traces.

`archive/<day>-<random>.tfz` holds many traces, compressed with zstd and a dictionary that was trained on them. Traces
of one session share a block, because a conversation repeats itself. Byte by byte:

    4 bytes      "TFZ1"
    blocks       zstd frames with checksums, each of traces and chunks one after another
    contents     one zstd frame: msgpack of (dictionary, blocks as (start, length), entries)
    4 bytes      CRC-32 of the contents, little-endian
    4 bytes      length of the contents, little-endian
    4 bytes      "TFZ1"

An entry is (summary, block, start in the block, length of the trace, length of the chunks).

An archive never changes. To remove a trace, the archive is written again under another name.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec
import zstandard

from traceforge.conversion import decode_msgpack, encode_msgpack
from traceforge.errors import CannotRead, InvalidFile
from traceforge.files import list_folder, make_private_folder, read_file, write_atomic
from traceforge.findings import Finding
from traceforge.traces.trace_summary import StoredTrace, TraceSummary

ARCHIVE_FOLDER = "archive"
ARCHIVE_SUFFIX = ".tfz"
MAGIC = b"TFZ1"
ARCHIVE_RULE = "TR5"

BLOCK_BYTES_MAX = 256 << 10  # One trace is read by decompressing its block: a millisecond.
ARCHIVE_BYTES_MAX = 256 << 20  # Uncompressed; more traces go to a second archive.
EXPANSION_MAX = 10_000  # How often its own size a frame may hold, beside a whole block; more is a bomb.
ENTRY_BYTES_MIN = 2  # of an entry in the compressed contents: no two have the same id
DICTIONARY_BYTES = 64 << 10
SAMPLES_BYTES_MAX = 100 * DICTIONARY_BYTES  # More samples do not make the dictionary better.
SAMPLES_MIN = 16  # The fewest samples a dictionary is trained on.
LEVEL = 9  # Twice as slow as 3 and a fifth smaller; beyond it little is gained.

_END = struct.Struct("<II4s")
_Size = Annotated[int, msgspec.Meta(ge=0)]


class ArchiveEntry(NamedTuple):
    """Where a trace is in an archive."""

    summary: TraceSummary
    block: _Size
    start: _Size
    trace_length: _Size
    chunks_length: _Size


class _TableOfContents(msgspec.Struct, array_like=True):
    dictionary: bytes
    blocks: list[tuple[_Size, _Size]]
    entries: list[ArchiveEntry]


class _RawContents(msgspec.Struct, array_like=True):
    """The same, before its lists are built: a small file may announce lists that fill the memory."""

    dictionary: bytes
    blocks: msgspec.Raw
    entries: msgspec.Raw


class TraceArchive:
    """An archive, read into memory."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._data = read_file(path, follow_links=False)
        self._contents = _read_contents(path, self._data)
        self._block_sizes = _measure_blocks(self._contents.entries)
        self._cached_block: tuple[int, bytes] = (
            -1,
            b"",
        )  # its number and bytes: neighbours are read together

    @property
    def entries(self) -> list[ArchiveEntry]:
        """Every entry, in the order of the file."""
        return self._contents.entries

    def find_entry(self, summary: TraceSummary, hint: int) -> int | None:
        """The number of a trace in `entries`, which is probably `hint`."""
        if hint < len(self.entries) and _is_same_trace(self.entries[hint].summary, summary):
            return hint
        return next((n for n, entry in enumerate(self.entries) if _is_same_trace(entry.summary, summary)), None)

    def read_entry(self, number: int) -> StoredTrace:
        """One trace, by its number in `entries`.

        Raises:
            InvalidFile: the block is damaged.
        """
        entry = self._contents.entries[number]
        block = self._read_block(entry.block)
        middle = entry.start + entry.trace_length
        end = middle + entry.chunks_length
        if end > len(block):
            raise _damaged_error(self.path, f"entry {number} is outside its block")
        return StoredTrace(entry.summary, block[entry.start : middle], block[middle:end])

    def _read_block(self, number: int) -> bytes:
        if self._cached_block[0] != number:
            try:
                start, length = self._contents.blocks[number]
                packed = self._data[start : start + length]
                data = _decompress(packed, self._contents.dictionary, bytes_max=self._block_sizes[number])
            except (LookupError, ValueError):
                raise _damaged_error(self.path, f"block {number} cannot be read") from None
            self._cached_block = (number, data)
        return self._cached_block[1]


def _is_same_trace(summary: TraceSummary, other: TraceSummary) -> bool:
    return summary.id == other.id and summary.timestamp == other.timestamp


def find_archives(traces_dir: str) -> list[str]:
    try:
        entries = list_folder(os.path.join(traces_dir, ARCHIVE_FOLDER))
    except CannotRead:
        return []
    return [entry.path for entry in entries if entry.name.endswith(ARCHIVE_SUFFIX)]


def write_archive(traces_dir: str, traces: Iterable[StoredTrace]) -> str:
    """Write traces as one archive; return its path.

    Raises:
        CannotWrite: the disk is full, or the folder is not writable; nothing changed.
    """
    ordered = sorted(traces, key=lambda trace: (trace.summary.session_id, trace.summary.timestamp, trace.summary.id))
    dictionary = _train_dictionary([trace.trace for trace in ordered])
    parts = [MAGIC]
    contents = _TableOfContents(dictionary, [], [])
    size = len(MAGIC)
    for block in _split_into_blocks(ordered):
        start = 0
        for trace in block:
            contents.entries.append(
                ArchiveEntry(trace.summary, len(contents.blocks), start, len(trace.trace), len(trace.chunks))
            )
            start += len(trace.trace) + len(trace.chunks)
        packed = _compress(b"".join(trace.trace + trace.chunks for trace in block), dictionary)
        contents.blocks.append((size, len(packed)))
        parts.append(packed)
        size += len(packed)
    packed = _compress(encode_msgpack(contents), b"")
    parts += (packed, _END.pack(zlib.crc32(packed), len(packed), MAGIC))
    folder = os.path.join(traces_dir, ARCHIVE_FOLDER)
    make_private_folder(folder)
    path = os.path.join(folder, f"{ordered[0].summary.timestamp[:10]}-{secrets.token_hex(6)}{ARCHIVE_SUFFIX}")
    write_atomic(path, b"".join(parts), mode=0o600)
    return path


def _split_into_blocks(traces: Sequence[StoredTrace]) -> Iterator[list[StoredTrace]]:
    """Consecutive traces, until a block is full."""
    block: list[StoredTrace] = []
    size = 0
    for trace in traces:
        length = len(trace.trace) + len(trace.chunks)
        if block and size + length > BLOCK_BYTES_MAX:
            yield block
            block, size = [], 0
        block.append(trace)
        size += length
    if block:
        yield block


def _train_dictionary(samples: Sequence[bytes]) -> bytes:
    """A dictionary of what the samples have in common; b"" where they are too few or too small."""
    step = max(1, sum(map(len, samples)) // SAMPLES_BYTES_MAX)
    chosen_samples: list[bytes | bytearray | memoryview] = list(samples[::step])
    if len(chosen_samples) < SAMPLES_MIN:
        return b""
    size = min(DICTIONARY_BYTES, sum(map(len, chosen_samples)) // 10)
    try:
        return zstandard.train_dictionary(size, chosen_samples).as_bytes()
    except zstandard.ZstdError:
        return b""


def _dictionary(data: bytes) -> zstandard.ZstdCompressionDict | None:
    return zstandard.ZstdCompressionDict(data) if data else None


def _compress(data: bytes, dictionary: bytes) -> bytes:
    return zstandard.ZstdCompressor(LEVEL, dict_data=_dictionary(dictionary), write_checksum=True).compress(data)


def _decompress(data: bytes, dictionary: bytes, *, bytes_max: int = ARCHIVE_BYTES_MAX * 2) -> bytes:
    """Raises ValueError where the data are damaged."""
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= min(bytes_max, BLOCK_BYTES_MAX + EXPANSION_MAX * len(data)):
            raise ValueError("too large")
        return zstandard.ZstdDecompressor(dict_data=_dictionary(dictionary)).decompress(data)
    except zstandard.ZstdError:
        raise ValueError("not readable") from None


def _read_contents(path: str, data: bytes) -> _TableOfContents:
    if len(data) < len(MAGIC) + _END.size or data[:4] != MAGIC:
        raise _damaged_error(path, "not a trace archive")
    checksum, length, magic = _END.unpack(data[-_END.size :])
    packed = data[-_END.size - length : -_END.size]
    if magic != MAGIC or len(packed) != length or zlib.crc32(packed) != checksum:
        raise _damaged_error(path, "its table of contents is damaged")
    try:
        raw = _decompress(packed, b"")
        _check_counts(decode_msgpack(raw, _RawContents), len(packed))
        contents = decode_msgpack(raw, _TableOfContents)
    except (msgspec.DecodeError, ValueError):
        raise _damaged_error(path, "its table of contents cannot be read") from None
    if not _are_in_order(contents.entries):
        raise _damaged_error(path, "two of its entries overlap")
    if not _are_apart(contents.blocks):
        raise _damaged_error(path, "two of its blocks overlap")
    if sum(_measure_blocks(contents.entries).values()) > ARCHIVE_BYTES_MAX * 2:
        raise _damaged_error(path, f"it holds more than {ARCHIVE_BYTES_MAX * 2} bytes")
    return contents


def _check_counts(contents: _RawContents, packed_bytes: int) -> None:
    """Raises ValueError where there are more entries than their ids take up, or more blocks than entries."""
    entries, blocks = _count_items(contents.entries), _count_items(contents.blocks)
    if entries * ENTRY_BYTES_MIN > packed_bytes or blocks > entries:
        raise ValueError("too many")


def _count_items(data: msgspec.Raw) -> int:
    """How many items an array of msgpack says that it has."""
    head = bytes(memoryview(data)[:5])
    if head[:1] == b"\xdc":
        return int.from_bytes(head[1:3], "big")
    return int.from_bytes(head[1:5], "big") if head[:1] == b"\xdd" else head[0] & 0x0F


def _are_in_order(entries: Sequence[ArchiveEntry]) -> bool:
    """Whether each entry begins behind the one before it, as they are written: none is there twice."""
    place = (0, 0)
    for entry in entries:
        if (entry.block, entry.start) < place:
            return False
        place = (entry.block, entry.start + entry.trace_length + entry.chunks_length)
    return True


def _are_apart(blocks: Sequence[tuple[int, int]]) -> bool:
    """Whether each block begins behind the one before it: a bomb is not decompressed once for each name of it."""
    place = len(MAGIC)
    for start, length in blocks:
        if start < place:
            return False
        place = start + length
    return True


def _measure_blocks(entries: Iterable[ArchiveEntry]) -> dict[int, int]:
    """How long each block is, decompressed: it ends with its last entry."""
    return {entry.block: entry.start + entry.trace_length + entry.chunks_length for entry in entries}


def _damaged_error(path: str, reason: str) -> InvalidFile:
    return InvalidFile((Finding(path, "", ARCHIVE_RULE, reason, "Restore the archive from a backup, or delete it."),))
