"""`traceforge trace`: what was seen."""

from __future__ import annotations

import os

import click

from traceforge.audit.verify import Auditor, nothing_found
from traceforge.cli.output import json_option, progress_bar, report_findings
from traceforge.config import current_folder, load_config
from traceforge.report.text import audit_summary


@click.group()
def trace() -> None:
    """Recorded calls: the traces of this project."""


@trace.command()
@click.argument("folder", required=False, metavar="[DIR]")
@json_option
def verify(folder: str | None, as_json: bool) -> None:
    """Check every trace in DIR; without it, in this project's traces folder."""
    loaded = load_config(current_folder())
    root = folder or os.path.relpath(os.path.join(loaded.project, loaded.config.traces_dir))
    report = Auditor(loaded.config.models, root, progress_bar).verify([root])
    if not report.checked["trace"] and not report.findings:  # Other artefacts are not what was asked about.
        report.findings.append(nothing_found(root))
    summary = audit_summary(report.checked, report.findings, report.request_gated)
    report_findings(report.findings, summary, report.to_json(), as_json)
