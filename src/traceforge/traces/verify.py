"""Checking what stands beside the trace files: chunks, archives and the spool.

In: a traces folder. Out: every finding. Never: changes anything; `audit` checks the trace files themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import Finding
from traceforge.traces import archive, chunks, index, spool
from traceforge.traces.catalogue import read_any
from traceforge.traces.drain import DAMAGED

SPOOL_RULE = "TR6"
OWN_FOLDERS = frozenset({archive.FOLDER, chunks.FOLDER, index.FOLDER, spool.FOLDER})


def check_beside(traces_dir: str) -> tuple[int, list[Finding]]:
    """How many traces stand in archives and in the spool, and everything that is wrong beside the files."""
    found: list[Finding] = []
    count, ids = _check_archives(traces_dir, found)
    spooled = list(spool.frames(traces_dir))
    ids |= {frame.summary.id for frame in spooled}
    found += _check_spool(traces_dir)
    found += _check_chunks(traces_dir, ids)
    return count + len(spooled), found


def _check_archives(traces_dir: str, found: list[Finding]) -> tuple[int, set[str]]:
    ids: set[str] = set()
    for path in archive.find_archives(traces_dir):
        try:
            opened = archive.Archive(path)
            for number, entry in enumerate(opened.entries):
                kept = opened.read(number)
                ids.add(entry.summary.id)
                _check_kept(kept.trace, kept.chunks, f"{path}#{entry.summary.file_name}", found)
        except CannotRead as exc:
            found.append(exc.finding(path))
        except InvalidFile as exc:
            found += exc.findings
    return len(ids), ids


def _check_kept(trace: bytes, pieces: bytes, file: str, found: list[Finding]) -> None:
    try:
        read_any(trace)  # Nobody migrates what is in an archive: it is upgraded whenever it is read.
        chunks.read_chunks(pieces)
    except NotJSON as exc:
        found.append(exc.finding(file))
    except InvalidFile as exc:
        found += [finding._replace(file=file) for finding in exc.findings]


def _check_spool(traces_dir: str) -> Iterator[Finding]:
    folder = os.path.join(traces_dir, spool.FOLDER)
    for entry in list_folder(folder) if os.path.isdir(folder) else ():
        if entry.name.endswith(DAMAGED):
            hint = "What could be read of it was kept. Delete it, or restore it from a backup."
            yield Finding(entry.path, "", SPOOL_RULE, "a segment with traces that cannot be read", hint)


def _check_chunks(traces_dir: str, elsewhere: set[str]) -> Iterator[Finding]:
    folder = os.path.join(traces_dir, chunks.FOLDER)
    if not os.path.isdir(folder):
        return
    ids = {name.rpartition("_")[2].removesuffix(".json") for name in os.listdir(traces_dir)} | elsewhere
    for entry in list_folder(folder):
        if entry.name.startswith("."):
            continue
        if entry.name.removesuffix(".jsonl") not in ids:
            yield Finding(entry.path, "", chunks.RULE, "chunks without their trace", "Delete them.")
        try:
            chunks.read_chunks(read_file(entry.path, follow_links=False))
        except CannotRead as exc:
            yield exc.finding(entry.path)
        except InvalidFile as exc:
            yield from (finding._replace(file=entry.path) for finding in exc.findings)
