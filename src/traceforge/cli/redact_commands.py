"""`traceforge redact`: remove or find secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

from traceforge.canon import JSON, ecmascript_bytes, parse_json
from traceforge.cli.output import json_option, print_findings_and_exit, write_stdout
from traceforge.config import current_folder, load_config
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import list_folder, read_file
from traceforge.findings import IO, Finding, exit_code
from traceforge.redact.redactor import Redactor
from traceforge.report.text_format import count, findings_verdict

SKIPPED_FOLDERS = frozenset({".git", ".hg", ".venv", "node_modules", "__pycache__"})
SCAN_BYTES_MAX = 64 << 20  # Larger files are data sets and archives, not sources.
RULE = "RD1"
_HINT = "Remove it, and revoke it if it was real. To keep it, see `traceforge help RD1`."


@click.group()
def redact() -> None:
    """Remove secrets from a text, or find them in files."""


@redact.command()
@click.argument("file", required=False, default="-", metavar="[FILE]")
@click.option("--jsonl", is_flag=True, help='Read {"text"} from each line; print {"text", "spans"}, one line each.')
def text(file: str, jsonl: bool) -> None:
    """Print FILE or standard input without secrets.

    With --jsonl, `spans` has the start, end and type of each secret, in code points of the original text.
    """
    data = sys.stdin.buffer.read() if file == "-" else read_file(file)
    redactor = Redactor.from_config(load_config(current_folder()).config)
    if not jsonl:
        write_stdout(_clean(redactor, data))
        return
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            write_stdout(_clean_line(redactor, line, f"{file}: line {number}"))


def _clean(redactor: Redactor, data: bytes) -> bytes:
    try:
        return redactor.redact_text(data.decode()).encode()
    except UnicodeDecodeError:
        return redactor.redact_body(data, "application/octet-stream").value


def _clean_line(redactor: Redactor, line: bytes, where: str) -> bytes:
    try:
        row = parse_json(line)
    except NotJSON as exc:
        raise exc.in_file(where) from None
    if not isinstance(row, dict) or not isinstance(text := row.get("text"), str):
        raise click.UsageError(f'{where}: a line must be {{"text": "…"}}.')
    spans: JSON = [span._asdict() for span in redactor.find_secrets(text)]
    return ecmascript_bytes({"text": redactor.redact_text(text), "spans": spans}) + b"\n"


@redact.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@json_option
def check(paths: tuple[str, ...], as_json: bool) -> None:
    """Find secrets in files and folders.

    Exit code 1: the findings name each secret by file, line, column and type, and never print it. Binary files, .git,
    node_modules, virtual environments and caches are skipped.
    """
    redactor = Redactor.from_config(load_config(current_folder()).config)
    findings: list[Finding] = []
    checked = 0
    for path in paths:
        for file in _files(path, findings):
            file_findings = _check_file(redactor, file, follow=file == path)
            checked += file_findings is not None
            findings += file_findings or []
    if not checked and not findings:
        findings = [Finding(paths[0], "", IO, "nothing to check: no text file found", "Name a path that holds one.")]
    summary = f"checked {count(checked, 'file')}: {findings_verdict(findings) or 'no secret found'}"
    report: JSON = {
        "ok": not findings,
        "exit_code": int(exit_code(findings)),
        "checked": checked,
        "findings": [dict(finding.to_json()) for finding in findings],
    }
    print_findings_and_exit(findings, summary, report, as_json)


def _files(path: str, findings: list[Finding]) -> Iterator[str]:
    """The files under a path, sorted; symbolic links are not followed."""
    if not os.path.isdir(path):
        yield path
        return
    try:
        entries = list_folder(path)
    except CannotRead as exc:
        findings.append(exc.finding(path))
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in SKIPPED_FOLDERS:
                yield from _files(entry.path, findings)
        elif entry.is_file(follow_symlinks=False):
            yield entry.path


def _check_file(redactor: Redactor, file: str, *, follow: bool) -> list[Finding] | None:
    """The findings of a file; None if it is not text."""
    try:
        data = read_file(file, follow_links=follow, bytes_max=SCAN_BYTES_MAX)
    except CannotRead as exc:
        return [exc.finding(file)]
    if b"\0" in data[:8192]:
        return None
    content = data.decode("utf-8", "replace")
    return [
        Finding(file, _place(content, span.start), RULE, f"{span.type} in the file", _HINT)
        for span in redactor.find_secrets(content)
    ]


def _place(content: str, start: int) -> str:
    line = content.count("\n", 0, start) + 1
    return f"line {line} column {start - content.rfind(chr(10), 0, start)}"
