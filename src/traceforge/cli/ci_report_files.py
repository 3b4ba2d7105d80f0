"""Write reports for CI services: JUnit XML, SARIF, and the annotations and summary of GitHub Actions.

A file that was asked for and cannot be written is an error, because a later step would upload an old one. The output
for GitHub goes to stderr and to a file that GitHub names, and never changes the exit code.
"""

from __future__ import annotations

import os

from traceforge.audit.auditor import AuditReport
from traceforge.cli.ci_reports import ON_GITHUB
from traceforge.clock import now
from traceforge.config import LoadedConfig, current_folder
from traceforge.errors import CannotWrite
from traceforge.files import make_shared_folder, write_atomic
from traceforge.report.ci_report import CIReport, build_audit_report
from traceforge.report.finding_locations import FindingLocator
from traceforge.report.github_report import SUMMARY_BYTES_MAX, annotation_lines, summary_markdown
from traceforge.report.junit_report import junit_bytes
from traceforge.report.sarif_report import sarif_bytes
from traceforge.terminal import print_text, print_workflow_command

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def write_audit_report(audit: AuditReport, loaded: LoadedConfig, command: str, junit: str, sarif: str) -> None:
    """Write the reports of `verify` and its relatives."""
    locator = FindingLocator(loaded.project, current_folder())
    write_ci_reports(build_audit_report(audit, locator, command), junit, sarif)


def write_ci_reports(report: CIReport, junit: str, sarif: str) -> None:
    """Write the files that were asked for, and annotate the run where GitHub Actions is the host.

    Raises:
        CannotWrite: a file cannot be written.
    """
    if os.environ.get(ON_GITHUB) == "true":
        _annotate_github(report)
    if junit:
        _write_report(junit, junit_bytes(report, now()))
    if sarif:
        _write_report(sarif, sarif_bytes(report))


def _write_report(path: str, data: bytes) -> None:
    folder = os.path.dirname(path)
    try:
        make_shared_folder(folder)
    except OSError as exc:
        raise CannotWrite(path, exc) from None
    write_atomic(path, data)


def _annotate_github(report: CIReport) -> None:
    """Print annotations on stderr, which the runner reads too, and append the summary to the file it names."""
    for line in annotation_lines(report):
        print_workflow_command(line)
    path = os.environ.get(STEP_SUMMARY, "")
    if not path:
        return
    try:
        written = os.path.getsize(path) if os.path.exists(path) else 0
        with open(path, "ab") as file:
            file.write(summary_markdown(report, SUMMARY_BYTES_MAX - written).encode())
    except OSError as exc:
        print_text(f"GitHub's step summary cannot be written: {exc.strerror or exc}", err=True)
