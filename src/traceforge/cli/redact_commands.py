"""`traceforge redact`: remove or find secrets."""

from __future__ import annotations

import os
import shlex
import sys

import click

from traceforge.audit.secret_scan import scan_paths
from traceforge.canon import JSON, ecmascript_bytes, parse_json
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import json_option, print_findings_and_exit, print_json_line, write_stdout
from traceforge.config import current_folder, load_config
from traceforge.errors import NotJSON
from traceforge.files import read_file
from traceforge.findings import exit_code
from traceforge.redact.redactor import Redactor
from traceforge.report.text_format import count, findings_verdict


class _RedactGroup(SuggestingGroup):
    """Names the commands for a path that was typed in place of a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.list_commands(ctx) and os.path.exists(args[0]):
            path = shlex.quote(args[0])
            ctx.fail(
                f"There is no command {args[0]!r}. To find secrets in it: traceforge redact check {path}. "
                f"To print it without them: traceforge redact text {path}."
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_RedactGroup)
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
            print_json_line(_clean_line(redactor, line, f"{file}: line {number}"))


def _clean(redactor: Redactor, data: bytes) -> bytes:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # another encoding, or no text
        return redactor.redact_body(data, "application/octet-stream").value
    return redactor.redact_text(text).encode()


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
    findings, checked = scan_paths(redactor, paths)
    summary = f"checked {count(checked, 'file')}: {findings_verdict(findings) or 'no secret found'}"
    report: dict[str, JSON] = {
        "ok": not findings,
        "exit_code": int(exit_code(findings)),
        "checked": checked,
        "findings": [dict(finding.to_json()) for finding in findings],
    }
    print_findings_and_exit(findings, summary, report, as_json)
