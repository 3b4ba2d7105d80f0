"""`traceforge snapshot`: what was approved."""

from __future__ import annotations

import os

import click

from traceforge.audit.verify import AuditReport, nothing_found, verify_snapshots
from traceforge.cli.output import json_option, progress_bar, refuse_in_ci, report_findings
from traceforge.config import SNAPSHOTS_DIR, current_folder, load_config
from traceforge.findings import exit_code
from traceforge.report.text import audit_summary, count, finding_lines, one_line
from traceforge.snapshots.manifest import NAME
from traceforge.snapshots.rebuild import rebuild_manifest


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
    loaded = load_config(current_folder())
    root = folder or os.path.relpath(os.path.join(loaded.project, SNAPSHOTS_DIR))
    report = AuditReport()
    report.add_tree(verify_snapshots(root, loaded.config.models, progress_bar))
    summary = audit_summary(report.checked, report.findings, report.request_gated)
    report_findings(report.findings, summary, report.to_json(), as_json)


@snapshot.command("manifest")
@click.argument("folder", required=False, metavar="[DIR]")
def rebuild(folder: str | None) -> None:
    """Rebuild manifest.json from the documents of a snapshot tree.

    The manifest is a pure function of the files, so this is also how a merge conflict in it is resolved.
    Nothing is written where a document is broken, or where CI is set.
    """
    refuse_in_ci("snapshot manifest")
    root = folder or os.path.relpath(os.path.join(load_config(current_folder()).project, SNAPSHOTS_DIR))
    result = rebuild_manifest(root)
    if result.findings or not result.records:
        findings = [finding._replace(file=os.path.join(root, finding.file)) for finding in result.findings]
        click.echo(finding_lines(findings or [nothing_found(root)]))
        raise click.exceptions.Exit(int(exit_code(findings or [nothing_found(root)])))
    verb = "wrote" if result.changed else "unchanged"
    click.echo(f"{verb}: {one_line(os.path.join(root, NAME))}, {count(result.records, 'record')}")
