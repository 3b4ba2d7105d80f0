"""The spool: append-only segments that hold new traces until they are drained into files.

Creating a file for each of twenty thousand calls a second is too slow, appending is not. A process appends each
trace to its own *segment*, `spool/<pid>-<random>.segment`; segments without an owner are drained into files. Byte
by byte, a segment is frames, one after another; all numbers are little-endian:

    4 bytes   0x54 0x46 0x53 0x31 ("TFS1")
    4 bytes   length of the summary
    4 bytes   length of the trace
    4 bytes   length of the chunks, 0 where the response was not a stream
    4 bytes   CRC-32 of the three lengths, the summary, the trace and the chunks
    summary   `Summary.to_bytes`
    trace     as its file will hold it
    chunks    as their file will hold them

A frame whose summary has the length 0 is *blank*: its trace was purged, and its content is zeros.

The owner holds an exclusive lock on its segment while it runs; a crash releases it. A frame that a crash cut off is a
*torn tail*; a frame in the middle that does not match its checksum is *damaged*. Both are reported, and all other
frames are read.
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakSet

import msgspec

from traceforge.errors import CannotRead, CannotWrite
from traceforge.files import list_folder, make_private_folder, read_file
from traceforge.traces.file_lock import lock_file
from traceforge.traces.trace_summary import StoredTrace, TraceSummary

SPOOL_FOLDER = "spool"
MAGIC = b"TFS1"
SEGMENT_SUFFIX = ".segment"
SEGMENT_BYTES_MAX = 32 << 20  # Draining reads a whole segment; beyond this size, a new one is begun.
OPEN_ATTEMPTS = 10
SYNC_INTERVAL_S = 0.2  # The most that a power failure can lose. A crash of the process loses nothing.

_HEAD = struct.Struct("<4sIIII")
_LENGTHS = struct.Struct("<III")
_CHECKSUM = struct.Struct("<I")
_sync = getattr(os, "fdatasync", os.fsync)


class SpoolFrame(NamedTuple):
    """One trace in a segment."""

    offset: int
    summary: TraceSummary
    trace: bytes
    chunks: bytes


class SpoolSegment(NamedTuple):
    """The content of a segment."""

    frames: list[SpoolFrame]
    end: int  # of the last complete frame
    damaged_bytes: int  # in the middle
    torn_bytes: int  # at the end


class SpoolWriter:
    """Appends traces to a segment of this process. Safe to use from several threads and after a fork.

    `durable` makes every append wait for the disk; otherwise appends are synced in groups.
    """

    def __init__(self, traces_dir: str, *, durable: bool = False) -> None:
        self._folder = os.path.join(traces_dir, SPOOL_FOLDER)
        self._durable = durable
        self._lock = threading.Lock()
        self._descriptor = -1
        self._path = ""  # of the segment
        self._counts: dict[str, int] = {}  # of traces, by segment, also of closed ones
        self._size = 0
        self._synced_at = 0.0
        self._dirty = False
        _writers.add(self)

    def append(self, stored: StoredTrace) -> None:
        """Append one trace: after this returns, a crash of the process does not lose it.

        Raises:
            CannotWrite: the disk is full, or the folder is not writable; earlier traces stay.
        """
        frame = encode_frame(stored)
        size = len(frame[0]) + len(stored.trace) + len(stored.chunks)
        with self._lock:
            try:
                self._write_frame(frame, size)
            except OSError as exc:
                raise CannotWrite(self._folder, exc) from None

    def sync(self) -> None:
        """Wait until every appended trace is on disk."""
        with self._lock:
            if self._descriptor >= 0 and self._dirty:
                _sync(self._descriptor)
                self._dirty = False
                self._synced_at = time.monotonic()

    def seal(self) -> None:
        """Sync and release the segment, so that it can be drained. The next append begins another."""
        self.sync()
        with self._lock:
            self._close_segment()

    def list_segments(self) -> dict[str, int]:
        """The segments of this writer that are not drained yet, and how many traces went into each."""
        counts = self._counts.copy()  # Without the lock, which is held while the disk is waited for.
        return {path: count for path, count in counts.items() if os.path.exists(path)}

    def reset_after_fork(self) -> None:
        """In a forked child, leave the segments to the parent; a thread that held the lock does not exist here."""
        self._lock = threading.Lock()
        self._counts = {}
        self._dirty = False
        self._close_segment()

    def _write_frame(self, frame: list[bytes], size: int) -> None:
        if self._size >= SEGMENT_BYTES_MAX or self._descriptor < 0:
            self._close_segment()
            self._begin_segment()
        written = os.writev(self._descriptor, frame) if _HAS_WRITEV else os.write(self._descriptor, b"".join(frame))
        if written != size:  # A full disk cuts a write short: remove the partial frame.
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += size
        self._counts[self._path] = self._counts.get(self._path, 0) + 1
        self._dirty = True
        now = time.monotonic()
        if self._durable or now - self._synced_at >= SYNC_INTERVAL_S:
            _sync(self._descriptor)
            self._synced_at = now
            self._dirty = False
            if os.fstat(self._descriptor).st_nlink == 0:  # The folder was deleted: begin another segment.
                self._close_segment()

    def _begin_segment(self) -> None:
        """Open a segment; try again where the folder or the file was deleted before it was locked."""
        for _ in range(OPEN_ATTEMPTS - 1):
            with suppress(FileNotFoundError):
                return self._open_segment()
        return self._open_segment()

    def _open_segment(self) -> None:
        make_private_folder(self._folder)
        name = os.path.join(self._folder, f"{os.getpid()}-{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(name + ".new", flags | getattr(os, "O_BINARY", 0), 0o600)
        try:
            lock_file(descriptor, wait=True)  # A process that removes leftovers may hold it for a moment.
            os.rename(name + ".new", name + SEGMENT_SUFFIX)  # Only now, so that it is not drained unlocked.
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._path, self._size = descriptor, name + SEGMENT_SUFFIX, 0
        self._counts = self.list_segments()
        self._synced_at = time.monotonic()

    def _close_segment(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_HAS_WRITEV = hasattr(os, "writev")
_writers: WeakSet[SpoolWriter] = WeakSet()


def _reset_writers_after_fork() -> None:
    for writer in _writers:
        writer.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_writers_after_fork)


def encode_frame(stored: StoredTrace) -> list[bytes]:
    """The parts of a frame."""
    summary = stored.summary.to_bytes()
    lengths = _LENGTHS.pack(len(summary), len(stored.trace), len(stored.chunks))
    checksum = zlib.crc32(stored.trace, zlib.crc32(lengths + summary))
    if not stored.chunks:
        return [MAGIC + lengths + _CHECKSUM.pack(checksum) + summary, stored.trace]
    checksum = zlib.crc32(stored.chunks, checksum)
    return [MAGIC + lengths + _CHECKSUM.pack(checksum) + summary, stored.trace, stored.chunks]


def find_segments(traces_dir: str) -> list[str]:
    """The paths of all segments, with or without an owner, sorted."""
    try:
        entries = list_folder(os.path.join(traces_dir, SPOOL_FOLDER))
    except CannotRead:
        return []
    return [
        entry.path
        for entry in entries
        if entry.name.endswith(SEGMENT_SUFFIX) and entry.is_file(follow_symlinks=False)
    ]


def read_segment(path: str, start: int = 0) -> SpoolSegment | None:
    """Read the frames of a segment from an offset on; None where it was drained meanwhile."""
    try:
        return parse_segment(read_file(path, follow_links=False), start)
    except CannotRead:
        if os.path.lexists(path):
            raise
        return None


def read_frame(path: str, offset: int) -> SpoolFrame | None:
    """Read the frame at an offset; None if it is damaged, or the segment is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        file.seek(offset)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        size = min(_payload_size(head, 0), os.fstat(descriptor).st_size)
        frame = _parse_frame(head + file.read(size), 0)
    return frame._replace(offset=offset) if frame else None


def parse_segment(data: bytes, start: int = 0) -> SpoolSegment:
    """Find every complete frame; damaged bytes are skipped and counted."""
    frames: list[SpoolFrame] = []
    damaged = 0
    offset = end = start
    while offset < len(data):
        frame = _parse_frame(data, offset)
        if frame is not None:
            damaged += offset - end
            frames.append(frame)
            offset = end = offset + _HEAD.size + _payload_size(data, offset)
            continue
        if _is_blank_frame(data, offset):
            damaged += offset - end
            offset = end = offset + _HEAD.size + _payload_size(data, offset)
            continue
        offset = data.find(MAGIC, offset + 1)
        if offset < 0:
            break
    return SpoolSegment(frames, end, damaged, len(data) - end)


def blank_frames(path: str, ids: Collection[str]) -> list[str]:
    """Overwrite the frames of these traces in place, also while the owner appends; return the id of each frame.

    Raises:
        CannotWrite: the segment is not writable.
    """
    segment = read_segment(path)
    matching = [frame for frame in segment.frames if frame.summary.id in ids] if segment is not None else []
    if not matching:
        return []
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    try:
        for frame in matching:
            os.lseek(descriptor, frame.offset, os.SEEK_SET)
            size = _payload_size(os.read(descriptor, _HEAD.size), 0)
            os.lseek(descriptor, frame.offset, os.SEEK_SET)
            os.write(descriptor, _blank_frame(size))
        os.fsync(descriptor)
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    finally:
        os.close(descriptor)
    return [frame.summary.id for frame in matching]


def _blank_frame(size: int) -> bytes:
    lengths, nothing = _LENGTHS.pack(0, size, 0), bytes(size)
    return MAGIC + lengths + _CHECKSUM.pack(zlib.crc32(nothing, zlib.crc32(lengths))) + nothing


def _is_blank_frame(data: bytes, offset: int) -> bool:
    if len(data) - offset < _HEAD.size:
        return False
    _, summary, size, _, _ = _HEAD.unpack_from(data, offset)
    end = offset + _HEAD.size + size
    return summary == 0 and end <= len(data) and data[offset:end] == _blank_frame(size)


def _payload_size(data: bytes, offset: int) -> int:
    _, summary, trace, chunks, _ = _HEAD.unpack_from(data, offset)
    return int(summary + trace + chunks)


def _parse_frame(data: bytes, offset: int) -> SpoolFrame | None:
    if len(data) - offset < _HEAD.size:
        return None
    magic, summary_size, trace_size, chunks_size, checksum = _HEAD.unpack_from(data, offset)
    start = offset + _HEAD.size
    first, second = start + summary_size, start + summary_size + trace_size
    end = second + chunks_size
    if magic != MAGIC or end > len(data):
        return None
    view = memoryview(data)
    if zlib.crc32(view[start:end], zlib.crc32(view[offset + 4 : offset + 16])) != checksum:
        return None
    try:
        summary = TraceSummary.from_bytes(data[start:first])
    except (msgspec.DecodeError, UnicodeDecodeError):  # or an id or time that cannot be in a file name
        return None
    return SpoolFrame(offset, summary, data[first:second], data[second:end])


def read_frames(traces_dir: str) -> Iterator[SpoolFrame]:
    """Every trace in the spool."""
    for path in find_segments(traces_dir):
        segment = read_segment(path)
        if segment is not None:
            yield from segment.frames
