"""Keeping the index true: what stands in the traces folder, and what the index says.

In: a traces folder and its index. Out: an index that knows every trace there is, whether in a segment, a file or an
archive. Never: reads a trace twice, or changes one.

A trace only ever moves from a segment to a file to an archive. The three are looked at in that order, so that one
that moves meanwhile is seen at least once. A folder whose time has not changed since it was last looked at is not
looked at again; a time that is too young to tell is not believed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice

from traceforge.canon import parse
from traceforge.errors import InvalidArtefact, NotJSON, TraceForgeError, Unreadable
from traceforge.files import read_file
from traceforge.traces import archive, spool
from traceforge.traces.format import Trace, check_file_name, read_trace, write_parsed
from traceforge.traces.index import Index, Place, Row
from traceforge.traces.migrate import migrate_trace, needs_migration
from traceforge.traces.summary import summarize

FILES = "."
YOUNG_NS = 2_000_000_000  # File systems keep times as coarsely as this; a younger folder may change unseen.
BATCH = 2_000  # Rows written together: a stop half-way loses no more than this much work.

Progress = Callable[[int], None]  # Is told how many traces were read.


def bring_up_to_date(index: Index, traces_dir: str, progress: Progress) -> None:
    """Make the index know what stands in the folder."""
    _read_segments(index, traces_dir)
    _read_files(index, traces_dir, progress)
    _read_archives(index, traces_dir)


def read_any(data: bytes) -> tuple[Trace, bool]:
    """Read a trace of any version; was it an older one?

    Raises:
        NotJSON, InvalidArtefact: it is none.
    """
    value = parse(data)
    if isinstance(value, dict) and needs_migration(value):
        upgraded, _ = migrate_trace(value)
        return read_trace(write_parsed(upgraded)), True
    return read_trace(data), False


def _read_segments(index: Index, traces_dir: str) -> None:
    known = index.containers(spool.FOLDER)
    for path in spool.find_segments(traces_dir):
        container = f"{spool.FOLDER}/{os.path.basename(path)}"
        known.discard(container)
        start = max(0, index.stamp(container))
        segment = spool.read_segment(path, start) if os.path.getsize(path) > start else None
        if segment is not None and segment.frames:
            with index.changing():
                index.add(Row(frame.summary, Place(container, frame.place)) for frame in segment.frames)
                index.remember(container, segment.end)
    for container in known:  # Drained since: its traces are files by now, or were removed.
        with index.changing():
            for name in index.names_at(container):
                if os.path.exists(os.path.join(traces_dir, name)):
                    index.move(name, Place())
                else:
                    index.remove([name])
            index.forget(container)


def _read_files(index: Index, traces_dir: str, progress: Progress) -> None:
    stamp = _folder_stamp(traces_dir)
    if stamp >= 0 and index.stamp(FILES) == stamp:
        return
    there = set(_file_names(traces_dir))
    unread = {name: known for name, known in index.unread().items() if name in there}
    known = index.names_at("")
    gone = known - there
    with index.changing():
        index.remove(gone)
        for container in index.containers(archive.FOLDER) if gone else ():
            index.forget(container)  # What was a file may also stand in an archive: look again.
    done = 0
    new = iter(sorted(there - known))
    while batch := list(islice(new, BATCH)):
        rows = list(_rows(traces_dir, batch, unread))
        with index.changing():
            index.add(rows)
        done += len(batch)
        progress(done)
    with index.changing():
        index.set_unread(unread)
        index.remember(FILES, stamp)


def _rows(traces_dir: str, names: list[str], unread: dict[str, tuple[int, str]]) -> Iterator[Row]:
    for name in names:
        path = os.path.join(traces_dir, name)
        try:
            stamp = os.stat(path).st_mtime_ns
            if unread.get(name, (-1, ""))[0] == stamp:
                continue
            trace, _ = read_any(read_file(path, follow=False))
            misnamed = check_file_name(name, trace.body)
            if misnamed:
                raise InvalidArtefact(tuple(misnamed))
        except FileNotFoundError:
            continue
        except (Unreadable, NotJSON, InvalidArtefact) as exc:
            unread[name] = (stamp, _reason(exc))
            continue
        unread.pop(name, None)
        yield Row(summarize(trace.body), Place())


def _reason(error: TraceForgeError) -> str:
    return error.reason if isinstance(error, Unreadable) else error.message


def _read_archives(index: Index, traces_dir: str) -> None:
    known = index.containers(archive.FOLDER)
    for path in archive.find_archives(traces_dir):
        container = f"{archive.FOLDER}/{os.path.basename(path)}"
        known.discard(container)
        if index.stamp(container) >= 0:
            continue
        try:
            entries = archive.Archive(path).entries
        except (Unreadable, InvalidArtefact):
            continue  # `trace verify` says what is wrong with it
        files = index.names_at("")
        rows = (Row(entry.summary, Place(container, number)) for number, entry in enumerate(entries))
        with index.changing():
            index.add(row for row in rows if row.summary.file_name not in files)
            index.remember(container, len(entries))
    for container in known:
        with index.changing():
            index.remove(index.names_at(container))
            index.forget(container)


def _folder_stamp(folder: str) -> int:
    """A folder's time; -1 where it is too young to be believed, or there is none."""
    try:
        changed = os.stat(folder).st_mtime_ns
    except OSError:
        return -1
    return changed if time.time_ns() - changed > YOUNG_NS else -1


def _file_names(traces_dir: str) -> Iterator[str]:
    try:
        with os.scandir(traces_dir) as entries:
            for entry in entries:
                if entry.name.endswith(".json") and not entry.name.startswith("."):
                    yield entry.name
    except FileNotFoundError:
        return
    except OSError as exc:
        raise Unreadable(traces_dir, (exc.strerror or str(exc)).lower()) from None
