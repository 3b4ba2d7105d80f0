"""Purge traces: remove every byte of them from the traces folder.

Other traces are not affected. A purge can be repeated at any time, also after a crash half-way.

Unlike `TraceStore.remove_traces` it trusts no index, and it also reaches:

- segments that are still being written: the frame is overwritten in place;
- segments that were set aside as damaged, and temporary files of a crash: removed as a whole;
- archives: written again with a new dictionary, because a dictionary consists of pieces of traces;
- the index: removed with its log; the next reader builds it again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from traceforge.errors import CannotRead, CannotWrite
from traceforge.files import list_folder, read_file, sync_file_system
from traceforge.traces import chunk_file, spool, spool_drain, trace_archive, trace_index
from traceforge.traces.folder_lock import lock_traces_folder

TEMPORARY_SUFFIX = ".tmp"


class PurgedTraces(NamedTuple):
    """How many places held a purged trace, and the ids of the traces that were there."""

    files: int = 0
    frames: int = 0  # in segments that are still being written
    archived: int = 0
    segments: int = 0  # damaged ones, removed as a whole
    ids: frozenset[str] = frozenset()


def purge_traces(traces_dir: str, ids: Collection[str]) -> PurgedTraces:
    """Remove traces for good; ids without a trace are ignored, and are not in the result.

    Raises:
        CannotWrite: a file is not writable. What was removed before stays removed.
        InvalidFile: an archive is damaged, so its content is unknown.
    """
    if not ids or not os.path.isdir(traces_dir):
        return PurgedTraces()
    purged_ids = frozenset(ids)
    with lock_traces_folder(traces_dir):
        spool_drain.drain_locked_spool(traces_dir)
        frames = [
            trace_id for path in spool.find_segments(traces_dir) for trace_id in spool.blank_frames(path, purged_ids)
        ]
        files = [trace_id for trace_id, path in list(_find_files(traces_dir, purged_ids)) if _unlink(path)]
        segments = [
            matches for path, matches in list(_find_damaged_segments(traces_dir, purged_ids)) if _unlink(path)
        ]
        archived = [
            trace_id
            for path in trace_archive.find_archives(traces_dir)
            for trace_id in _rewrite_archive(traces_dir, path, purged_ids)
        ]
        for path in list(_find_temporary_files(traces_dir)):
            _unlink(path)
        trace_index.discard_index(os.path.join(traces_dir, trace_index.INDEX_FOLDER))
        sync_file_system(traces_dir)
    removed_ids = frozenset(files).union(frames, archived, *segments)
    return PurgedTraces(len(files), len(frames), len(archived), len(segments), removed_ids)


def _find_files(traces_dir: str, ids: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The files of these traces and of their chunks, each with the id of its trace."""
    for entry in list_folder(traces_dir):
        name, dot, _ = entry.name.rpartition(".json")
        trace_id = name[name.rfind("_") + 1 :]
        if dot and trace_id in ids:
            yield trace_id, entry.path
    for trace_id in ids:
        path = os.path.join(traces_dir, chunk_file.chunk_file_name(trace_id))
        if os.path.lexists(path):
            yield trace_id, path


def _find_damaged_segments(traces_dir: str, ids: frozenset[str]) -> Iterator[tuple[str, set[str]]]:
    """Segments that were set aside as damaged, each with the ids in it. Their readable frames are files by now."""
    with suppress(CannotRead):
        for entry in list_folder(os.path.join(traces_dir, spool.SPOOL_FOLDER)):
            if entry.name.endswith(spool_drain.DAMAGED_SUFFIX):
                data = read_file(entry.path, follow_links=False)
                if matches := {trace_id for trace_id in ids if trace_id.encode() in data}:
                    yield entry.path, matches


def _rewrite_archive(traces_dir: str, path: str, ids: frozenset[str]) -> list[str]:
    """Write an archive again without these traces; return the ids of those it held."""
    old = trace_archive.TraceArchive(path)
    remaining = [number for number, entry in enumerate(old.entries) if entry.summary.id not in ids]
    removed = [entry.summary.id for entry in old.entries if entry.summary.id in ids]
    if removed:
        if remaining:
            trace_archive.write_archive(traces_dir, [old.read_entry(number) for number in remaining])
            sync_file_system(traces_dir)
        _unlink(path)
    return removed


def _find_temporary_files(traces_dir: str) -> Iterator[str]:
    """Files that a crash left half-written. A process that writes such files holds the lock of the folder."""
    for folder in (
        traces_dir,
        os.path.join(traces_dir, chunk_file.CHUNKS_FOLDER),
        os.path.join(traces_dir, trace_archive.ARCHIVE_FOLDER),
    ):
        with suppress(CannotRead):
            for entry in list_folder(folder):
                if entry.name.startswith(".") and entry.name.endswith(TEMPORARY_SUFFIX):
                    yield entry.path


def _unlink(path: str) -> int:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return 0
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    return 1
