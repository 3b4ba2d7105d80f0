"""Draining: from segments that nobody owns to files.

In: a traces folder. Out: each trace of an abandoned segment as `<timestamp>_<id>.json`, its chunks beside it, and the
segment gone. Never: touches a segment whose owner lives, or removes one before all of it is on the disk: names are
decided by content, so that doing it twice, or dying half-way, changes nothing.

Files are written without a sync each; one sync of the whole file system comes before the segment goes.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NamedTuple

from traceforge.errors import CannotWrite
from traceforge.files import make_private_folder, sync_file_system
from traceforge.traces import chunk_file
from traceforge.traces.file_lock import lock_file
from traceforge.traces.folder_lock import lock_traces_folder
from traceforge.traces.spool import SEGMENT_SUFFIX, SPOOL_FOLDER, SpoolSegment, find_segments, read_segment

DAMAGED_SUFFIX = (
    ".damaged"  # Put behind the name of a segment that holds what cannot be read: kept, and not read again.
)

LEFTOVER_AGE_S = 60.0  # A younger file may be a segment that its writer is about to own.


class DrainResult(NamedTuple):
    """What became of the spool."""

    traces: int = 0
    torn: int = 0  # segments whose last frame was cut off by a crash
    damaged: tuple[str, ...] = ()  # segments that hold what cannot be read; they are kept
    remaining: int = 0  # segments that were not drained: their owner lives, or time was up

    def combined_with(self, other: DrainResult) -> DrainResult:
        """Both together."""
        damaged = self.damaged + other.damaged
        return DrainResult(
            self.traces + other.traces, self.torn + other.torn, damaged, self.remaining + other.remaining
        )


def drain_spool(traces_dir: str, *, seconds: float = float("inf")) -> DrainResult:
    """Turn every segment without an owner into files, as far as time allows.

    Raises:
        CannotWrite: the disk is full, or the folder not ours; the segment stays, and nothing is lost.
    """
    deadline = time.monotonic() + seconds
    segments = find_segments(traces_dir)
    result = DrainResult()
    if segments:
        with lock_traces_folder(traces_dir, seconds=seconds) as is_locked:
            result = drain_locked_spool(traces_dir, deadline) if is_locked else DrainResult(remaining=len(segments))
    _remove_leftovers(os.path.join(traces_dir, SPOOL_FOLDER))
    return result


def drain_locked_spool(traces_dir: str, deadline: float = float("inf")) -> DrainResult:
    """The same, for whoever holds the gate."""
    result = DrainResult()
    for path in find_segments(traces_dir):
        result = result.combined_with(
            _drain_segment(traces_dir, path) if time.monotonic() < deadline else DrainResult(remaining=1)
        )
    return result


def _drain_segment(traces_dir: str, path: str) -> DrainResult:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return DrainResult()  # Somebody else was faster.
    except PermissionError:
        return DrainResult(remaining=1)  # Somebody else's.
    except OSError as exc:
        raise CannotWrite(path, (exc.strerror or str(exc)).lower()) from None
    try:
        if not lock_file(descriptor):
            return DrainResult(remaining=1)
        segment = read_segment(path)
        return DrainResult() if segment is None else _write_files(traces_dir, path, segment)
    finally:
        os.close(descriptor)


def _write_files(traces_dir: str, path: str, segment: SpoolSegment) -> DrainResult:
    try:
        with _DrainFolder(traces_dir, os.path.basename(path)) as folder:
            for frame in segment.frames:
                if frame.chunks:  # First, so that nobody finds a trace whose chunks are not there yet.
                    folder.make_folder(chunk_file.CHUNKS_FOLDER)
                    folder.write_file(chunk_file.chunk_file_name(frame.summary.id), frame.chunks)
                folder.write_file(frame.summary.file_name, frame.trace)
        if segment.frames:
            sync_file_system(traces_dir)
        if segment.damaged_bytes:
            os.rename(path, path + DAMAGED_SUFFIX)
        else:
            os.unlink(path)
    except OSError as exc:
        raise CannotWrite(traces_dir, (exc.strerror or str(exc)).lower()) from None
    damaged = (path + DAMAGED_SUFFIX,) if segment.damaged_bytes else ()
    return DrainResult(len(segment.frames), int(segment.torn_bytes > 0), damaged)


class _DrainFolder:
    """Where the files of one segment are written: temporary file and rename, and the next file takes its name.

    There is no sync: the segment is there until the whole file system was synced. The temporary file is named after
    the segment, which one drainer has at a time, so that what a crash has left of it is used up by the next.
    """

    def __init__(self, path: str, segment: str) -> None:
        self._path = path
        self._temporary = f".{segment}.tmp"
        self._descriptor: int | None = None  # None: names are written out, where a system knows no other way

    def __enter__(self) -> _DrainFolder:
        if _HAS_DIR_FD:
            self._descriptor = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def make_folder(self, name: str) -> None:
        make_private_folder(os.path.join(self._path, name))

    def write_file(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; `name` may begin with a folder."""
        folder, slash, _ = name.rpartition("/")
        temporary = folder + slash + self._temporary
        place = self._descriptor
        if place is None:
            name, temporary = os.path.join(self._path, name), os.path.join(self._path, temporary)
        descriptor = os.open(temporary, _WRITE_FLAGS, 0o600, dir_fd=place)
        try:
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError:
            os.unlink(temporary, dir_fd=place)
            raise
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=place, dst_dir_fd=place)


_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_HAS_DIR_FD = {os.open, os.rename, os.unlink} <= os.supports_dir_fd


def _remove_leftovers(folder: str) -> None:
    """A crash between making a segment and owning it leaves an empty file, which is nobody's once it is old."""
    old = time.time() - LEFTOVER_AGE_S
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".new"):
                status = entry.stat()
                if status.st_size == 0 and status.st_mtime < old:
                    _remove_unowned(entry.path)


def _remove_unowned(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        if lock_file(descriptor) and not os.path.exists(path.removesuffix(".new") + SEGMENT_SUFFIX):
            os.unlink(path)
    finally:
        os.close(descriptor)
