"""The trace store: list, search, read, remove, compress and migrate the traces of a project.

A trace may be in a segment, a file or an archive, and may move while it is read; readers never notice.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from traceforge.canon import JSONObject, parse_json
from traceforge.errors import CannotRead, CannotWrite, InvalidFile, NotFound, NotJSON
from traceforge.exchange import Chunk
from traceforge.files import read_file, sync_file_system, write_atomic
from traceforge.terminal import ProgressReporter, no_progress
from traceforge.traces import chunk_file, spool, trace_archive, trace_index
from traceforge.traces.folder_lock import lock_traces_folder
from traceforge.traces.index_update import Progress, index_drained_segment, read_any_version, update_index
from traceforge.traces.search_text import trace_text
from traceforge.traces.spool_drain import DrainedSegment, DrainResult, drain_spool
from traceforge.traces.trace_format import Trace, check_trace, write_trace
from traceforge.traces.trace_index import (
    CallGroup,
    SearchHit,
    TraceFilter,
    TraceIndex,
    TraceLocation,
    TraceRow,
    TraceSession,
)
from traceforge.traces.trace_migration import MigrationResult, migrate_trace, needs_migration
from traceforge.traces.trace_summary import StoredTrace, TraceSummary, summarize_trace

DRAIN_SECONDS = 5.0  # The most that a reader spends on draining; the next one continues.
TEXTS_BATCH = 500
ID_PREFIX_LENGTH_MIN = 4  # A shorter prefix of an id matches too many traces by chance.
SHORT_ID_HINT = "Give at least four characters of its id; to list ids: traceforge trace list"

Result = TypeVar("Result")


def ignore_progress(read_count: int) -> None: ...


class TraceStore:
    """One traces folder. Used by one thread."""

    def __init__(self, traces_dir: str) -> None:
        self.folder = traces_dir
        self.drain_result = DrainResult()  # of all updates of the index
        self.old_version_count = 0  # traces of older versions read so far
        self._index: TraceIndex | None = None
        self._archive: trace_archive.TraceArchive | None = None

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def update_index(self, progress: Progress = ignore_progress) -> None:
        """Drain segments without an owner, and update the index.

        Raises:
            CannotRead: the folder cannot be read.
        """
        if self._index is not None and self._index.is_replaced():
            self.close()
        if not os.path.isdir(self.folder):
            return
        with suppress(CannotWrite):  # Readers read segments, too: a full disk does not prevent reading.
            result = drain_spool(self.folder, seconds=DRAIN_SECONDS, on_drained=self._index_segment)
            self.drain_result = self.drain_result.combined_with(result)
        self._with_index(lambda index: update_index(index, self.folder, progress))

    def _index_segment(self, segment: DrainedSegment) -> None:
        self._with_index(lambda index: index_drained_segment(index, segment))

    def reindex(self, progress: Progress = ignore_progress) -> int:
        """Rebuild the index with all texts; return the number of traces."""
        self.close()
        trace_index.discard_index(os.path.join(self.folder, trace_index.INDEX_FOLDER))
        self.update_index(progress)
        self._add_missing_texts(progress)
        return self.count_traces(TraceFilter())

    def list_rows(
        self,
        trace_filter: TraceFilter = TraceFilter(),  # noqa: B008 (frozen)
        limit: int = -1,
        *,
        oldest_first: bool = False,
    ) -> list[TraceRow]:
        """The rows of the index, newest first."""
        return self._with_index(lambda index: index.list_rows(trace_filter, limit, oldest_first=oldest_first))

    def count_traces(self, trace_filter: TraceFilter) -> int:
        return self._with_index(lambda index: index.count_rows(trace_filter))

    def search(
        self, query: str, trace_filter: TraceFilter, limit: int, progress: Progress = ignore_progress
    ) -> list[SearchHit]:
        """Traces that contain every term, newest first."""
        self._add_missing_texts(progress)
        return self._with_index(lambda index: index.search(query, trace_filter, limit))

    def list_sessions(self, limit: int = -1) -> list[TraceSession]:
        """The sessions of all traces, newest first."""
        return self._with_index(lambda index: index.list_sessions(limit))

    def sum_calls(self, trace_filter: TraceFilter, bucket_ms: int) -> list[CallGroup]:
        """The sums of all calls that match, by buckets of time, models and call sites."""
        return self._with_index(lambda index: index.sum_calls(trace_filter, bucket_ms))

    def find_time_range(self) -> tuple[int, int] | None:
        """When the first and the last call began, in milliseconds since 1970; None if there is none."""
        return self._with_index(lambda index: index.find_time_range())

    def session_rows(self, session_id: str) -> list[TraceRow]:
        """The traces of one session, in the order of their steps."""
        return self._with_index(lambda index: index.session_rows(session_id))

    def load_session(self, reference: str) -> tuple[str, list[TraceRow]]:
        """The session of this id, or the only one whose id begins with it, and its traces.

        Raises:
            NotFound: no session matches, or several do.
        """
        rows = self.session_rows(reference) if reference else []  # Calls without a session are not a session.
        if rows:
            return reference, rows
        names = [session.session_id for session in self.list_sessions() if session.session_id.startswith(reference)]
        if len(reference) < ID_PREFIX_LENGTH_MIN or not names:
            raise NotFound(f"there is no session {reference}", hint="See: traceforge session list")
        if len(names) > 1:
            raise _several_begin_with("sessions", reference, names)
        return names[0], self.session_rows(names[0])

    def unreadable_files(self) -> dict[str, str]:
        """Files in the folder that are not valid traces, and why."""
        return {
            name: reason for name, (_, reason) in self._with_index(lambda index: index.unreadable_files()).items()
        }

    def load_row(self, reference: str) -> TraceRow:
        """The row of a trace, by its id, the beginning of its id, or its file name.

        Raises:
            NotFound: no trace matches, or several do.
        """
        name = os.path.basename(reference)
        if name.endswith(".json"):
            row = self._with_index(lambda index: index.find_by_name(name))
            if row is not None:
                return row
        rows = (
            self._with_index(lambda index: index.find_by_id_prefix(reference.lower(), 4))
            if len(reference) >= ID_PREFIX_LENGTH_MIN
            else []
        )
        if len(rows) == 1 or (rows and rows[0].summary.id == reference.lower()):
            return rows[0]
        if rows:
            raise _several_begin_with("traces", reference, [row.summary.id for row in rows])
        if not os.path.isdir(self.folder):
            raise NotFound("there are no traces yet", hint="Make traces first: traceforge run -- COMMAND")
        if len(reference) < ID_PREFIX_LENGTH_MIN:
            raise NotFound(f"{reference} is too short", hint=SHORT_ID_HINT)
        raise NotFound(f"there is no trace {reference}", hint="See: traceforge trace list")

    def read_stored(self, row: TraceRow) -> StoredTrace:
        """The bytes of a trace and its chunks, wherever it is by now.

        Raises:
            NotFound: it was removed meanwhile.
        """
        for read_from in (
            self._read_segment,
            *(self._read_file, self._read_archive) * 3,
        ):  # It may move meanwhile.
            stored = read_from(row)
            if stored is not None:
                return stored
        message = f"the trace {row.summary.id} was removed while this command ran"
        raise NotFound(message, hint="See what is left: traceforge trace list")

    def load_trace(self, row: TraceRow) -> Trace:
        """A trace, migrated to this version in memory.

        Raises:
            InvalidFile, NotJSON: its file was changed and is not a valid trace any more.
        """
        trace, was_older = read_any_version(self.read_stored(row).trace)
        self.old_version_count += was_older
        return trace

    def load_chunks(self, row: TraceRow) -> list[Chunk]:
        """The chunks of a streamed response; empty where it was not a stream."""
        return chunk_file.read_chunks(self.read_stored(row).chunks)

    def remove_traces(self, rows: Sequence[TraceRow], progress: ProgressReporter = no_progress) -> None:
        """Remove traces and their chunks, except in segments that are still being written.

        Raises:
            CannotWrite: a file cannot be removed.
        """
        names = {row.summary.file_name for row in rows}
        if not names:
            return
        with lock_traces_folder(self.folder):
            self._remove_locked(rows, names, progress)

    def _remove_locked(self, rows: Sequence[TraceRow], names: set[str], progress: ProgressReporter) -> None:
        for row in progress(rows, len(rows), "removing"):
            self._unlink(os.path.join(self.folder, row.summary.file_name))
            self._unlink(os.path.join(self.folder, chunk_file.chunk_file_name(row.summary.id)))
        containers = {row.location.container for row in rows}
        # After a crash, a trace may be both in a file and in an archive.
        archives = list(trace_archive.find_archives(self.folder))
        for path in progress(archives, len(archives), "rewriting archives"):
            self._rewrite_archive(
                path, names, must_open=f"{trace_archive.ARCHIVE_FOLDER}/{os.path.basename(path)}" in containers
            )
        self._with_index(lambda index: _remove_from_index(index, names))

    def compress_traces(self, rows: Iterable[TraceRow]) -> CompressionResult:
        """Move traces from files into archives.

        Raises:
            CannotWrite: the disk is full, or the folder is not writable; nothing is lost.
        """
        if not os.path.isdir(self.folder):
            return CompressionResult(0, 0, 0)
        with lock_traces_folder(self.folder):
            return self._compress_locked(rows)

    def _compress_locked(self, rows: Iterable[TraceRow]) -> CompressionResult:
        before = after = count = 0
        files = (self._read_file(row) for row in rows if not row.location.container)
        for batch in _archive_batches(stored for stored in files if stored is not None):
            path = trace_archive.write_archive(self.folder, batch)
            after += os.path.getsize(path)
            for stored in batch:
                before += len(stored.trace) + len(stored.chunks)
                self._unlink(os.path.join(self.folder, stored.summary.file_name))
                self._unlink(os.path.join(self.folder, chunk_file.chunk_file_name(stored.summary.id)))
            count += len(batch)
            container = f"{trace_archive.ARCHIVE_FOLDER}/{os.path.basename(path)}"
            self._with_index(partial(_move_to_archive_in_index, folder=self.folder, container=container))
        return CompressionResult(count, before, after)

    def migrate_traces(self, rows: Iterable[TraceRow]) -> list[tuple[TraceSummary, MigrationResult]]:
        """Rewrite files of older versions. Traces in archives are migrated in memory whenever they are read."""
        with lock_traces_folder(self.folder):
            return self._migrate_locked(rows)

    def _migrate_locked(self, rows: Iterable[TraceRow]) -> list[tuple[TraceSummary, MigrationResult]]:
        migrated: list[tuple[TraceSummary, MigrationResult]] = []
        for row in rows:
            stored = self._read_file(row) if not row.location.container else None
            value = parse_json(stored.trace) if stored else None
            if isinstance(value, dict) and needs_migration(value):
                migrated += _migrate_file(os.path.join(self.folder, row.summary.file_name), value)
        return migrated

    def _with_index(self, work: Callable[[TraceIndex], Result]) -> Result:
        """Use the index; rebuild it once if it is broken."""
        if self._index is None:
            self._index = TraceIndex(self.folder)
        try:
            return work(self._index)
        except trace_index.BROKEN_INDEX_ERRORS as exc:
            self.close()
            if not _is_busy(exc):
                trace_index.discard_index(os.path.join(self.folder, trace_index.INDEX_FOLDER))
                with suppress(*trace_index.BROKEN_INDEX_ERRORS):
                    return self._with_new_index(work, in_memory=False)
            return self._with_new_index(work, in_memory=True)

    def _with_new_index(self, work: Callable[[TraceIndex], Result], *, in_memory: bool) -> Result:
        self.close()
        self._index = TraceIndex(self.folder, in_memory=in_memory)
        update_index(self._index, self.folder, ignore_progress)
        return work(self._index)

    def add_texts(self, limit: int) -> int:
        """Make the newest traces searchable that are not yet; returns how many, 0 once all are.

        A search does it for all of them. The web view does it bit by bit, so that its first search is fast.
        """
        rows = self._with_index(lambda index: index.rows_without_text(limit))
        if rows:
            texts = [(number, self._searchable_text(row)) for number, row in rows]
            self._with_index(partial(_add_texts_to_index, texts=texts))
        return len(rows)

    def _add_missing_texts(self, progress: Progress) -> None:
        read_count = 0
        while added := self.add_texts(TEXTS_BATCH):
            read_count += added
            progress(read_count)

    def _searchable_text(self, row: TraceRow) -> str:
        try:
            return trace_text(self.load_trace(row).body)
        except (NotFound, NotJSON, InvalidFile, CannotRead):
            return ""  # It was removed or changed meanwhile; the next update of the index notices.

    def _read_segment(self, row: TraceRow) -> StoredTrace | None:
        if not row.location.container.startswith(spool.SPOOL_FOLDER + "/"):
            return None
        frame = spool.read_frame(os.path.join(self.folder, row.location.container), row.location.position)
        if frame is None or frame.summary.id != row.summary.id:
            return None
        return StoredTrace(frame.summary, frame.trace, frame.chunks)

    def _read_file(self, row: TraceRow) -> StoredTrace | None:
        path = os.path.join(self.folder, row.summary.file_name)
        with_chunks = os.path.join(self.folder, chunk_file.chunk_file_name(row.summary.id))
        try:
            trace = read_file(path, follow_links=False)
            pieces = read_file(with_chunks, follow_links=False) if os.path.lexists(with_chunks) else b""
        except CannotRead:
            if os.path.lexists(path):
                raise
            return None
        if not pieces and not os.path.lexists(path):
            return None  # It moved to an archive meanwhile, and its chunks may be gone.
        return StoredTrace(row.summary, trace, pieces)

    def _read_archive(self, row: TraceRow) -> StoredTrace | None:
        damage: InvalidFile | None = None
        for path in self._candidate_archives(row):
            try:
                if self._archive is None or self._archive.path != path:
                    self._archive = trace_archive.TraceArchive(path)
                number = self._archive.find_entry(row.summary, row.location.position)
                if number is not None:
                    return self._archive.read_entry(number)
            except CannotRead:
                continue  # It was written again under another name.
            except InvalidFile as exc:
                damage = exc  # The trace may be in another archive, too.
        if damage is not None:
            raise damage
        return None

    def _candidate_archives(self, row: TraceRow) -> list[str]:
        """All archives; the one of the row first."""
        named = os.path.join(self.folder, row.location.container)
        return sorted(trace_archive.find_archives(self.folder), key=lambda path: path != named)

    def _rewrite_archive(self, path: str, removed_names: set[str], *, must_open: bool) -> None:
        try:
            old = trace_archive.TraceArchive(path)
        except (CannotRead, InvalidFile):
            if must_open and os.path.lexists(path):
                raise
            return
        if not any(entry.summary.file_name in removed_names for entry in old.entries):
            return
        remaining = [
            old.read_entry(number)
            for number, entry in enumerate(old.entries)
            if entry.summary.file_name not in removed_names
        ]
        if remaining:
            trace_archive.write_archive(self.folder, remaining)
            sync_file_system(self.folder)
        self._unlink(path)
        self._archive = None

    @staticmethod
    def _unlink(path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise CannotWrite(path, exc) from None


class CompressionResult(NamedTuple):
    """How many traces were compressed, and their bytes before and after."""

    traces: int
    bytes_before: int
    bytes_after: int


def _several_begin_with(objects: str, reference: str, names: list[str]) -> NotFound:
    candidates = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return NotFound(f"several {objects} begin with {reference}: {candidates}", hint="Give more characters of its id.")


def _is_busy(error: Exception) -> bool:
    """Whether the index is locked, full or read-only, and not broken."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)


def _remove_from_index(index: TraceIndex, names: set[str]) -> None:
    with index.transaction():
        index.remove_rows(names)


def _add_texts_to_index(index: TraceIndex, texts: list[tuple[int, str]]) -> None:
    with index.transaction():
        index.add_texts(texts)


def _move_to_archive_in_index(index: TraceIndex, folder: str, container: str) -> None:
    entries = trace_archive.TraceArchive(os.path.join(folder, container)).entries
    with index.transaction():
        index.add_rows(
            TraceRow(entry.summary, TraceLocation(container, number)) for number, entry in enumerate(entries)
        )
        index.save_stamp(container, len(entries))


def _archive_batches(traces: Iterable[StoredTrace]) -> Iterable[list[StoredTrace]]:
    batch: list[StoredTrace] = []
    size = 0
    for stored in traces:
        batch.append(stored)
        size += len(stored.trace) + len(stored.chunks)
        if size >= trace_archive.ARCHIVE_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def migrate_trace_file(path: str) -> list[tuple[TraceSummary, MigrationResult]]:
    """Rewrite the trace in a file if its version is older; the list is empty if it is not.

    Raises:
        CannotRead, NotJSON: it cannot be read.
        UnknownVersion, InvalidFile: it cannot be migrated, or is not a trace.
        CannotWrite: it cannot be written.
    """
    try:
        value = parse_json(read_file(path))
    except NotJSON as exc:
        raise exc.in_file(path) from None
    if isinstance(value, dict):
        return _migrate_file(path, value)
    raise InvalidFile(tuple(check_trace(value, path))).in_file(path)


def _migrate_file(path: str, trace: JSONObject) -> list[tuple[TraceSummary, MigrationResult]]:
    try:
        upgraded, result = migrate_trace(trace)
        data = write_trace(upgraded)
    except InvalidFile as exc:
        raise exc.in_file(path) from None
    if not result.steps:
        return []
    write_atomic(path, data, mode=0o600)
    return [(summarize_trace(upgraded), result)]
