"""`traceforge snapshot`: what was approved."""

from __future__ import annotations

import os

import click

from traceforge.audit.verify import AuditReport, verify_snapshots
from traceforge.cli.output import json_option, progress_bar, report_findings
from traceforge.config import SNAPSHOTS_DIR, load_config
from traceforge.report.text import audit_summary


@click.group()
def snapshot() -> None:
    """Approved behaviour: the snapshot tree of this project."""


@snapshot.command()
@click.argument("folder", required=False, metavar="[DIR]")
@json_option
def verify(folder: str | None, as_json: bool) -> None:
    """Check a snapshot tree: documents, hashes, manifest, determinism policy.

    DIR is the tree's root; without it, .ai-snapshots/ of this project.
    """
    loaded = load_config(os.getcwd())
    root = folder or os.path.relpath(os.path.join(loaded.project, SNAPSHOTS_DIR))
    report = AuditReport()
    report.add_tree(verify_snapshots(root, loaded.config.models, progress_bar))
    summary = audit_summary(report.checked, report.findings, report.request_gated)
    report_findings(report.findings, summary, report.to_json(), as_json)
