"""`traceforge verify`: check everything."""

from __future__ import annotations

import os

import click

from traceforge.audit.verify import Auditor
from traceforge.cli.output import json_option, progress_bar, report_findings
from traceforge.config import SNAPSHOTS_DIR, Loaded, current_folder, load_config
from traceforge.report.text import audit_summary


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@json_option
def verify(paths: tuple[str, ...], as_json: bool) -> None:
    """Check every artefact under PATH, whatever its kind.

    Without a PATH: the snapshots and traces of this project. Findings are sorted and each has its file, place,
    rule, message and hint; `traceforge help errors` lists the rules.
    """
    loaded = load_config(current_folder())
    auditor = Auditor(loaded.config.models, os.path.join(loaded.project, loaded.config.traces_dir), progress_bar)
    report = auditor.verify(paths or default_paths(loaded), named=bool(paths))
    summary = audit_summary(report.checked, report.findings, report.request_gated)
    report_findings(report.findings, summary, report.to_json(), as_json)


def default_paths(loaded: Loaded) -> list[str]:
    """What a project has of its own."""
    folders = (
        os.path.join(loaded.project, SNAPSHOTS_DIR),
        os.path.join(loaded.project, ".ai-tests"),
        os.path.join(loaded.project, loaded.config.traces_dir),
    )
    there = [os.path.relpath(folder) for folder in folders if os.path.lexists(folder)]
    inner = [path for path in there if any(path.startswith(f"{other}{os.sep}") for other in there)]
    return [path for path in there if path not in inner]
