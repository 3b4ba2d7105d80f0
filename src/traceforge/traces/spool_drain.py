"""Drain the spool: turn segments without an owner into files.

Each trace becomes `<timestamp>_<id>.json`, with its chunks in `chunks/`; then the segment is removed. Never:
touches a segment whose owner is alive, or removes one before all its traces are on disk. File names follow from the
content, so draining twice, or crashing half-way, does no harm.

Files are not synced one by one; the whole file system is synced once before a segment is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from traceforge.errors import CannotWrite
from traceforge.files import make_private_folder, sync_file_system
from traceforge.traces import chunk_file
from traceforge.traces.file_lock import lock_file
from traceforge.traces.folder_lock import lock_traces_folder
from traceforge.traces.spool import SEGMENT_SUFFIX, SPOOL_FOLDER, SpoolSegment, find_segments, read_segment
from traceforge.traces.trace_summary import TraceSummary

DAMAGED_SUFFIX = ".damaged"  # Appended to the name of a segment with unreadable frames, which is not read again.

LEFTOVER_AGE_S = 60.0  # A younger file may be a segment that its writer is about to lock.


class DrainedSegment(NamedTuple):
    """A segment whose traces are files now: for an index, which need not read them again."""

    container: str  # its name, relative to the traces folder
    files: list[tuple[TraceSummary, int]]  # each trace, and the inode of its file


OnDrained = Callable[[DrainedSegment], None]  # called before the segment is removed; must not raise


def _ignore_segment(segment: DrainedSegment) -> None: ...


class DrainResult(NamedTuple):
    """How many traces were drained, and which segments could not be."""

    traces: int = 0
    torn: int = 0  # segments whose last frame was cut off by a crash
    damaged: tuple[str, ...] = ()  # segments with unreadable frames; they are kept
    remaining: int = 0  # segments that were not drained: their owner is alive, or time was up
    late: int = 0  # of those: time was up

    def combined_with(self, other: DrainResult) -> DrainResult:
        damaged = self.damaged + other.damaged
        return DrainResult(
            self.traces + other.traces,
            self.torn + other.torn,
            damaged,
            self.remaining + other.remaining,
            self.late + other.late,
        )


def drain_spool(
    traces_dir: str, *, seconds: float = float("inf"), on_drained: OnDrained = _ignore_segment
) -> DrainResult:
    """Turn segments without an owner into files, for at most so many seconds.

    Raises:
        CannotWrite: the disk is full, or the folder is not writable; the segment stays, and nothing is lost.
    """
    deadline = time.monotonic() + seconds
    segments = find_segments(traces_dir)
    result = DrainResult()
    if segments:
        with lock_traces_folder(traces_dir, seconds=seconds) as is_locked:
            result = (
                drain_locked_spool(traces_dir, deadline, on_drained)
                if is_locked
                else DrainResult(remaining=len(segments))
            )
    _remove_leftovers(os.path.join(traces_dir, SPOOL_FOLDER))
    return result


def drain_locked_spool(
    traces_dir: str, deadline: float = float("inf"), on_drained: OnDrained = _ignore_segment
) -> DrainResult:
    """As `drain_spool`, for a caller that holds the lock of the traces folder."""
    result = DrainResult()
    for path in find_segments(traces_dir):
        result = result.combined_with(
            _drain_segment(traces_dir, path, on_drained)
            if time.monotonic() < deadline
            else DrainResult(remaining=1, late=1)
        )
    return result


def _drain_segment(traces_dir: str, path: str, on_drained: OnDrained) -> DrainResult:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return DrainResult()  # Another process drained it.
    except PermissionError:
        return DrainResult(remaining=1)  # It belongs to another user.
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    try:
        if not lock_file(descriptor):
            return DrainResult(remaining=1)
        segment = read_segment(path)
        return DrainResult() if segment is None else _write_files(traces_dir, path, segment, on_drained)
    finally:
        os.close(descriptor)


def _write_files(traces_dir: str, path: str, segment: SpoolSegment, on_drained: OnDrained) -> DrainResult:
    drained = DrainedSegment(f"{SPOOL_FOLDER}/{os.path.basename(path)}", [])
    try:
        with _DrainFolder(traces_dir, os.path.basename(path)) as folder:
            for frame in segment.frames:
                if frame.chunks:  # First, so that no reader finds a trace without its chunks.
                    folder.make_folder(chunk_file.CHUNKS_FOLDER)
                    folder.write_file(chunk_file.chunk_file_name(frame.summary.id), frame.chunks)
                drained.files.append((frame.summary, folder.write_file(frame.summary.file_name, frame.trace)))
        if segment.frames:
            sync_file_system(traces_dir)
            on_drained(drained)
        if segment.damaged_bytes:
            os.rename(path, path + DAMAGED_SUFFIX)
        else:
            os.unlink(path)
    except OSError as exc:
        raise CannotWrite(traces_dir, exc) from None
    damaged = (path + DAMAGED_SUFFIX,) if segment.damaged_bytes else ()
    return DrainResult(len(segment.frames), int(segment.torn_bytes > 0), damaged)


class _DrainFolder:
    """Writes the files of one segment, each as a temporary file that is renamed.

    The files are not synced, because the segment stays until the file system is. The temporary file is named after
    the segment, which only one process drains at a time, so that the next one overwrites what a crash left.
    """

    def __init__(self, path: str, segment: str) -> None:
        self._path = path
        self._temporary = f".{segment}.tmp"
        self._descriptor: int | None = None  # None where the system has no dir_fd

    def __enter__(self) -> _DrainFolder:
        if _HAS_DIR_FD:
            self._descriptor = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def make_folder(self, name: str) -> None:
        make_private_folder(os.path.join(self._path, name))

    def write_file(self, name: str, data: bytes) -> int:
        """Write a file completely or not at all, and return its inode; `name` may include a folder."""
        folder, slash, _ = name.rpartition("/")
        temporary = folder + slash + self._temporary
        dir_fd = self._descriptor
        if dir_fd is None:
            name, temporary = os.path.join(self._path, name), os.path.join(self._path, temporary)
        descriptor = os.open(temporary, _WRITE_FLAGS, 0o600, dir_fd=dir_fd)
        try:
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, data[written:])
            inode = os.fstat(descriptor).st_ino
        except OSError:
            os.unlink(temporary, dir_fd=dir_fd)
            raise
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        return inode


_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_HAS_DIR_FD = {os.open, os.rename, os.unlink} <= os.supports_dir_fd


def _remove_leftovers(folder: str) -> None:
    """Remove empty files that a crash left between creating a segment and locking it."""
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
