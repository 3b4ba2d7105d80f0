"""`traceforge audit`: what recordings of other tools no longer cover."""

from __future__ import annotations

import click

from traceforge.canon import exact_ecmascript_bytes
from traceforge.cli.ci_report_files import write_ci_reports
from traceforge.cli.ci_reports import is_ci_report_wanted, report_options
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.shared_page import PAGE_MODE
from traceforge.config import current_folder, load_config
from traceforge.drift.drift_audit import audit_cassettes
from traceforge.files import write_atomic
from traceforge.report.drift_report import build_drift_report, drift_html
from traceforge.report.drift_text import drift_json, drift_lines
from traceforge.report.finding_locations import FindingLocator
from traceforge.terminal import print_json_bytes, print_text


class DividedCommand(click.Command):
    """Keeps the first `--`: what stands before it is ours, and the rest is the command, which may have another."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        divider = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*args[:divider], *args[divider : divider + 1], *args[divider:]])


@click.group("audit", cls=SuggestingGroup)
def audit_group() -> None:
    """Find tests that no longer send what was recorded."""


@audit_group.command(cls=DividedCommand)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON, on stderr.")
@click.option("--html", metavar="FILE", default="", help="Write the report to FILE as a page.")
@report_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[DIR] -- COMMAND...")
def vcr(words: tuple[str, ...], as_json: bool, html: str, junit: str, sarif: str) -> None:
    """Compare what a suite sends with its cassettes.

    Run COMMAND as it is, with its own cassettes and its own recorder: vcrpy, pytest-recording or cassetter. Each call
    that a cassette answers is compared with the recorded request: method, path, query and body. TraceForge imports,
    approves and writes nothing; the recorder of the suite is used as it is, and may write in its record mode.

    The report groups the differences by cause, and lists recorded interactions that no test played. With DIR, it also
    lists the cassettes in DIR that no test loaded. It goes to stderr, because stdout is COMMAND's.

    Exit code 0: every call sends what was recorded. Exit code 1: a test drifted. Exit code 3: something could not be
    compared. The exit code of COMMAND is printed.
    """
    folder, command = _split_words(words)
    report = audit_cassettes(load_config(current_folder()), command, folder)
    if as_json:
        print_json_bytes(exact_ecmascript_bytes(drift_json(report), indent=2), err=True)
    else:
        lines = "\n".join(drift_lines(report)).split("\n")
        print_text("\n".join(f"traceforge: {line}" if line[:1] != " " else line for line in lines), err=True)
    if html:
        write_atomic(html, drift_html(report).encode(), mode=PAGE_MODE)
    if is_ci_report_wanted(junit, sarif):
        locator = FindingLocator(current_folder(), current_folder())
        write_ci_reports(build_drift_report(report, locator), junit, sarif)
    raise click.exceptions.Exit(int(report.exit_code))


def _split_words(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The folder, if one is named before the command, and the command."""
    divider = words.index("--") if "--" in words else len(words)
    folders, command = words[:divider], words[divider + 1 :]
    if len(folders) > 1 or not command:
        raise click.UsageError("Name one DIR or none, then -- and the command: traceforge audit vcr -- pytest")
    return (folders[0] if folders else None), command
