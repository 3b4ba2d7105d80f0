"""`traceforge test` without a command: check the snapshot tree and pending changes, and print the result."""

from __future__ import annotations

from typing import NoReturn

import click

from traceforge.audit.tree_gate import check_tree_and_pending
from traceforge.canon import JSON
from traceforge.cli.ci_report_files import write_ci_reports
from traceforge.cli.ci_reports import is_ci_report_wanted
from traceforge.cli.output import print_json
from traceforge.cli.progress import show_progress
from traceforge.cli.project import snapshots_root
from traceforge.config import LoadedConfig, current_folder
from traceforge.report.ci_report import build_tree_report
from traceforge.report.finding_locations import FindingLocator
from traceforge.report.gate_text import NO_COMMAND_NOTE, gate_finding_lines, tree_gate_summary
from traceforge.snapshots.gate.gate_findings import findings_json
from traceforge.terminal import one_line, print_text


def check_tree_and_exit(loaded: LoadedConfig, base: str | None, *, as_json: bool, junit: str, sarif: str) -> NoReturn:
    """Check the snapshot tree and that no change is pending, print the report, and exit with its code."""
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
