"""Find the evidence of a project, recordings and packs, and check it.

In: the folder of a project and a path inside of it, or the bytes of a file. Out: what was checked, with the functions
of `traceforge modelio verify`, `pack verify` and `verify`, and every finding. Never: follows a link, leaves the
project, writes anything, or raises because of what a file holds.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from traceforge.audit.auditor import PACK_MARK, SKIPPED_FOLDERS
from traceforge.audit.file_check import AuditTask, check_value
from traceforge.audit.file_kinds import FileKind, find_kind
from traceforge.canon import JSONObject, parse_json
from traceforge.config import SNAPSHOTS_DIR
from traceforge.errors import CannotRead, NotFound, NotJSON
from traceforge.files import STATE_DIR, list_folder, read_file
from traceforge.findings import IO, Finding, internal_error_finding
from traceforge.modelio.recording_verifier import ValidRecording, Violation, verify_session
from traceforge.packs.pack_archive import ZSTD_MAGIC, read_archive_stream
from traceforge.packs.pack_verifier import PackReport, verify_contents, verify_pack

ENTRIES_MAX = 50_000  # Of files and folders that a search looks at; a project with more names its files itself.
PROBE_BYTES_MAX = 128 << 20  # Larger than a recording may be (MI11).
ARCHIVE_SUFFIX = ".tar.zst"
_SKIPPED = SKIPPED_FOLDERS | {SNAPSHOTS_DIR, STATE_DIR}  # The last two have pages of their own.
_RECORDING_MARKS = (b'"model_io_schema_version"', b'"adapter_id"')


class EvidenceFile(NamedTuple):
    """A recording or a pack that a search found."""

    path: str  # Relative to the project, with `/`.
    kind: FileKind


class EvidenceSearch(NamedTuple):
    """What a search found, and whether it looked at everything."""

    files: list[EvidenceFile]
    is_complete: bool


class EvidenceResult(NamedTuple):
    """What is known about a file after its check; the `file` of each finding is its name."""

    name: str
    kind: FileKind | None  # None: unknown, or not readable.
    findings: tuple[Finding, ...]
    recording: ValidRecording | None = None
    session: JSONObject | None = None  # The recording itself, valid or not.
    pack: PackReport | None = None
    is_archive: bool = False


def find_evidence(project: str) -> EvidenceSearch:
    """The recordings and packs in the folders of a project, sorted by path."""
    budget = iter(range(ENTRIES_MAX))
    files = sorted(_search(project, budget))
    return EvidenceSearch(files, next(budget, None) is not None)


def _search(project: str, budget: Iterator[int]) -> Iterator[EvidenceFile]:
    """Without recursion: how deep folders lie in each other is the choice of who wrote the checkout."""
    folders = [(project, "")]
    while folders:
        folder, prefix = folders.pop()
        try:
            entries = list_folder(folder)
        except CannotRead:
            continue  # It is not ours; a path that somebody opens says why it cannot be read.
        if prefix and any(entry.name == PACK_MARK for entry in entries):
            yield EvidenceFile(prefix.rstrip("/"), FileKind.PACK)
            continue
        for entry in entries:
            if next(budget, None) is None:
                return
            path = f"{prefix}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    folders.append((entry.path, f"{path}/"))
            elif entry.is_file(follow_symlinks=False) and (kind := _probe(entry)) is not None:
                yield EvidenceFile(path, kind)


def _probe(entry: os.DirEntry[str]) -> FileKind | None:
    """What a file claims to be; most JSON of a project has another origin, so it is not parsed."""
    if entry.name.endswith(ARCHIVE_SUFFIX):
        return FileKind.PACK
    if not entry.name.endswith(".json"):
        return None
    try:
        data = read_file(entry.path, follow_links=False, bytes_max=PROBE_BYTES_MAX)
    except CannotRead:
        return None
    return FileKind.MODEL_IO if b'"interactions"' in data and any(mark in data for mark in _RECORDING_MARKS) else None


def resolve_inside(project: str, path: str) -> str:
    """The file or folder at a path inside of a project. The only function that makes a path of what a client sent.

    Raises:
        NotFound: it is absolute, has a part such as `..`, leads through a link, or names nothing.
    """
    parts = path.split("/")
    refusal = NotFound(
        "there is no such file in this project", hint="Paths stay inside of the project, without links."
    )
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part or ":" in part for part in parts):
        raise refusal
    place = project
    for part in parts:
        place = os.path.join(place, part)
        try:
            mode = os.lstat(place).st_mode
        except (OSError, ValueError):
            raise refusal from None
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise refusal
    return place


def check_evidence(project: str, path: str) -> EvidenceResult:
    """Check the file or the pack at a path inside of a project.

    Raises:
        NotFound: there is none, or the path leads out of the project.
    """
    place = resolve_inside(project, path)
    if os.path.isdir(place):
        return _guard(path, lambda: _pack_result(path, verify_pack(place), place))
    return _guard(path, lambda: _check_data(path, read_file(place, follow_links=False)))


def check_evidence_data(name: str, data: bytes) -> EvidenceResult:
    """Check the bytes of a file, in memory."""
    return _guard(name, lambda: _check_data(name, data))


def _guard(name: str, check: Callable[[], EvidenceResult]) -> EvidenceResult:
    """A file that cannot be read, or a mistake in a check, is a finding: never valid."""
    try:
        return check()
    except (CannotRead, NotJSON) as exc:
        return EvidenceResult(name, None, (exc.finding(name),))
    except Exception as exc:  # noqa: BLE001 (becomes a finding: unchecked, never valid)
        return EvidenceResult(name, None, (internal_error_finding(name, exc),))


def _check_data(name: str, data: bytes) -> EvidenceResult:
    if data.startswith(ZSTD_MAGIC):
        contents = read_archive_stream(io.BytesIO(data), name)
        return _pack_result(name, verify_contents(contents), name)._replace(is_archive=True)
    value = parse_json(data)
    kind = find_kind(value)
    if kind is FileKind.MODEL_IO and isinstance(value, dict):
        result = verify_session(value)
        findings = tuple(_finding(name, violation) for violation in result.violations)
        return EvidenceResult(name, kind, findings, result if isinstance(result, ValidRecording) else None, value)
    if kind is None:
        message = "not a file of a kind that TraceForge can check"
        return EvidenceResult(name, None, (Finding(name, "", IO, message, "See: traceforge schema"),))
    return EvidenceResult(name, kind, tuple(check_value(kind, value, AuditTask(name, None, named=True))))


def _pack_result(name: str, report: PackReport, place: str) -> EvidenceResult:
    findings = tuple(_finding(name, violation, place, report.hint) for violation in report.violations)
    return EvidenceResult(name, FileKind.PACK, findings, pack=report)


def _finding(name: str, violation: Violation, place: str = "", hint: str = "") -> Finding:
    """The violation; its place is "" where the whole file is meant."""
    where = "" if violation.path in (name, place) else violation.path
    return Finding(name, where, violation.rule_id, violation.message, hint)
