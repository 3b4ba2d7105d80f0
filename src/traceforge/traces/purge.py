"""Traces that have to go, wherever they stand.

In: a traces folder and ids. Out: no byte of those traces in any file below it. Never: another trace lost. It may be
done again at any time, also after a crash half-way.

Unlike `TraceStore.remove` it trusts no index, and reaches what that leaves alone: segments that are still written,
where the frame is overwritten in its place; segments that were set aside because they are damaged, and temporary
files of a crash, which go as a whole; archives, which are written anew with another dictionary, because a dictionary
is made of pieces of traces; and the index, which is thrown away with its log and made anew by the next reader.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from traceforge.errors import CannotRead, CannotWrite
from traceforge.files import list_folder, read_file, sync_file_system
from traceforge.traces import archive, chunks, drain, index, spool
from traceforge.traces.gate import gate

TEMPORARY = ".tmp"


class PurgedTraces(NamedTuple):
    """What was found."""

    files: int = 0
    frames: int = 0  # in segments that are still written
    archived: int = 0
    segments: int = 0  # that were damaged, and held one of them


def purge_traces(traces_dir: str, ids: Collection[str]) -> PurgedTraces:
    """Remove traces for good; those that are not there were removed before.

    Raises:
        CannotWrite: a file is not ours to change. What was removed before stays removed.
        InvalidFile: an archive is damaged, and nobody knows what is in it.
    """
    if not ids or not os.path.isdir(traces_dir):
        return PurgedTraces()
    wanted = frozenset(ids)
    with gate(traces_dir):
        drain.drain_within(traces_dir)
        frames = sum(spool.blank_frames(path, wanted) for path in spool.find_segments(traces_dir))
        files = sum(_unlink(path) for path in list(_files(traces_dir, wanted)))
        segments = sum(_unlink(path) for path in list(_damaged(traces_dir, wanted)))
        archived = sum(_take_out(traces_dir, path, wanted) for path in archive.find_archives(traces_dir))
        for path in list(_leftovers(traces_dir)):
            _unlink(path)
        index.discard(os.path.join(traces_dir, index.FOLDER))
        sync_file_system(traces_dir)
    return PurgedTraces(files, frames, archived, segments)


def _files(traces_dir: str, ids: frozenset[str]) -> Iterator[str]:
    for entry in list_folder(traces_dir):
        name, dot, _ = entry.name.rpartition(".json")
        if dot and name[name.rfind("_") + 1 :] in ids:
            yield entry.path
    for one in ids:
        path = os.path.join(traces_dir, chunks.file_name(one))
        if os.path.lexists(path):
            yield path


def _damaged(traces_dir: str, ids: frozenset[str]) -> Iterator[str]:
    """Segments that were set aside. What could be read of them are files by now; the rest cannot be told apart."""
    with suppress(CannotRead):
        for entry in list_folder(os.path.join(traces_dir, spool.FOLDER)):
            if entry.name.endswith(drain.DAMAGED):
                data = read_file(entry.path, follow_links=False)
                if any(one.encode() in data for one in ids):
                    yield entry.path


def _take_out(traces_dir: str, path: str, ids: frozenset[str]) -> int:
    """Write an archive anew without these traces."""
    old = archive.Archive(path)
    kept = [number for number, entry in enumerate(old.entries) if entry.summary.id not in ids]
    gone = len(old.entries) - len(kept)
    if gone:
        if kept:
            archive.write_archive(traces_dir, [old.read(number) for number in kept])
            sync_file_system(traces_dir)
        _unlink(path)
    return gone


def _leftovers(traces_dir: str) -> Iterator[str]:
    """What a crash left half-written. Whoever writes such a file holds the gate."""
    for folder in (traces_dir, os.path.join(traces_dir, chunks.FOLDER), os.path.join(traces_dir, archive.FOLDER)):
        with suppress(CannotRead):
            for entry in list_folder(folder):
                if entry.name.startswith(".") and entry.name.endswith(TEMPORARY):
                    yield entry.path


def _unlink(path: str) -> int:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return 0
    except OSError as exc:
        raise CannotWrite(path, (exc.strerror or str(exc)).lower()) from None
    return 1
