"""The journal of a recording in progress: `<recording>.journal`, JSON lines.

    {"journal": "1.0.0", "adapter_id", "model_id", "mode", "created_at_utc"}      the first line
    {"n": 3, "interaction": {"prompt_hash", "response_hash", "response_content", …}}

A line is written before the caller gets its answer, so every completed interaction survives a crash of the process.
`n` numbers the calls in the order they began; lines are in the order the calls ended. An incomplete last line is an
interaction that was not completed. The process that writes the journal holds a lock on it, which ends with the
process.

The recording is written from the journal piece by piece, so its size does not decide how much memory is needed. A
journal that another process left is never overwritten, and a finished recording only where the caller says so.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, cast

from traceforge.canon import (
    DIGEST_PATTERN,
    JSON,
    Digest,
    JSONObject,
    canonical_bytes,
    digest_text,
    encode_utf8,
    parse_json,
)
from traceforge.errors import CannotRead, CannotWrite, InvalidFile, NotJSON, PathInUse
from traceforge.files import write_atomic_chunks
from traceforge.findings import Finding
from traceforge.modelio.recording_format import (
    CORE_FIELDS,
    INTERACTION_CORE_FIELDS,
    INTERACTIONS_MAX,
    RESPONSE_BYTES_MAX,
    SCHEMA_VERSION,
    TOTAL_BYTES_MAX,
)
from traceforge.modelio.recording_verifier import InvalidRecording, verify_session_file
from traceforge.traces.file_lock import lock_file

_BINARY = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
JOURNAL_SUFFIX = ".journal"
JOURNAL_VERSION = "1.0.0"
LINE_BYTES_MAX = 8_000_000  # A response of 1,000,000 bytes is six times as long where every byte is escaped.

_DIGEST = re.compile(DIGEST_PATTERN)
_RECOVER_COMMAND = "traceforge modelio recover"


class JournalHeader(NamedTuple):
    """The fields of a recording that are known when it begins."""

    adapter_id: str
    model_id: str
    mode: str
    created_at_utc: str


class JournalEntry(NamedTuple):
    """Where a completed interaction is in the journal, and its contribution to the totals."""

    n: int
    start: int
    length: int
    tokens_input: float = 0
    tokens_output: float = 0
    latency_ms: float = 0
    response_bytes: int = 0


class WrittenRecording(NamedTuple):
    """A finished recording: its file, its size and its hash."""

    path: str
    interactions: int
    model_io_hash: Digest


class RecordingJournal:
    """A journal, open in one process. The caller must let only one thread write at a time."""

    def __init__(
        self,
        recording: str,
        header: JournalHeader,
        descriptor: int,
        entries: list[JournalEntry],
        size: int,
        *,
        overwrite: bool,
    ) -> None:
        self.recording = recording
        self.overwrite = overwrite
        self.header = header
        self._descriptor = descriptor
        self._entries = entries
        self._size = size

    @classmethod
    def create(cls, recording: str, header: JournalHeader, *, overwrite: bool = False) -> RecordingJournal:
        """Begin the journal of a recording at this path.

        Raises:
            PathInUse: see `check_path_is_free`.
            CannotWrite: the folder is missing, full, or not writable.
        """
        path = recording + JOURNAL_SUFFIX
        check_path_is_free(recording, overwrite=overwrite)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        except FileExistsError:  # Another process created it meanwhile.
            raise _path_in_use_error(recording) from None
        except OSError as exc:
            raise CannotWrite(path, exc) from None
        lock_file(descriptor)
        journal = cls(recording, header, descriptor, [], 0, overwrite=overwrite)
        try:
            journal._append_line({"journal": JOURNAL_VERSION, **header._asdict()})
        except CannotWrite:
            journal.discard()
            raise
        return journal

    @classmethod
    def reopen(cls, recording: str, *, overwrite: bool = False) -> RecordingJournal:
        """Open the journal of a process that has ended.

        Raises:
            CannotRead: the journal is missing or not readable.
            PathInUse: the process is still running.
            InvalidFile: it is not a journal, or was changed.
        """
        path = recording + JOURNAL_SUFFIX
        try:
            descriptor = os.open(path, os.O_RDWR | _BINARY | getattr(os, "O_NOFOLLOW", 0))
        except OSError as exc:
            raise CannotRead(path, (exc.strerror or str(exc)).lower(), hint="Name the recording itself.") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CannotRead(path, "not a file", hint="Name the recording itself.")
            if not lock_file(descriptor):
                raise PathInUse(f"a running process still records to {path}", hint="Wait until it ends.")
            header, entries, size = _read_journal(descriptor, path)
            _check_limits(entries, path)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(recording, header, descriptor, entries, size, overwrite=overwrite)

    def add(self, n: int, interaction: JSONObject) -> None:
        """Append a completed interaction.

        Raises:
            CannotWrite: the disk is full; earlier interactions are intact.
        """
        start = self._size
        self._append_line({"n": n, "interaction": interaction})
        self._entries.append(_make_entry(n, start, self._size - start, interaction))

    def finish(self, ended_at_utc: str = "") -> WrittenRecording:
        """Write the recording, and remove the journal. `ended_at_utc` is "" for a recording that was cut short.

        Raises:
            PathInUse: another recording is at this path now; it and the journal stay.
            CannotWrite: the recording cannot be written; the journal stays.
        """
        self._entries.sort()
        core_hash = hashlib.sha256()
        for piece in self._session_pieces(_core_fields(self.header), core_only=True):
            core_hash.update(piece)
        written = WrittenRecording(self.recording, len(self._entries), Digest(f"sha256:{core_hash.hexdigest()}"))
        if not self._is_written_already(written.model_io_hash):
            if not self.overwrite:
                recover = f"{_RECOVER_COMMAND} {shlex.quote(self.recording)}"
                check_nothing_exists(
                    self.recording,
                    f"The journal keeps the calls. Move the file away, then: {recover}; or add --force.",
                )
            pieces = self._session_pieces(self._session_fields(ended_at_utc))
            write_atomic_chunks(self.recording, chain(pieces, (b"\n",)))
        self.discard()
        return written

    def _is_written_already(self, model_io_hash: Digest) -> bool:
        """Whether the process was killed after it had written this recording and before it removed the journal."""
        if self.overwrite or not os.path.isfile(self.recording):
            return False
        result = verify_session_file(self.recording)
        return not isinstance(result, InvalidRecording) and result.model_io_hash == model_io_hash

    def release(self) -> None:
        """Close the journal and leave it for `recover`."""
        os.close(self._descriptor)

    def discard(self) -> None:
        self.release()
        with suppress(OSError):
            os.unlink(self.recording + JOURNAL_SUFFIX)

    def _append_line(self, value: JSONObject) -> None:
        line = canonical_bytes(value) + b"\n"
        try:
            os.lseek(self._descriptor, self._size, os.SEEK_SET)
            unwritten = memoryview(line)
            while unwritten:
                unwritten = unwritten[os.write(self._descriptor, unwritten) :]
        except OSError as exc:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise CannotWrite(self.recording + JOURNAL_SUFFIX, exc) from None
        self._size += len(line)

    def _session_fields(self, ended_at_utc: str) -> JSONObject:
        times: JSONObject = {"created_at_utc": self.header.created_at_utc}
        if ended_at_utc:
            times["ended_at_utc"] = ended_at_utc
        stats: JSONObject = {
            "total_interactions": len(self._entries),
            "total_tokens_input": sum(entry.tokens_input for entry in self._entries),
            "total_tokens_output": sum(entry.tokens_output for entry in self._entries),
            "total_latency_ms": round(sum(entry.latency_ms for entry in self._entries), 3),
        }
        return {**_core_fields(self.header), **times, "stats": stats}

    def _session_pieces(self, session: JSONObject, *, core_only: bool = False) -> Iterator[bytes]:
        """The canonical text of a session with the interactions of this journal, in pieces."""
        before, after = canonical_bytes({**session, "interactions": []}).split(b'"interactions":[]', 1)
        yield before + b'"interactions":['
        for i, entry in enumerate(self._entries):
            line = cast("JSONObject", parse_json(self._read_line(entry)))
            interaction = {**cast("JSONObject", line["interaction"]), "i": i}
            if core_only:
                interaction = {name: interaction[name] for name in INTERACTION_CORE_FIELDS}
            yield b"," * (i > 0) + canonical_bytes(interaction)
        yield b"]" + after

    def _read_line(self, entry: JournalEntry) -> bytes:
        os.lseek(self._descriptor, entry.start, os.SEEK_SET)
        data = b""
        while len(data) < entry.length and (piece := os.read(self._descriptor, entry.length - len(data))):
            data += piece
        return data


def check_path_is_free(recording: str, *, overwrite: bool = False) -> None:
    """Check that a recording can begin at this path. `overwrite`: a finished recording may be there.

    Raises:
        PathInUse: a file is there, another process records there, or one that was killed left a journal.
        CannotWrite: the folder is missing.
    """
    path = recording + JOURNAL_SUFFIX
    if os.path.lexists(path):
        raise _path_in_use_error(recording)
    if not overwrite:
        check_nothing_exists(recording)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise CannotWrite(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


def check_nothing_exists(
    recording: str, hint: str = "Choose another file, or replace it with --force (in Python: overwrite=True)."
) -> None:
    """Raise `PathInUse` if there is a file at this path: a finished recording is never overwritten by accident."""
    if os.path.lexists(recording):
        raise PathInUse(f"{recording} already exists", hint=hint)


def _path_in_use_error(recording: str) -> PathInUse:
    hint = f"If that process has ended, save its recording: {_RECOVER_COMMAND} {shlex.quote(recording)}"
    return PathInUse(f"{recording}{JOURNAL_SUFFIX} is the journal of another recording", hint=hint)


def _core_fields(header: JournalHeader) -> JSONObject:
    fields = {"model_io_schema_version": SCHEMA_VERSION, **header._asdict()}
    return {name: fields[name] for name in CORE_FIELDS}


def _make_entry(n: int, start: int, length: int, interaction: JSONObject) -> JournalEntry:
    tokens_input, tokens_output, latency_ms = (
        value if isinstance(value := interaction.get(name), int | float) else 0
        for name in ("tokens_input", "tokens_output", "latency_ms")
    )
    content = interaction.get("response_content")
    size = len(encode_utf8(content)) if isinstance(content, str) else 0
    return JournalEntry(n, start, length, tokens_input, tokens_output, latency_ms, size)


def _read_journal(descriptor: int, path: str) -> tuple[JournalHeader, list[JournalEntry], int]:
    """The header, every complete line, and their size. What follows the last line feed was cut short."""
    header: JournalHeader | None = None
    entries: list[JournalEntry] = []
    size = 0
    with os.fdopen(os.dup(descriptor), "rb") as file:  # Closing the copy leaves the descriptor open.
        while (line := file.readline(LINE_BYTES_MAX)).endswith(b"\n"):
            value = _parse_line(line, path)
            if header is None:
                header = _parse_header(value, path)
            else:
                n, interaction = value.get("n"), value.get("interaction")
                if type(n) is not int or not isinstance(interaction, dict) or not _is_intact(interaction):
                    raise _invalid_journal(path, f"a missing or changed interaction at byte {size}")
                entries.append(_make_entry(n, size, len(line), interaction))
            size += len(line)
    if header is None:
        raise _invalid_journal(path, "the first line is missing")
    return header, entries, size


def _check_limits(entries: list[JournalEntry], path: str) -> None:
    """Raise `InvalidFile` for more than a recording may hold: TraceForge never writes such a journal."""
    sizes = [entry.response_bytes for entry in entries]
    if len(sizes) > INTERACTIONS_MAX or sum(sizes) > TOTAL_BYTES_MAX or max(sizes, default=0) > RESPONSE_BYTES_MAX:
        raise _invalid_journal(path, "more interactions or longer responses than a recording may have")


def _is_intact(interaction: JSONObject) -> bool:
    """Whether an interaction matches its hashes: the recording made of it must be valid."""
    prompt_hash, content = interaction.get("prompt_hash"), interaction.get("response_content")
    return (
        isinstance(prompt_hash, str)
        and _DIGEST.match(prompt_hash) is not None
        and isinstance(content, str)
        and interaction.get("response_hash") == digest_text(content)
    )


def _parse_line(line: bytes, path: str) -> JSONObject:
    try:
        value: JSON = parse_json(line)
    except NotJSON as exc:
        raise _invalid_journal(path, f"not JSON: {exc.reason}") from None
    if not isinstance(value, dict):
        raise _invalid_journal(path, "a line is not an object")
    return value


def _parse_header(value: JSONObject, path: str) -> JournalHeader:
    fields = [value.get(name) for name in JournalHeader._fields]
    is_known_version = value.get("journal") == JOURNAL_VERSION and value.get("mode") in ("record", "replay")
    if not is_known_version or not all(isinstance(field, str) and field for field in fields):
        raise _invalid_journal(path, f"not a journal of version {JOURNAL_VERSION}")
    return JournalHeader(*cast("list[str]", fields))


def _invalid_journal(path: str, reason: str) -> InvalidFile:
    return InvalidFile((Finding(path, path, "IO", f"not a valid journal: {reason}"),))
