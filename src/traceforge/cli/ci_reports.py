"""Reports for the services around a build: files in formats they read, and what GitHub Actions shows.

A file that was asked for and cannot be written is an error, because a step that uploads it would upload an old one.
What GitHub takes is talk: it goes to stderr and to a file of GitHub's, and never changes how a command ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from traceforge.audit.auditor import AuditReport
from traceforge.cli.output import print_findings
from traceforge.config import LoadedConfig, current_folder
from traceforge.errors import CannotWrite
from traceforge.report.text_format import audit_summary

if TYPE_CHECKING:
    from traceforge.report.ci_report import CIReport

Command = TypeVar("Command", bound=Callable[..., object])

ON_GITHUB = "GITHUB_ACTIONS"
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def report_options(command: Command) -> Command:
    """The options `--junit` and `--sarif`."""
    junit = click.option("--junit", metavar="FILE", default="", help="Write the report to FILE as JUnit XML.")
    sarif = click.option("--sarif", metavar="FILE", default="", help="Write the report to FILE as SARIF 2.1.0.")
    return junit(sarif(command))


def print_audit_and_exit(
    audit: AuditReport, loaded: LoadedConfig, command: str, *, as_json: bool, junit: str, sarif: str
) -> NoReturn:
    """Print what a check of artefacts found, write the reports that were asked for, and exit as it demands."""

    def make() -> CIReport:
        from traceforge.report.ci_report import build_audit_report
        from traceforge.report.finding_locations import FindingLocator

        return build_audit_report(audit, FindingLocator(loaded.project, current_folder()), command)

    summary = audit_summary(audit.checked, audit.findings, audit.request_gated)
    print_findings(audit.findings, summary, audit.to_json(), as_json)
    write_ci_reports(make, junit, sarif)
    raise click.exceptions.Exit(int(audit.exit_code))


def write_ci_reports(build_report: Callable[[], CIReport], junit: str, sarif: str) -> None:
    """Write the files that were asked for, and tell GitHub where it listens; `make` is called only if one is so.

    Raises:
        CannotWrite: a file cannot be written.
    """
    on_github = os.environ.get(ON_GITHUB) == "true"
    if not (junit or sarif or on_github):
        return
    report = build_report()
    if on_github:
        _annotate_github(report)
    if junit:
        from traceforge.clock import now
        from traceforge.report.junit_report import junit_bytes

        _write_report(junit, junit_bytes(report, now()))
    if sarif:
        from traceforge.report.sarif_report import sarif_bytes

        _write_report(sarif, sarif_bytes(report))


def _write_report(path: str, data: bytes) -> None:
    from traceforge.files import write_atomic

    folder = os.path.dirname(path)
    try:
        os.makedirs(folder or ".", exist_ok=True)
    except OSError as exc:
        raise CannotWrite(path, (exc.strerror or str(exc)).lower()) from None
    write_atomic(path, data)


def _annotate_github(report: CIReport) -> None:
    """Annotations on stderr, which the runner reads as it reads stdout; the summary into the file it names."""
    from traceforge.report.github_report import SUMMARY_BYTES_MAX, annotation_lines, summary_markdown

    for line in annotation_lines(report):
        click.echo(line, err=True)
    path = os.environ.get(STEP_SUMMARY, "")
    if not path:
        return
    try:
        written = os.path.getsize(path) if os.path.exists(path) else 0
        with open(path, "ab") as file:
            file.write(summary_markdown(report, SUMMARY_BYTES_MAX - written).encode())
    except OSError as exc:
        click.echo(f"the summary of the step cannot be written: {exc.strerror or exc}", err=True)
