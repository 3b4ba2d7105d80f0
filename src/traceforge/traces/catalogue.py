"""Keeping the index true: what stands in the traces folder, and what the index says.

In: a traces folder and its index. Out: an index that knows every trace there is, whether in a segment, a file or an
archive. Never: reads a trace twice, or changes one.

A trace only ever moves from a segment to a file to an archive. The three are looked at in that order, so that one
that moves meanwhile is seen at least once; a row goes only when its trace was missed before all archives were read.
A folder whose time has not changed since it was last looked at is not looked at again; a time that is too young to
tell is not believed. A file that was replaced is read again, one that was changed in its place, which no tool of ours
does, is not: its list entry stays until `trace reindex`, and whoever opens it sees what it says now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice

from traceforge.canon import parse_json
from traceforge.errors import CannotRead, InvalidFile, NotJSON, TraceForgeError
from traceforge.files import read_file
from traceforge.traces import archive, spool
from traceforge.traces.format import Trace, check_file_name, read_trace, write_parsed
from traceforge.traces.index import Index, Place, Row
from traceforge.traces.migrate import migrate_trace, needs_migration
from traceforge.traces.spool import Segment
from traceforge.traces.summary import summarize

FILES = "."
YOUNG_NS = 2_000_000_000  # File systems keep times as coarsely as this; a younger folder may change unseen.
INODE_MAX = 2**63 - 1  # What SQLite holds.
BATCH = 2_000  # Rows written together: a stop half-way loses no more than this much work.

Progress = Callable[[int], None]  # Is told how many traces were read.


def bring_up_to_date(index: Index, traces_dir: str, progress: Progress) -> None:
    """Make the index know what stands in the folder."""
    missing = _read_segments(index, traces_dir)
    missing |= _read_files(index, traces_dir, progress)
    _read_archives(index, traces_dir, missing)
    _remove_missing(index, traces_dir, missing)


def read_any(data: bytes) -> tuple[Trace, bool]:
    """Read a trace of any version; was it an older one?

    Raises:
        NotJSON, InvalidFile: it is none.
    """
    value = parse_json(data)
    if isinstance(value, dict) and needs_migration(value):
        upgraded, _ = migrate_trace(value)
        return read_trace(write_parsed(upgraded)), True
    return read_trace(data), False


def _read_segments(index: Index, traces_dir: str) -> set[str]:
    """Read what is new in segments; the names of traces whose segment is gone and that are no files."""
    drained = index.containers(spool.FOLDER)
    for path in spool.find_segments(traces_dir):
        container = f"{spool.FOLDER}/{os.path.basename(path)}"
        start = max(0, index.stamp(container))
        try:
            segment = spool.read_segment(path, start) if os.path.getsize(path) > start else Segment([], start, 0, 0)
        except (CannotRead, OSError):  # Somebody else's, or drained this moment.
            segment = None
        if segment is None:
            continue
        drained.discard(container)
        if segment.frames:
            with index.changing():
                index.add(Row(frame.summary, Place(container, frame.place)) for frame in segment.frames)
                index.remember(container, segment.end)
    missing: set[str] = set()
    for container in drained:
        if os.path.lexists(os.path.join(traces_dir, container)):
            continue
        with index.changing():
            for name in index.names_at(container):
                status = _status(os.path.join(traces_dir, name))
                if status is not None:
                    index.move(name, Place("", status.st_ino & INODE_MAX))
                else:
                    missing.add(name)
            index.forget(container)
    return missing


def _read_files(index: Index, traces_dir: str, progress: Progress) -> set[str]:
    """Read files that are new or changed; the names of those that are gone."""
    stamp = _folder_stamp(traces_dir)
    if stamp >= 0 and index.stamp(FILES) == stamp:
        return set()
    known = index.names_at("")  # Before the folder, so that what others add meanwhile does not seem to be gone.
    there = dict(_file_numbers(traces_dir))
    unread = {name: state for name, state in index.unread().items() if name in there}
    new = iter(sorted(name for name, inode in there.items() if known.get(name) != inode))
    done = 0
    while batch := list(islice(new, BATCH)):
        rows = [
            row._replace(place=Place("", there[row.summary.file_name])) for row in _rows(traces_dir, batch, unread)
        ]
        with index.changing():
            index.add(rows)
            index.remove(name for name in batch if name in unread)  # It was a trace, and is none any more.
        done += len(batch)
        progress(done)
    with index.changing():
        index.set_unread(unread)
        index.remember(FILES, stamp)
    return known.keys() - there.keys()


def _rows(traces_dir: str, names: list[str], unread: dict[str, tuple[int, str]]) -> Iterator[Row]:
    for name in names:
        path = os.path.join(traces_dir, name)
        status = _status(path)
        if status is None or unread.get(name, (None, ""))[0] == status.st_mtime_ns:
            continue
        try:
            trace, _ = read_any(read_file(path, follow_links=False))
            misnamed = check_file_name(name, trace.body)
            if misnamed:
                raise InvalidFile(tuple(misnamed))
        except (CannotRead, NotJSON, InvalidFile) as exc:
            if os.path.lexists(path):
                unread[name] = (status.st_mtime_ns, _reason(exc))
            continue
        unread.pop(name, None)
        yield Row(summarize(trace.body), Place())


def _reason(error: TraceForgeError) -> str:
    return error.reason if isinstance(error, CannotRead) else error.message


def _read_archives(index: Index, traces_dir: str, missing: set[str]) -> None:
    """Read archives that are new; where traces are missing elsewhere, look for them in all."""
    known = index.containers(archive.FOLDER)
    for path in archive.find_archives(traces_dir):
        container = f"{archive.FOLDER}/{os.path.basename(path)}"
        known.discard(container)
        is_new = index.stamp(container) < 0
        if not is_new and not missing:
            continue
        try:
            entries = archive.Archive(path).entries
        except (CannotRead, InvalidFile):
            continue  # `trace verify` says what is wrong with it
        files = index.names_at("").keys() - missing  # A trace that is also a file is read from there.
        rows = [Row(entry.summary, Place(container, number)) for number, entry in enumerate(entries)]
        with index.changing():
            index.add(
                row
                for row in rows
                if (is_new and row.summary.file_name not in files) or row.summary.file_name in missing
            )
            index.remember(container, len(entries))
    for container in known:
        with index.changing():
            index.remove(index.names_at(container))
            index.forget(container)


def _remove_missing(index: Index, traces_dir: str, missing: set[str]) -> None:
    """Forget traces that are nowhere. They were missed before the archives were read, where a trace may go."""
    with index.changing():
        for name in missing:
            row = index.find(name)
            if row is not None and not os.path.lexists(os.path.join(traces_dir, row.place.container or name)):
                index.remove([name])


def _folder_stamp(folder: str) -> int:
    """A folder's time; -1 where it is too young to be believed, or there is none."""
    try:
        changed = os.stat(folder).st_mtime_ns
    except OSError:
        return -1
    return changed if time.time_ns() - changed > YOUNG_NS else -1


def _status(path: str) -> os.stat_result | None:
    """What the file system says about a file; None where it is gone."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def _file_numbers(traces_dir: str) -> Iterator[tuple[str, int]]:
    """Names and inodes: a file that was replaced has another, and to list them costs nothing."""
    try:
        with os.scandir(traces_dir) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    yield entry.name, entry.inode() & INODE_MAX
    except FileNotFoundError:
        return
    except OSError as exc:
        raise CannotRead(traces_dir, (exc.strerror or str(exc)).lower()) from None
