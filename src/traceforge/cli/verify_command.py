"""`traceforge verify`: check files of every format."""

from __future__ import annotations

import os

import click

from traceforge.audit.auditor import Auditor, BaseCommit
from traceforge.cli.ci_reports import print_audit_and_exit, report_options
from traceforge.cli.output import json_option
from traceforge.cli.progress import show_progress
from traceforge.cli.project import load_project
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig, current_folder
from traceforge.snapshots.formats.determinism_policy import ModelPolicy


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--base", metavar="REF", help="Require a new approval for every snapshot that differs from commit REF.")
@click.option("--require-signed", is_flag=True, help="Require the signature of an allowed signer on every approval.")
@json_option
@report_options
def verify(
    paths: tuple[str, ...], base: str | None, require_signed: bool, as_json: bool, junit: str, sarif: str
) -> None:
    """Check snapshots, traces, recordings and packs under PATH.

    Without a PATH, check the snapshots, traces and check files of this project. Each finding names its file, place
    and rule; `traceforge help RULE` explains the rule.

    With --base, every snapshot of this project that differs from the commit REF needs an approval that REF does not
    have yet: nothing in a pull request changes without an approval. Where CI is set, REF is the base of the build,
    which `traceforge base` prints.
    """
    if base is not None and paths:
        raise click.UsageError("--base checks this project: pass no PATH with it.")
    loaded = load_project()
    traces_dir = os.path.join(loaded.project, loaded.config.traces_dir)
    against = BaseCommit(loaded.project, base, current_folder()) if not paths else None
    policy = ModelPolicy.from_config(loaded.config)
    auditor = Auditor(policy, traces_dir, show_progress, against, loaded, require_signed=require_signed)
    report = auditor.verify(paths or project_paths(loaded), named=bool(paths))
    print_audit_and_exit(report, loaded, "verify", as_json=as_json, junit=junit, sarif=sarif)


def project_paths(loaded: LoadedConfig) -> list[str]:
    """The folders of a project that hold files to check."""
    folders = (
        os.path.join(loaded.project, SNAPSHOTS_DIR),
        os.path.join(loaded.project, ".ai-tests"),
        os.path.join(loaded.project, loaded.config.traces_dir),
    )
    existing = [os.path.relpath(folder) for folder in folders if os.path.lexists(folder)]
    inner = [path for path in existing if any(path.startswith(f"{other}{os.sep}") for other in existing)]
    return [path for path in existing if path not in inner]
