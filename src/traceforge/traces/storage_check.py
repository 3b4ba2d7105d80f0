"""Check the chunks, archives and spool of a traces folder. The trace files themselves are checked by `audit`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import Finding
from traceforge.traces import chunk_file, spool, trace_archive, trace_index
from traceforge.traces.index_update import read_any_version
from traceforge.traces.spool_drain import DAMAGED_SUFFIX

SPOOL_RULE = "TR6"
OWN_FOLDERS = frozenset(
    {trace_archive.ARCHIVE_FOLDER, chunk_file.CHUNKS_FOLDER, trace_index.INDEX_FOLDER, spool.SPOOL_FOLDER}
)


def check_trace_storage(traces_dir: str) -> tuple[int, list[Finding]]:
    """The number of traces in archives and in the spool, and every finding."""
    findings: list[Finding] = []
    count, ids = _check_archives(traces_dir, findings)
    spooled = list(spool.read_frames(traces_dir))
    ids |= {frame.summary.id for frame in spooled}
    findings += _check_spool(traces_dir)
    findings += _check_chunks(traces_dir, ids)
    return count + len(spooled), findings


def _check_archives(traces_dir: str, findings: list[Finding]) -> tuple[int, set[str]]:
    ids: set[str] = set()
    for path in trace_archive.find_archives(traces_dir):
        try:
            archive = trace_archive.TraceArchive(path)
            for number, entry in enumerate(archive.entries):
                stored = archive.read_entry(number)
                ids.add(entry.summary.id)
                _check_archived_trace(stored.trace, stored.chunks, f"{path}#{entry.summary.file_name}", findings)
        except CannotRead as exc:
            findings.append(exc.finding(path))
        except InvalidFile as exc:
            findings += exc.findings
    return len(ids), ids


def _check_archived_trace(trace: bytes, pieces: bytes, file: str, findings: list[Finding]) -> None:
    try:
        read_any_version(trace)  # Archived traces are migrated in memory whenever they are read.
        chunk_file.read_chunks(pieces)
    except NotJSON as exc:
        findings.append(exc.finding(file))
    except InvalidFile as exc:
        findings += [finding._replace(file=file) for finding in exc.findings]


def _check_spool(traces_dir: str) -> Iterator[Finding]:
    folder = os.path.join(traces_dir, spool.SPOOL_FOLDER)
    for entry in list_folder(folder) if os.path.isdir(folder) else ():
        if entry.name.endswith(DAMAGED_SUFFIX):
            hint = "Its readable traces were saved. Delete it, or restore it from a backup."
            yield Finding(entry.path, "", SPOOL_RULE, "a segment with traces that cannot be read", hint)


def _check_chunks(traces_dir: str, stored_ids: set[str]) -> Iterator[Finding]:
    folder = os.path.join(traces_dir, chunk_file.CHUNKS_FOLDER)
    if not os.path.isdir(folder):
        return
    ids = {name.rpartition("_")[2].removesuffix(".json") for name in os.listdir(traces_dir)} | stored_ids
    for entry in list_folder(folder):
        if entry.name.startswith("."):
            continue
        if entry.name.removesuffix(".jsonl") not in ids:
            yield Finding(entry.path, "", chunk_file.CHUNKS_RULE, "chunks without their trace", "Delete them.")
        try:
            chunk_file.read_chunks(read_file(entry.path, follow_links=False))
        except CannotRead as exc:
            yield exc.finding(entry.path)
        except InvalidFile as exc:
            yield from (finding._replace(file=entry.path) for finding in exc.findings)
