"""`traceforge test -- COMMAND`: run a command offline, and print what the gate says about it."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from traceforge.canon import exact_ecmascript_bytes
from traceforge.cli.ci_report_files import write_ci_reports
from traceforge.cli.ci_reports import is_ci_report_wanted
from traceforge.cli.progress import show_progress
from traceforge.config import LoadedConfig, current_folder
from traceforge.findings import ExitCode, exit_code
from traceforge.report.ci_report import build_test_report
from traceforge.report.gate_text import gate_report_json, gate_report_lines
from traceforge.snapshots.gate.command_gate import run_test
from traceforge.snapshots.gate.gate_findings import list_failed_tests
from traceforge.snapshots.tree.run_scopes import narrow_command
from traceforge.terminal import print_json_bytes, print_text


def run_suite_and_exit(
    loaded: LoadedConfig,
    command: tuple[str, ...],
    base: str | None,
    *,
    allow_unused: bool,
    as_json: bool,
    junit: str,
    sarif: str,
) -> NoReturn:
    """Run a command with approved answers, print the report, and exit with its code."""
    test_run = run_test(loaded, command, allow_unused=allow_unused, base=base, progress=show_progress)
    code: int = exit_code([*(gate_finding.finding for gate_finding in test_run.findings), *test_run.unchecked])
    if code == ExitCode.OK and test_run.run is not None:
        code = test_run.run.exit_code
    if as_json:
        print_json_bytes(exact_ecmascript_bytes(gate_report_json(test_run, int(code))), err=True)
    else:
        colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        narrowed_command = narrow_command(command, list_failed_tests(test_run.findings))
        lines = [
            f"traceforge: {line}" if line[:1] != " " else line
            for line in gate_report_lines(test_run, narrowed_command, colour=colour)
        ]
        print_text("\n".join(lines), err=True, colour=colour)
    if is_ci_report_wanted(junit, sarif):
        write_ci_reports(build_test_report(test_run, int(code), current_folder()), junit, sarif)
    raise click.exceptions.Exit(int(code))
