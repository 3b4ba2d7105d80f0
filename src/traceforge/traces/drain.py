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
from traceforge.traces import chunks
from traceforge.traces.gate import gate
from traceforge.traces.locks import lock
from traceforge.traces.spool import FOLDER, SUFFIX, Segment, find_segments, read_segment

DAMAGED = ".damaged"  # Put behind the name of a segment that holds what cannot be read: kept, and not read again.

LEFTOVER_AGE_S = 60.0  # A younger file may be a segment that its writer is about to own.


class Drained(NamedTuple):
    """What became of the spool."""

    traces: int = 0
    torn: int = 0  # segments whose last frame was cut off by a crash
    damaged: tuple[str, ...] = ()  # segments that hold what cannot be read; they are kept
    left: int = 0  # segments that were not drained: their owner lives, or time was up

    def and_then(self, other: Drained) -> Drained:
        """Both together."""
        damaged = self.damaged + other.damaged
        return Drained(self.traces + other.traces, self.torn + other.torn, damaged, self.left + other.left)


def drain(traces_dir: str, *, seconds: float = float("inf")) -> Drained:
    """Turn every segment without an owner into files, as far as time allows.

    Raises:
        CannotWrite: the disk is full, or the folder not ours; the segment stays, and nothing is lost.
    """
    until = time.monotonic() + seconds
    waiting = find_segments(traces_dir)
    drained = Drained()
    if waiting:
        with gate(traces_dir, seconds=seconds) as ours:
            drained = drain_within(traces_dir, until) if ours else Drained(left=len(waiting))
    _remove_leftovers(os.path.join(traces_dir, FOLDER))
    return drained


def drain_within(traces_dir: str, until: float = float("inf")) -> Drained:
    """The same, for whoever holds the gate."""
    drained = Drained()
    for path in find_segments(traces_dir):
        drained = drained.and_then(_drain_segment(traces_dir, path) if time.monotonic() < until else Drained(left=1))
    return drained


def _drain_segment(traces_dir: str, path: str) -> Drained:
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return Drained()  # Somebody else was faster.
    except PermissionError:
        return Drained(left=1)  # Somebody else's.
    except OSError as exc:
        raise CannotWrite(path, (exc.strerror or str(exc)).lower()) from None
    try:
        if not lock(descriptor):
            return Drained(left=1)
        segment = read_segment(path)
        return Drained() if segment is None else _write_out(traces_dir, path, segment)
    finally:
        os.close(descriptor)


def _write_out(traces_dir: str, path: str, segment: Segment) -> Drained:
    try:
        with _Folder(traces_dir, os.path.basename(path)) as folder:
            for frame in segment.frames:
                if frame.chunks:  # First, so that nobody finds a trace whose chunks are not there yet.
                    folder.make(chunks.FOLDER)
                    folder.write(chunks.file_name(frame.summary.id), frame.chunks)
                folder.write(frame.summary.file_name, frame.trace)
        if segment.frames:
            sync_file_system(traces_dir)
        if segment.damaged_bytes:
            os.rename(path, path + DAMAGED)
        else:
            os.unlink(path)
    except OSError as exc:
        raise CannotWrite(traces_dir, (exc.strerror or str(exc)).lower()) from None
    damaged = (path + DAMAGED,) if segment.damaged_bytes else ()
    return Drained(len(segment.frames), int(segment.torn_bytes > 0), damaged)


class _Folder:
    """Where the files of one segment are written: temporary file and rename, and the next file takes its name.

    There is no sync: the segment is there until the whole file system was synced. The temporary file is named after
    the segment, which one drainer has at a time, so that what a crash has left of it is used up by the next.
    """

    def __init__(self, path: str, segment: str) -> None:
        self._path = path
        self._temporary = f".{segment}.tmp"
        self._descriptor: int | None = None  # None: names are written out, where a system knows no other way

    def __enter__(self) -> _Folder:
        if _HAS_DIR_FD:
            self._descriptor = os.open(self._path, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def make(self, name: str) -> None:
        make_private_folder(os.path.join(self._path, name))

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all; `name` may begin with a folder."""
        folder, slash, _ = name.rpartition("/")
        temporary = folder + slash + self._temporary
        place = self._descriptor
        if place is None:
            name, temporary = os.path.join(self._path, name), os.path.join(self._path, temporary)
        descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=place)
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


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
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
        if lock(descriptor) and not os.path.exists(path.removesuffix(".new") + SUFFIX):
            os.unlink(path)
    finally:
        os.close(descriptor)
