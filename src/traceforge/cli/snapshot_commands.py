"""`traceforge snapshot`: list, show, verify and change approved snapshots."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

import click

from traceforge.audit.auditor import AuditReport
from traceforge.audit.tree_auditor import is_tree_of, nothing_approved, verify_snapshots
from traceforge.canon import JSON, parse_json
from traceforge.cli.approval_reason import check_reason
from traceforge.cli.ci_reports import print_audit_and_exit, report_options
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import exit_on_refusal, json_option, print_json, print_json_list, refuse_in_ci
from traceforge.cli.progress import show_progress
from traceforge.cli.project import load_project, snapshots_root
from traceforge.clock import now
from traceforge.errors import InvalidFile, NotJSON
from traceforge.files import read_file
from traceforge.findings import Finding, exit_code
from traceforge.report.git_textconv import to_readable_text
from traceforge.report.request_head_text import unknown_parts_text
from traceforge.report.snapshot_text import snapshot_list_text, snapshot_text
from traceforge.report.text_format import count, finding_lines, hint_line
from traceforge.snapshots.approve.tree_commit import SnapshotChange, commit_changes
from traceforge.snapshots.formats.approved_policy import check_policy_approved
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import write_raw_response
from traceforge.snapshots.formats.snapshot_format import is_snapshot_id
from traceforge.snapshots.formats.snapshot_manifest import MANIFEST_NAME
from traceforge.snapshots.record.pending_changes import first_approval_hint
from traceforge.snapshots.tree.approved_calls import load_approved_calls
from traceforge.snapshots.tree.manifest_rebuild import rebuild_manifest
from traceforge.snapshots.tree.raw_response_migration import migrate_raw_responses
from traceforge.snapshots.tree.snapshot_migration import MIGRATIONS, REQUIRED_FIELDS, migrate_tree
from traceforge.snapshots.tree.tree_listing import load_snapshot, load_tree, snapshot_full_json, snapshot_json
from traceforge.terminal import one_line, print_text


@click.group(cls=SuggestingGroup)
def snapshot() -> None:
    """List, show, verify and migrate approved snapshots."""


@snapshot.command()
@click.argument("folder", required=False, metavar="[DIR]")
@json_option
@report_options
def verify(folder: str | None, as_json: bool, junit: str, sarif: str) -> None:
    """Check a snapshot tree: files, hashes, manifest and approvals.

    DIR is the root of the tree; without it, .ai-snapshots/ of this project.
    """
    loaded = load_project()
    root = folder or snapshots_root(loaded)
    report = AuditReport()
    if folder or os.path.lexists(root):
        tree = verify_snapshots(root, ModelPolicy.from_config(loaded.config), show_progress)
        report.add_tree(tree, root)
        if is_tree_of(loaded.project, root):
            report.findings += check_policy_approved(loaded, tree.settings)
    else:
        report.findings.append(nothing_approved(root))
    print_audit_and_exit(report, loaded, "snapshot verify", as_json=as_json, junit=junit, sarif=sarif)


@snapshot.command("manifest")
@click.argument("folder", required=False, metavar="[DIR]")
def rebuild(folder: str | None) -> None:
    """Rebuild manifest.json from the files of a snapshot tree.

    The manifest is computed from the files alone, so this also resolves a merge conflict in it. Nothing is written
    if a file is invalid, or in CI.
    """
    refuse_in_ci("snapshot manifest")
    loaded = load_project()
    root = folder or snapshots_root(loaded)
    if folder is None and not os.path.lexists(root):
        _refuse_manifest([nothing_approved(root)])
    result = rebuild_manifest(root)
    if result.findings or not result.records:
        findings = [finding._replace(file=os.path.join(root, finding.file)) for finding in result.findings]
        _refuse_manifest(findings or [nothing_approved(root)])
    verb = "wrote" if result.changed else "unchanged"
    print_text(f"{verb}: {one_line(os.path.join(root, MANIFEST_NAME))}, {count(result.records, 'record')}")


def _refuse_manifest(findings: Sequence[Finding]) -> NoReturn:
    print_text(finding_lines(findings))
    raise click.exceptions.Exit(int(exit_code(list(findings))))


@snapshot.command("list")
@json_option
def list_snapshots(as_json: bool) -> None:
    """List the approved snapshots of this project, sorted by id.

    GATE says what is checked in `traceforge test`: the prompt and the answer (behaviour), or the prompt alone
    (request). A raw response without a record holds what the snapshot format cannot, such as an error.
    """
    loaded = load_project()
    snapshots = load_tree(snapshots_root(loaded))
    if as_json:
        policy = ModelPolicy.from_config(loaded.config)
        print_json_list([snapshot_json(snapshot, policy) for snapshot in snapshots])
    elif snapshots:
        print_text(snapshot_list_text(snapshots, ModelPolicy.from_config(loaded.config)))
    else:
        print_text(f"no snapshots yet\n{hint_line(first_approval_hint(loaded.project))}", err=True)


@snapshot.command()
@click.argument("snapshot_id", metavar="ID")
@click.option("--full", is_flag=True, help="Show long texts in full.")
@json_option
def show(snapshot_id: str, full: bool, as_json: bool) -> None:
    """Show one snapshot: source, request, answer and approvals."""
    loaded = load_project()
    snapshot = load_snapshot(snapshots_root(loaded), snapshot_id)
    if as_json:
        print_json(snapshot_full_json(snapshot, ModelPolicy.from_config(loaded.config)))
    else:
        print_text(snapshot_text(snapshot, ModelPolicy.from_config(loaded.config), full=full))


@snapshot.command()
@click.argument("file", metavar="FILE")
def textconv(file: str) -> None:
    """Print a file of a snapshot tree as lines for `git diff`.

    Git calls this command after `traceforge init --git-diff`. A file that is not JSON is printed as text.
    """
    print_text(to_readable_text(read_file(file)), end="")


@snapshot.command("rm")
@click.argument("snapshot_ids", nargs=-1, required=True, metavar="ID...")
@click.option("--reason", required=True, help="State why; stored in the approval.")
@click.option("--tag", default="", help="Tag the approval with a name, such as a ticket.")
@click.option("--sign", is_flag=True, help="Sign the approval with your SSH key, as Git does.")
def remove(snapshot_ids: tuple[str, ...], reason: str, tag: str, sign: bool) -> None:
    """Remove snapshots and approve the removal.

    A snapshot that is deleted without an approval fails `traceforge verify`. Refused in CI.
    """
    refuse_in_ci("snapshot rm")
    reason = check_reason(reason)
    for name in snapshot_ids:
        if not is_snapshot_id(name):
            raise click.UsageError(f"{name!r} is not a snapshot id.")
    loaded = load_project()
    changes = [SnapshotChange("", name, None, None) for name in dict.fromkeys(snapshot_ids)]
    with exit_on_refusal(snapshots_root(loaded)):
        approval = commit_changes(
            loaded.project,
            ModelPolicy.from_config(loaded.config),
            changes,
            reason=reason,
            tag=tag,
            sign=sign,
            now=now(),
            config=loaded.config,
        )
    print_text(f"removed: {', '.join(change.id for change in approval.approval.changes)}")
    print_text(f"approved: {one_line(os.path.join(snapshots_root(loaded), approval.approval.file))}")


@snapshot.command()
@click.option("--from", "old", default="", metavar="VERSION", help="Read snapshots of this version.")
@click.option("--to", "new", default="", metavar="VERSION", help="Write snapshots of this version.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a required value in records that lack it; repeatable.",
)
@click.option("--reason", default="", help="State why; stored in the approval.  [default: migrated …]")
@click.option("--tag", default="", help="Tag the approval with a name, such as a ticket.")
@click.option("--sign", is_flag=True, help="Sign the approval with your SSH key, as Git does.")
def migrate(old: str, new: str, values: tuple[str, ...], reason: str, tag: str, sign: bool) -> None:
    """Rewrite the files of an older version and approve the change.

    Without --from and --to: the raw responses of an older TraceForge, which do not say where their requests went, nor
    all of their headers. They state then what is unknown, and it stays unknown until you record the calls again.

    With them: snapshots of another version. No value is guessed: where a record lacks a field that the new version
    requires, give it with --set (file, line, function, temperature, max_tokens, tokens_used, latency_ms,
    finish_reason); the record lists it as declared. Records that were recorded again are left out, and listed. All
    files are migrated, or none. Refused in CI.
    """
    refuse_in_ci("snapshot migrate")
    reason = check_reason(reason) if reason else ""
    if not old and not new:
        if values:
            raise click.UsageError("--set needs --from and --to.")
        _migrate_raw_responses(reason, tag, sign)
        return
    if (old, new) not in MIGRATIONS:
        known_steps = ", ".join(f"--from {step[0]} --to {step[1]}" for step in MIGRATIONS)
        raise click.UsageError(f"There is no migration from {old} to {new}. Migrations: {known_steps}.")
    loaded = load_project()
    root = snapshots_root(loaded)
    with exit_on_refusal(root):
        read = migrate_tree(root, _read_values(values))
        findings = read.findings or (
            [] if read.records or read.left_out else [nothing_approved(root)._replace(file="")]
        )
        if findings:
            raise InvalidFile(tuple(sorted(findings)))
        approval = commit_changes(
            loaded.project,
            ModelPolicy.from_config(loaded.config),
            [SnapshotChange(provider, str(body["id"]), body, None) for provider, body in read.records],
            reason=reason or f"migrated from {old} to {new}",
            tag=tag,
            sign=sign,
            now=now(),
            replaced_files=read.files,
            config=loaded.config,
        )
    print_text(f"migrated: {count(len(read.records), 'record')} of {count(len(read.files), 'document')}")
    for name in read.left_out:
        print_text(f"left out: {name} (already recorded again)")
    print_text(f"approved: {one_line(os.path.join(root, approval.approval.file))}")


def _migrate_raw_responses(reason: str, tag: str, sign: bool) -> None:
    loaded = load_project()
    root = snapshots_root(loaded)
    with exit_on_refusal(root):
        migrated = migrate_raw_responses(load_approved_calls(loaded.project, ModelPolicy.from_config(loaded.config)))
        if not migrated:
            print_text("nothing to migrate: no raw response is of an older version")
            return
        approval = commit_changes(
            loaded.project,
            ModelPolicy.from_config(loaded.config),
            [
                SnapshotChange(call.provider, call.id, call.record, write_raw_response(call.raw_response))
                for call in migrated
            ],
            reason=reason or "migrated raw responses: upstream and other headers are unknown",
            tag=tag,
            sign=sign,
            now=now(),
            config=loaded.config,
        )
    print_text(f"migrated: {count(len(migrated), 'raw response')}")
    for unknown, calls in Counter(unknown_parts_text(call.raw_response) for call in migrated).items():
        print_text(f"unknown, and so not compared, in {count(calls, 'call')}: {unknown}")
    print_text(hint_line("Record the calls again to compare all: traceforge record --fresh -- COMMAND"))
    print_text(f"approved: {one_line(os.path.join(root, approval.approval.file))}")


def _read_values(pairs: tuple[str, ...]) -> dict[str, JSON]:
    """Read NAME=VALUE of --set: JSON, or else text."""
    values: dict[str, JSON] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if name not in REQUIRED_FIELDS or not sign:
            raise click.UsageError(f"--set takes NAME=VALUE, and NAME is one of {', '.join(REQUIRED_FIELDS)}.")
        try:
            values[name] = parse_json(text.encode())
        except NotJSON:
            values[name] = text
    return values
