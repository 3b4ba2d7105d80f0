"""The store: every trace of a project, wherever it stands.

In: a traces folder. Out: lists, searches, single traces, sessions; and the few ways in which traces go: pruned,
compressed, migrated. Never: shows a reader that a trace is on its way from a segment to a file to an archive.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from traceforge.canon import parse_json
from traceforge.errors import CannotRead, CannotWrite, InvalidFile, NotFound, NotJSON
from traceforge.exchange import Chunk
from traceforge.files import read_file, sync_file_system, write_atomic
from traceforge.traces import archive, chunks, index, spool
from traceforge.traces.catalogue import Progress, bring_up_to_date, read_any
from traceforge.traces.drain import Drained, drain
from traceforge.traces.format import Trace, write_trace
from traceforge.traces.gate import gate
from traceforge.traces.index import Filter, Hit, Index, Place, Row, Session
from traceforge.traces.migrate import MigrationResult, migrate_trace, needs_migration
from traceforge.traces.summary import Kept, Summary, summarize
from traceforge.traces.words import text_of

DRAIN_SECONDS = 5.0  # What a reader spends on the spool of processes that are gone; the next one goes on.
WORDS_BATCH = 500
PREFIX_MIN = 4  # Fewer characters of an id name too many traces by chance.

Result = TypeVar("Result")


def silent(done: int) -> None:
    """Nobody watches."""


class TraceStore:
    """One traces folder. Used by one thread."""

    def __init__(self, traces_dir: str) -> None:
        self.folder = traces_dir
        self.drained = Drained()  # what was found in the spool when the store was brought up to date
        self.old_versions = 0  # traces of older versions that were read
        self._index: Index | None = None
        self._archive: archive.Archive | None = None

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def bring_up_to_date(self, progress: Progress = silent) -> None:
        """Drain what processes that are gone have left, and make the index know everything.

        Raises:
            CannotRead: the folder cannot be read.
        """
        if not os.path.isdir(self.folder):
            return
        with suppress(CannotWrite):  # Readers see segments as well; a full disk is no reason not to read.
            self.drained = self.drained.and_then(drain(self.folder, seconds=DRAIN_SECONDS))
        self._with_index(lambda found: bring_up_to_date(found, self.folder, progress))

    def reindex(self, progress: Progress = silent) -> int:
        """Make the index anew, with all words; how many traces it knows."""
        self.close()
        index.discard(os.path.join(self.folder, index.FOLDER))
        self.bring_up_to_date(progress)
        self._add_words(progress)
        return self.count(Filter())

    def rows(self, narrowed: Filter = Filter(), limit: int = -1, *, oldest_first: bool = False) -> list[Row]:  # noqa: B008
        """Summaries with their places, newest first."""
        return self._with_index(lambda found: found.rows(narrowed, limit, oldest_first=oldest_first))

    def count(self, narrowed: Filter) -> int:
        """How many traces there are."""
        return self._with_index(lambda found: found.count(narrowed))

    def search(self, query: str, narrowed: Filter, limit: int, progress: Progress = silent) -> list[Hit]:
        """Traces that hold every word, newest first."""
        self._add_words(progress)
        return self._with_index(lambda found: found.search(query, narrowed, limit))

    def sessions(self, limit: int = -1) -> list[Session]:
        """Every session, newest first."""
        return self._with_index(lambda found: found.sessions(limit))

    def session(self, session_id: str) -> list[Row]:
        """The traces of one session, in the order of their steps."""
        return self._with_index(lambda found: found.session(session_id))

    def unread(self) -> dict[str, str]:
        """Files in the folder that are no traces, and why."""
        return {name: reason for name, (_, reason) in self._with_index(lambda found: found.unread()).items()}

    def find(self, wanted: str) -> Row:
        """The trace of an id, of the beginning of one, or of a file name.

        Raises:
            NotFound: there is none, or there are several.
        """
        name = os.path.basename(wanted)
        if name.endswith(".json"):
            row = self._with_index(lambda found: found.find(name))
            if row is not None:
                return row
        rows = self._with_index(lambda found: found.find_ids(wanted.lower(), 4)) if len(wanted) >= PREFIX_MIN else []
        if len(rows) == 1 or (rows and rows[0].summary.id == wanted.lower()):
            return rows[0]
        if rows:
            names = ", ".join(row.summary.id for row in rows[:3])
            told = f"{names} …" if len(rows) > 3 else names
            raise NotFound(f"several traces begin with {wanted}: {told}", hint="Give more characters of its id.")
        hint = (
            "See: traceforge trace list" if len(wanted) >= PREFIX_MIN else "Give at least four characters of its id."
        )
        raise NotFound(f"there is no trace {wanted}", hint=hint)

    def read(self, row: Row) -> Kept:
        """A trace as it is kept, wherever it is by now.

        Raises:
            NotFound: it was removed meanwhile.
        """
        for look in (self._read_segment, *(self._read_file, self._read_archive) * 3):  # It may move while we look.
            kept = look(row)
            if kept is not None:
                return kept
        raise NotFound(f"the trace {row.summary.id} is gone", hint="It was removed meanwhile.")

    def load(self, row: Row) -> Trace:
        """A trace, of this version whatever it was written as.

        Raises:
            InvalidFile, NotJSON: its file was changed and is no trace any more.
        """
        trace, was_older = read_any(self.read(row).trace)
        self.old_versions += was_older
        return trace

    def load_chunks(self, row: Row) -> list[Chunk]:
        """The chunks of a streamed answer; none where it was no stream."""
        return chunks.read_chunks(self.read(row).chunks)

    def remove(self, rows: Sequence[Row]) -> None:
        """Remove traces with their chunks, everywhere but in a segment that is still written.

        Raises:
            CannotWrite: a file is not ours to remove.
        """
        names = {row.summary.file_name for row in rows}
        if not names:
            return
        with gate(self.folder):
            self._remove(rows, names)

    def _remove(self, rows: Sequence[Row], names: set[str]) -> None:
        for row in rows:
            self._unlink(os.path.join(self.folder, row.summary.file_name))
            self._unlink(os.path.join(self.folder, chunks.file_name(row.summary.id)))
        named = {row.place.container for row in rows}
        for path in archive.find_archives(self.folder):  # A crash may have left a file and an archive of one trace.
            self._rewrite_archive(path, names, must_open=f"{archive.FOLDER}/{os.path.basename(path)}" in named)
        self._with_index(lambda found: _remove(found, names))

    def compress(self, rows: Iterable[Row]) -> Compressed:
        """Move traces that are files into archives.

        Raises:
            CannotWrite: the folder is full, or not ours to write; nothing is lost.
        """
        with gate(self.folder):
            return self._compress(rows)

    def _compress(self, rows: Iterable[Row]) -> Compressed:
        before = after = count = 0
        files = (self._read_file(row) for row in rows if not row.place.container)
        for batch in _batches(kept for kept in files if kept is not None):
            path = archive.write_archive(self.folder, batch)
            after += os.path.getsize(path)
            for kept in batch:
                before += len(kept.trace) + len(kept.chunks)
                self._unlink(os.path.join(self.folder, kept.summary.file_name))
                self._unlink(os.path.join(self.folder, chunks.file_name(kept.summary.id)))
            count += len(batch)
            container = f"{archive.FOLDER}/{os.path.basename(path)}"
            self._with_index(lambda found, at=container: _moved(found, self.folder, at))  # type: ignore[misc]
        return Compressed(count, before, after)

    def migrate(self, rows: Iterable[Row]) -> list[tuple[Summary, MigrationResult]]:
        """Rewrite the files of older versions as this one; those in archives are upgraded whenever they are read."""
        with gate(self.folder):
            return self._migrate(rows)

    def _migrate(self, rows: Iterable[Row]) -> list[tuple[Summary, MigrationResult]]:
        done: list[tuple[Summary, MigrationResult]] = []
        for row in rows:
            kept = self._read_file(row) if not row.place.container else None
            value = parse_json(kept.trace) if kept else None
            if isinstance(value, dict) and needs_migration(value):
                upgraded, result = migrate_trace(value)
                data = write_trace(upgraded)
                write_atomic(os.path.join(self.folder, row.summary.file_name), data, mode=0o600)
                done.append((summarize(upgraded), result))
        return done

    def _with_index(self, work: Callable[[Index], Result]) -> Result:
        """Use the index; one that turns out to be broken is made anew, once."""
        if self._index is None:
            self._index = Index(self.folder)
        try:
            return work(self._index)
        except index.BROKEN as exc:
            self.close()
            if not _is_busy(exc):
                index.discard(os.path.join(self.folder, index.FOLDER))
                with suppress(*index.BROKEN):
                    return self._with_new_index(work, in_memory=False)
            return self._with_new_index(work, in_memory=True)

    def _with_new_index(self, work: Callable[[Index], Result], *, in_memory: bool) -> Result:
        self.close()
        self._index = Index(self.folder, in_memory=in_memory)
        bring_up_to_date(self._index, self.folder, silent)
        return work(self._index)

    def _add_words(self, progress: Progress) -> None:
        done = 0
        while rows := self._with_index(lambda found: found.without_words(WORDS_BATCH)):
            words = [(number, self._words(row)) for number, row in rows]
            self._with_index(lambda found, batch=words: _add_words(found, batch))  # type: ignore[misc]
            done += len(rows)
            progress(done)

    def _words(self, row: Row) -> str:
        try:
            return text_of(self.load(row).body)
        except (NotFound, NotJSON, InvalidFile, CannotRead):
            return ""  # It was removed or changed meanwhile; the next look at the folder will tell.

    def _read_segment(self, row: Row) -> Kept | None:
        if not row.place.container.startswith(spool.FOLDER + "/"):
            return None
        frame = spool.read_frame(os.path.join(self.folder, row.place.container), row.place.start)
        if frame is None or frame.summary.id != row.summary.id:
            return None
        return Kept(frame.summary, frame.trace, frame.chunks)

    def _read_file(self, row: Row) -> Kept | None:
        path = os.path.join(self.folder, row.summary.file_name)
        with_chunks = os.path.join(self.folder, chunks.file_name(row.summary.id))
        try:
            trace = read_file(path, follow_links=False)
            pieces = read_file(with_chunks, follow_links=False) if os.path.lexists(with_chunks) else b""
        except CannotRead:
            if os.path.lexists(path):
                raise
            return None
        if not pieces and not os.path.lexists(path):
            return None  # It went to an archive while it was read, and its chunks, if it had any, before they were.
        return Kept(row.summary, trace, pieces)

    def _read_archive(self, row: Row) -> Kept | None:
        damage: InvalidFile | None = None
        for path in self._archives(row):
            try:
                if self._archive is None or self._archive.path != path:
                    self._archive = archive.Archive(path)
                number = self._archive.find(row.summary, row.place.start)
                if number is not None:
                    return self._archive.read(number)
            except CannotRead:
                continue  # It was written anew under another name.
            except InvalidFile as exc:
                damage = exc  # It may stand in another one, too.
        if damage is not None:
            raise damage
        return None

    def _archives(self, row: Row) -> list[str]:
        """Where to look: in the archive that the row names, then in all."""
        named = os.path.join(self.folder, row.place.container)
        return sorted(archive.find_archives(self.folder), key=lambda path: path != named)

    def _rewrite_archive(self, path: str, without: set[str], *, must_open: bool) -> None:
        try:
            old = archive.Archive(path)
        except (CannotRead, InvalidFile):
            if must_open and os.path.lexists(path):
                raise
            return
        if not any(entry.summary.file_name in without for entry in old.entries):
            return
        kept = [
            old.read(number) for number, entry in enumerate(old.entries) if entry.summary.file_name not in without
        ]
        if kept:
            archive.write_archive(self.folder, kept)
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
            raise CannotWrite(path, (exc.strerror or str(exc)).lower()) from None


class Compressed(NamedTuple):
    """How many traces were compressed, and how many bytes they had and have."""

    traces: int
    before: int
    after: int


def _is_busy(error: Exception) -> bool:
    """Does somebody else use the index, or is there no room for it? Then it is not broken."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY)


def _remove(found: Index, names: set[str]) -> None:
    with found.changing():
        found.remove(names)


def _add_words(found: Index, words: list[tuple[int, str]]) -> None:
    with found.changing():
        found.add_words(words)


def _moved(found: Index, folder: str, container: str) -> None:
    entries = archive.Archive(os.path.join(folder, container)).entries
    with found.changing():
        found.add(Row(entry.summary, Place(container, number)) for number, entry in enumerate(entries))
        found.remember(container, len(entries))


def _batches(traces: Iterable[Kept]) -> Iterable[list[Kept]]:
    batch: list[Kept] = []
    size = 0
    for kept in traces:
        batch.append(kept)
        size += len(kept.trace) + len(kept.chunks)
        if size >= archive.ARCHIVE_BYTES_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
