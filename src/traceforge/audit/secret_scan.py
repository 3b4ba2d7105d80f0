"""Find secrets in files: what `traceforge redact check` runs.

In: paths, and a redactor. Out: a finding for each secret, by file, line, column and type. Never: the secret itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from traceforge.config import SNAPSHOTS_DIR
from traceforge.errors import CannotRead, InvalidFile, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import IO, Finding
from traceforge.redact.body_encodings import read_wide_text
from traceforge.redact.redactor import Redactor
from traceforge.snapshots.formats.approval_format import read_approval
from traceforge.snapshots.formats.tree_layout import APPROVALS_DIR, SIGNERS_NAME

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__"})
SCAN_BYTES_MAX = 64 << 20  # Larger files are data sets and archives, not sources.
RULE = "RD1"
_BINARY_PROBE_BYTES = 8192  # A NUL this early marks a binary file, as in Git.
_HINT = "Remove it, and revoke it if it was real. To keep it, see `traceforge help RD1`."


class SecretScan(NamedTuple):
    """The findings of a scan, and how many text files were read."""

    findings: list[Finding]
    checked: int


def scan_paths(redactor: Redactor, paths: Sequence[str]) -> SecretScan:
    """Scan files, and the files in folders. Binary files and the folders of tools are skipped."""
    findings: list[Finding] = []
    checked = 0
    for path in paths:
        for file in _list_files(path, findings):
            file_findings = _scan_file(redactor, file, follow_links=file == path)
            checked += file_findings is not None
            findings += file_findings or []
    if not checked and not findings:
        findings = [
            Finding(
                paths[0],
                "",
                IO,
                "nothing to check: no text file found",
                "Name a text file, or a folder that holds one.",
            )
        ]
    return SecretScan(findings, checked)


def _list_files(path: str, findings: list[Finding]) -> Iterator[str]:
    """The files under a path, sorted; symbolic links in a folder are not followed."""
    pending = [(path, os.path.isdir(path))]
    while pending:
        place, is_folder = pending.pop()
        if not is_folder:
            yield place
            continue
        try:
            entries = list_folder(place)
        except CannotRead as exc:
            findings.append(exc.finding(place))
            continue
        for entry in reversed(entries):
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED_FOLDERS:
                    pending.append((entry.path, True))
            elif entry.is_file(follow_symlinks=False):
                pending.append((entry.path, False))


def _scan_file(redactor: Redactor, file: str, *, follow_links: bool) -> list[Finding] | None:
    """The findings of a file; None if it is not text."""
    try:
        data = read_file(file, follow_links=follow_links, bytes_max=SCAN_BYTES_MAX)
    except CannotRead as exc:
        return [exc.finding(file)]
    wide = read_wide_text(data)
    if wide is None and b"\0" in data[:_BINARY_PROBE_BYTES]:
        return None
    content = wide.text if wide else data.decode("utf-8", "replace")
    public_addresses = _find_public_addresses(file, data)
    return [
        Finding(file, _line_and_column(content, span.start), RULE, f"{span.type} in the file", _HINT)
        for span in redactor.find_secrets(content)
        if content[span.start : span.end] not in public_addresses
    ]


def _find_public_addresses(file: str, data: bytes) -> set[str]:
    """The address of an approver, which the commit has too, or of those who may sign: they are meant to be known."""
    folder, name = os.path.split(file)
    if name == SIGNERS_NAME and os.path.basename(os.path.abspath(folder)) == SNAPSHOTS_DIR:
        lines = [line.split() for line in data.decode(errors="replace").splitlines()]
        return {address for words in lines if words for address in words[0].split(",")}
    if os.path.basename(folder) != APPROVALS_DIR:
        return set()
    try:
        return {read_approval(data).approved_by.email}
    except (NotJSON, InvalidFile):
        return set()


def _line_and_column(content: str, start: int) -> str:
    line = content.count("\n", 0, start) + 1
    return f"line {line} column {start - content.rfind(chr(10), 0, start)}"
