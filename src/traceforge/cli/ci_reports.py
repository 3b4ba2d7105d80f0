"""The options `--junit` and `--sarif`, and the end of every command that checks files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

import click

from traceforge.audit.auditor import AuditReport
from traceforge.cli.output import print_findings
from traceforge.config import LoadedConfig
from traceforge.report.text_format import audit_summary
from traceforge.terminal import one_line, print_text

Command = TypeVar("Command", bound=Callable[..., object])

ON_GITHUB = "GITHUB_ACTIONS"


def report_options(command: Command) -> Command:
    """Add the options `--junit` and `--sarif`."""
    junit = click.option("--junit", metavar="FILE", default="", help="Write the report to FILE as JUnit XML.")
    sarif = click.option("--sarif", metavar="FILE", default="", help="Write the report to FILE as SARIF 2.1.0.")
    return junit(sarif(command))


def is_ci_report_wanted(junit: str, sarif: str) -> bool:
    """Whether a file was asked for, or GitHub Actions runs us."""
    return bool(junit or sarif or os.environ.get(ON_GITHUB) == "true")


def print_audit_and_exit(
    audit: AuditReport, loaded: LoadedConfig, command: str, *, as_json: bool, junit: str, sarif: str
) -> NoReturn:
    """Print the findings of a check, write the reports that were asked for, and exit with the audit's code."""
    notes = "".join(f"note: {note}\n" for note in audit.notes)
    summary = notes + audit_summary(audit.checked, audit.findings, audit.request_gated)
    if audit.base_line and not as_json:
        print_text(one_line(audit.base_line))
    print_findings(audit.findings, summary, audit.to_json(), as_json)
    if is_ci_report_wanted(junit, sarif):
        from traceforge.cli.ci_report_files import write_audit_report  # It more than doubles the start of `verify`.

        write_audit_report(audit, loaded, command, junit, sarif)
    raise click.exceptions.Exit(int(audit.exit_code))
