"""`traceforge test`: replay a command offline, or check the snapshot tree and pending changes."""

from __future__ import annotations

import os
import sys

import click

from traceforge.audit.tree_gate import check_tree_and_pending
from traceforge.canon import JSON, exact_ecmascript_bytes
from traceforge.cli.ci_report_files import write_ci_reports
from traceforge.cli.ci_reports import is_ci_report_wanted, report_options
from traceforge.cli.output import print_json
from traceforge.cli.progress import show_progress
from traceforge.cli.project import load_project, snapshots_root
from traceforge.config import LoadedConfig, current_folder
from traceforge.findings import ExitCode, exit_code
from traceforge.report.ci_report import build_test_report, build_tree_report
from traceforge.report.finding_locations import FindingLocator
from traceforge.report.gate_text import (
    NO_COMMAND_NOTE,
    gate_finding_lines,
    gate_report_json,
    gate_report_lines,
    tree_gate_summary,
)
from traceforge.snapshots.gate.gate_findings import findings_json, list_failed_tests
from traceforge.snapshots.tree.run_scopes import narrow_command
from traceforge.terminal import one_line, print_json_bytes, print_text


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--base", metavar="REF", help="Require a new approval for every snapshot that differs from commit REF.")
@click.option("--allow-unused", is_flag=True, help="Ignore snapshots that no call used.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON; with a COMMAND, on stderr.")
@report_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def test(
    command: tuple[str, ...], base: str | None, allow_unused: bool, as_json: bool, junit: str, sarif: str
) -> None:
    """Run COMMAND offline with approved answers; fail on a change.

    Every model call of COMMAND is answered from its snapshot, and COMMAND cannot reach other machines. The report
    says how the network was closed: by the kernel for every program (`sealed`; `refusals not named` if it does not
    say who tried to connect), or in process, for Python and Node.js (`hooks only`).

    Exit code 1: a request is new or changed, COMMAND tried to open a connection, a snapshot was not used by the test
    it belongs to, or a file of the snapshot tree is invalid. Exit code 3: something could not be checked, or COMMAND
    made no model call. Otherwise the exit code is that of COMMAND.

    Where CI is set, every snapshot that differs from the base of the build, which `traceforge base` prints, needs a
    new approval; --base names another commit.

    Without a COMMAND, nothing is run: check the snapshot tree and that no change is pending.
    """
    loaded = load_project()
    if not command:
        _check_without_command(loaded, base, as_json, junit, sarif)
    # Without a command, which is what a commit hook runs, this import would be a third of the CPU time.
    from traceforge.snapshots.gate.command_gate import run_test

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


def _check_without_command(loaded: LoadedConfig, base: str | None, as_json: bool, junit: str, sarif: str) -> None:
    report = check_tree_and_pending(loaded, snapshots_root(loaded), show_progress, base)
    code = int(report.exit_code)
    summary = tree_gate_summary(report)
    if as_json:
        compared: dict[str, JSON] = {"base": report.base_line} if report.base_line else {}
        findings = findings_json(report.findings)
        print_json(
            {
                "exit_code": code,
                "snapshots": report.snapshots,
                "request_gated": report.request_gated,
                **compared,
                "findings": findings,
            }
        )
    else:
        base_lines = [one_line(report.base_line)] if report.base_line else []
        lines = [*base_lines, *gate_finding_lines(report.findings), summary]
        print_text("\n".join([*lines, NO_COMMAND_NOTE] if not report.findings else lines))
    if is_ci_report_wanted(junit, sarif):
        locator = FindingLocator(loaded.project, current_folder())
        write_ci_reports(build_tree_report(report.audit, report.findings, summary, code, locator), junit, sarif)
    raise click.exceptions.Exit(code)
