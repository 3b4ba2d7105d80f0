"""The commands of `traceforge trace` that compare and check traces."""

from __future__ import annotations

import os
import sys

import click

from traceforge.audit.auditor import Auditor, AuditReport, nothing_to_verify, nothing_traced
from traceforge.cli.output import json_option, print_findings_and_exit, print_json
from traceforge.cli.progress import show_progress
from traceforge.cli.shared_page import html_option, write_shared_page
from traceforge.cli.trace_options import has_colour, open_store
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.config import current_folder, load_config
from traceforge.findings import ExitCode
from traceforge.report.diff_text import comparison_text
from traceforge.report.text_format import audit_summary
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import print_text


@click.command()
@click.argument("before", metavar="ID")
@click.argument("after", metavar="OTHER_ID")
@click.option("--full", is_flag=True, help="Show long texts in full.")
@html_option
@json_option
def diff(before: str, after: str, full: bool, html: str, as_json: bool) -> None:
    """Compare two traces.

    Exit code 1: they differ.
    """
    with open_store() as (store, _):
        calls = [ComparedCall.from_trace(store.load_trace(store.load_row(name)).body) for name in (before, after)]
    comparison = compare(*calls)
    if html:
        write_shared_page(html, "traces", before, "compare", after)
    elif as_json:
        print_json(comparison.to_json())
    else:
        colour = has_colour(sys.stdout)
        print_text(comparison_text(comparison, colour=colour, full=full), colour=colour)
    raise click.exceptions.Exit(ExitCode.FINDINGS if comparison.has_changed else ExitCode.OK)


@click.command()
@click.argument("folder", required=False, metavar="[DIR]")
@json_option
def verify(folder: str | None, as_json: bool) -> None:
    """Check every trace in DIR, or in the traces folder.

    Without DIR, checks the traces folder of this project.
    """
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    root = folder or os.path.relpath(os.path.join(loaded.project, loaded.config.traces_dir))
    report = AuditReport()
    if folder or os.path.lexists(root):
        report = Auditor(ModelPolicy.from_config(loaded.config), root, show_progress).verify([root])
    if not report.checked["trace"] and not report.findings:  # Files of other formats do not count here.
        report.findings.append(nothing_to_verify(root) if folder else nothing_traced(root))
    summary = audit_summary(report.checked, report.findings, report.request_gated)
    print_findings_and_exit(report.findings, summary, report.to_json(), as_json)
