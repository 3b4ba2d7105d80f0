"""Update the index: add the traces that are new in the traces folder, and remove those that are gone.

A trace only moves from a segment to a file to an archive. The three are read in that order, so that a trace that
moves meanwhile is seen at least once; a row is removed only if its trace was missing before all archives were read.

A folder is listed again only if its modification time changed; a recent time is not trusted, because file systems
round it. A file that was replaced is read again. A file that was edited in place, which TraceForge never
does, is not: its row stays as it was until `trace reindex`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice

from traceforge.canon import parse_json
from traceforge.errors import CannotRead, InvalidFile, NotJSON, TraceForgeError
from traceforge.files import read_file
from traceforge.traces import spool, trace_archive
from traceforge.traces.spool import SpoolSegment
from traceforge.traces.spool_drain import DrainedSegment
from traceforge.traces.trace_format import Trace, check_file_name, read_trace, write_parsed_trace
from traceforge.traces.trace_index import BROKEN_INDEX_ERRORS, TraceIndex, TraceLocation, TraceRow
from traceforge.traces.trace_migration import migrate_trace, needs_migration
from traceforge.traces.trace_summary import summarize_trace

FILES_STAMP = "."
# File systems round times by up to this: a younger folder may change unnoticed.
STAMP_AGE_MIN_NS = 2_000_000_000  # of times in whole seconds
FINE_STAMP_AGE_MIN_NS = 50_000_000  # of other times: Linux counts them in ticks of at most 10 ms
INODE_MAX = 2**63 - 1  # the largest integer of SQLite
BATCH = 2_000  # Rows in one transaction: an interrupted update loses at most this much work.

Progress = Callable[[int], None]  # called with the number of traces read so far


def update_index(index: TraceIndex, traces_dir: str, progress: Progress) -> None:
    """Make the index match the folder."""
    missing = _index_segments(index, traces_dir)
    missing |= _index_files(index, traces_dir, progress)
    _index_archives(index, traces_dir, missing)
    _remove_missing(index, traces_dir, missing)


def index_drained_segment(index: TraceIndex, segment: DrainedSegment) -> None:
    """Add the traces of a segment that became files, without reading the files."""
    with index.transaction():
        index.add_rows(TraceRow(summary, TraceLocation("", inode & INODE_MAX)) for summary, inode in segment.files)
        index.delete_stamp(segment.container)


def try_index_segment(traces_dir: str, segment: DrainedSegment, busy_ms: int) -> None:
    """Add the traces of a segment to the index of a folder, unless the index is broken or stays locked for `busy_ms`.

    Without the rows, the next command that updates the index reads the files.
    """
    with suppress(OSError, *BROKEN_INDEX_ERRORS), closing(TraceIndex(traces_dir, busy_ms=busy_ms)) as index:
        index_drained_segment(index, segment)


def try_confirm_files(traces_dir: str, busy_ms: int) -> None:
    """After a run, note in the index that it has all files of the folder, so that the next update need not list them.

    Where it does not have them, is broken or stays locked for `busy_ms`, the next update lists the folder.
    """
    time.sleep(FINE_STAMP_AGE_MIN_NS / 1e9)  # Until the time of the folder can be trusted.
    with (
        suppress(OSError, CannotRead, *BROKEN_INDEX_ERRORS),
        closing(TraceIndex(traces_dir, busy_ms=busy_ms)) as index,
    ):
        stamp = _folder_stamp(traces_dir)
        if stamp < 0 or stamp == index.read_stamp(FILES_STAMP):
            return
        if index.names_in("") == dict(_list_inodes(traces_dir)):
            with index.transaction():
                index.save_stamp(FILES_STAMP, stamp)


def read_any_version(data: bytes) -> tuple[Trace, bool]:
    """Read a trace of any version, and whether it was an older one.

    Raises:
        NotJSON, InvalidFile: it is not a trace.
    """
    value = parse_json(data)
    if isinstance(value, dict) and needs_migration(value):
        upgraded, _ = migrate_trace(value)
        return read_trace(write_parsed_trace(upgraded)), True
    return read_trace(data), False


def _index_segments(index: TraceIndex, traces_dir: str) -> set[str]:
    """Add new frames; return the names of traces whose segment is gone and that are not files either."""
    drained = index.containers(spool.SPOOL_FOLDER)
    for path in spool.find_segments(traces_dir):
        container = f"{spool.SPOOL_FOLDER}/{os.path.basename(path)}"
        start = max(0, index.read_stamp(container))
        try:
            segment = (
                spool.read_segment(path, start) if os.path.getsize(path) > start else SpoolSegment([], start, 0, 0)
            )
        except (CannotRead, OSError):  # owned by another user, or just drained
            segment = None
        if segment is None:
            continue
        drained.discard(container)
        if segment.frames:
            with index.transaction():
                index.add_rows(
                    TraceRow(frame.summary, TraceLocation(container, frame.offset)) for frame in segment.frames
                )
                index.save_stamp(container, segment.end)
    missing: set[str] = set()
    for container in drained:
        if os.path.lexists(os.path.join(traces_dir, container)):
            continue
        with index.transaction():
            for name in index.names_in(container):
                status = _file_status(os.path.join(traces_dir, name))
                if status is not None:
                    index.move_trace(name, TraceLocation("", status.st_ino & INODE_MAX))
                else:
                    missing.add(name)
            index.delete_stamp(container)
    return missing


def _index_files(index: TraceIndex, traces_dir: str, progress: Progress) -> set[str]:
    """Add new and replaced files; return the names of those that are gone."""
    stamp = _folder_stamp(traces_dir)
    if stamp >= 0 and index.read_stamp(FILES_STAMP) == stamp:
        return set()
    # Before listing the folder, so that a trace that is added meanwhile does not seem to be gone.
    indexed = index.names_in("")
    on_disk = dict(_list_inodes(traces_dir))
    unreadable = {name: state for name, state in index.unreadable_files().items() if name in on_disk}
    new = iter(sorted(name for name, inode in on_disk.items() if indexed.get(name) != inode))
    read_count = 0
    while batch := list(islice(new, BATCH)):
        rows = [
            row._replace(location=TraceLocation("", on_disk[row.summary.file_name]))
            for row in _read_rows(traces_dir, batch, unreadable)
        ]
        with index.transaction():
            index.add_rows(rows)
            index.remove_rows(name for name in batch if name in unreadable)  # The file was a trace before.
        read_count += len(batch)
        progress(read_count)
    with index.transaction():
        index.set_unreadable_files(unreadable)
        index.save_stamp(FILES_STAMP, stamp)
    return indexed.keys() - on_disk.keys()


def _read_rows(traces_dir: str, names: list[str], unreadable: dict[str, tuple[int, str]]) -> Iterator[TraceRow]:
    for name in names:
        path = os.path.join(traces_dir, name)
        status = _file_status(path)
        if status is None or unreadable.get(name, (None, ""))[0] == status.st_mtime_ns:
            continue
        try:
            trace, _ = read_any_version(read_file(path, follow_links=False))
            misnamed = check_file_name(name, trace.body)
            if misnamed:
                raise InvalidFile(tuple(misnamed))
        except (CannotRead, NotJSON, InvalidFile) as exc:
            if os.path.lexists(path):
                unreadable[name] = (status.st_mtime_ns, _reason(exc))
            continue
        unreadable.pop(name, None)
        yield TraceRow(summarize_trace(trace.body), TraceLocation())


def _reason(error: TraceForgeError) -> str:
    return error.reason if isinstance(error, CannotRead) else error.message


def _index_archives(index: TraceIndex, traces_dir: str, missing: set[str]) -> None:
    """Add new archives; where traces are missing elsewhere, look for them in every archive."""
    indexed = index.containers(trace_archive.ARCHIVE_FOLDER)
    for path in trace_archive.find_archives(traces_dir):
        container = f"{trace_archive.ARCHIVE_FOLDER}/{os.path.basename(path)}"
        indexed.discard(container)
        is_new = index.read_stamp(container) < 0
        if not is_new and not missing:
            continue
        try:
            entries = trace_archive.TraceArchive(path).entries
        except (CannotRead, InvalidFile):
            continue  # `trace verify` reports it
        files = index.names_in("").keys() - missing  # A trace that is also a file is read from the file.
        rows = [TraceRow(entry.summary, TraceLocation(container, number)) for number, entry in enumerate(entries)]
        with index.transaction():
            index.add_rows(
                row
                for row in rows
                if (is_new and row.summary.file_name not in files) or row.summary.file_name in missing
            )
            index.save_stamp(container, len(entries))
    for container in indexed:
        with index.transaction():
            index.remove_rows(index.names_in(container))
            index.delete_stamp(container)


def _remove_missing(index: TraceIndex, traces_dir: str, missing: set[str]) -> None:
    """Remove rows of traces that are gone. They were missing before the archives were read."""
    with index.transaction():
        for name in missing:
            row = index.find_by_name(name)
            if row is not None and not os.path.lexists(os.path.join(traces_dir, row.location.container or name)):
                index.remove_rows([name])


def _folder_stamp(folder: str) -> int:
    """The modification time of a folder; -1 where it is too recent to be trusted, or the folder is missing."""
    try:
        changed = os.stat(folder).st_mtime_ns
    except OSError:
        return -1
    age_min = FINE_STAMP_AGE_MIN_NS if changed % 1_000_000_000 else STAMP_AGE_MIN_NS
    return changed if time.time_ns() - changed >= age_min else -1


def _file_status(path: str) -> os.stat_result | None:
    """The status of a file; None where it is gone."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def _list_inodes(traces_dir: str) -> Iterator[tuple[str, int]]:
    """Names and inodes: a replaced file has another inode, and listing them reads no file."""
    try:
        with os.scandir(traces_dir) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    yield entry.name, entry.inode() & INODE_MAX
    except FileNotFoundError:
        return
    except OSError as exc:
        raise CannotRead(traces_dir, (exc.strerror or str(exc)).lower()) from None
