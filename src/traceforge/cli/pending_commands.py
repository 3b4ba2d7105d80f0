"""`traceforge status`, `diff`, `approve`, `reject` and `review`: pending changes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict, cast

import click
from msgspec import UNSET

from traceforge.build_environment import is_ci
from traceforge.canon import JSON
from traceforge.cli.approval_reason import check_reason
from traceforge.cli.output import exit_on_refusal, json_option, print_json, refuse_in_ci
from traceforge.cli.project import load_project, snapshots_root
from traceforge.cli.shared_page import html_option, write_shared_page
from traceforge.config import SNAPSHOTS_DIR, LoadedConfig
from traceforge.replay.request_key import make_request_keyer
from traceforge.report.gate_text import change_json, changed_part, diff_lines, setting_lines, status_lines
from traceforge.report.request_head_text import unknown_parts_text
from traceforge.report.text_format import count
from traceforge.snapshots.approve.pending_approval import approve_changes as write
from traceforge.snapshots.approve.pending_approval import select_pending
from traceforge.snapshots.approve.pending_state import PendingState, load_pending_state
from traceforge.snapshots.approve.reason_check import is_placeholder
from traceforge.snapshots.approve.tree_approval import approve_tree
from traceforge.snapshots.approve.tree_commit import CommitResult
from traceforge.snapshots.formats.approved_policy import SettingChange
from traceforge.snapshots.record.pending_changes import (
    PENDING_FOLDER,
    ChangeKind,
    PendingChange,
    delete_pending,
    load_pending,
)
from traceforge.snapshots.record.pending_judgement import judge_pending
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.terminal import one_line, print_text

reason_option = click.option(
    "--reason", default=None, help="State why the change is right; stored in the approval.  [required]"
)
NOTHING_PENDING = "nothing is pending; find changes: traceforge record -- COMMAND"
NOTHING_PENDING_IN_CI = "nothing is pending; find changes: traceforge test -- COMMAND"  # No `record` there.
POLICY_APPROVED = "every setting is as approved"
tag_option = click.option("--tag", default="", help="Tag the approval with a name, such as a ticket.")
sign_option = click.option("--sign", is_flag=True, help="Sign the approval with your SSH key, as Git does.")
full_option = click.option("--full", is_flag=True, help="Show long texts in full.")


def _load_state(*, with_new_policy: bool = False, base: str = "") -> PendingState:
    return load_pending_state(load_project(), with_new_policy=with_new_policy, base=base)


@click.command()
@json_option
def status(as_json: bool) -> None:
    """List pending changes: new, changed and refused."""
    _, changes, approved, broken, settings = _load_state()
    kinds = Counter(change.kind.value for change in changes)
    if as_json:
        report: dict[str, JSON] = {
            "approved": len(approved),
            "findings": broken,
            "counts": dict(kinds),
            "pending": [change_json(change) for change in changes],
            "policy": [cast("JSON", setting._asdict()) for setting in settings],
        }
        print_json(report)
    else:
        lines = status_lines(changes, list(approved.values()), broken, kinds)
        print_text("\n".join([*lines, *setting_lines(settings)]))


@click.command()
@click.argument("name", required=False, metavar="[ID]")
@full_option
@html_option
def diff(name: str | None, full: bool, html: str) -> None:
    """Show the diff of pending changes, or of one ID.

    ID may be shortened to its first characters. Without an ID, settings that differ from the approved policy are
    shown too. Exit code 1: there is a pending change, or such a setting.
    """
    loaded, changes, approved, _, all_settings = _load_state()
    chosen, settings = (select_pending(changes, [name]), []) if name else (changes, all_settings)
    if html:
        write_shared_page(html, "changes", *([chosen[0].id] if name else []))
    else:
        _print_diffs(loaded, chosen, approved, full=full)
    if settings:
        print_text("\n".join(setting_lines(settings)))
    elif not chosen:
        print_text(NOTHING_PENDING_IN_CI if is_ci() else NOTHING_PENDING)
    if any(change.kind is not ChangeKind.REFUSED for change in chosen):
        changes_named = chosen[0].id if name else "--all"
        print_text(f'next: traceforge approve {changes_named} --reason "…"', err=True)
    raise click.exceptions.Exit(1 if chosen or settings else 0)


def _print_diffs(
    loaded: LoadedConfig, changes: Sequence[PendingChange], approved: dict[str, ApprovedCall], *, full: bool
) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    keys = make_request_keyer(loaded)
    texts = [
        "\n".join(diff_lines(change, approved.get(change.id), keys, colour=colour, full=full)) for change in changes
    ]
    if texts:
        print_text("\n\n".join(texts), colour=colour)


@click.command()
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="Approve every pending change that can be approved.")
@click.option(
    "--tree", "whole_tree", is_flag=True, help="Approve .ai-snapshots/ as it is, after git revert or others."
)
@click.option("--policy", "approve_policy", is_flag=True, help="Approve the settings that differ from the policy.")
@click.option("--base", metavar="REF", default="", help="Compare the checks of --policy with commit REF.")
@reason_option
@tag_option
@sign_option
def approve(
    names: tuple[str, ...],
    everything: bool,
    whole_tree: bool,
    approve_policy: bool,
    base: str,
    reason: str | None,
    tag: str,
    sign: bool,
) -> None:
    """Approve pending changes and write the snapshots to commit.

    Name each change by its ID, or pass --all, and state a reason: traceforge approve --all --reason "new prompt".

    `traceforge status` lists the IDs; the first characters of one are enough. Commit the files that this command
    writes in .ai-snapshots/.

    The settings that decide what is compared are approved too: with the first approval of a project, and later with
    --policy, alone or together with changes. `traceforge diff` shows them. So are checks that were removed or demand
    less than in the latest commit, in the branch that this one will be merged into, or in REF.

    With --tree, approve the files in .ai-snapshots/ as they are, if Git or you have changed them: a revert, a
    cherry-pick, a record that you wrote by hand. Look at them first, with `git diff`.
    """
    refuse_in_ci("approve")
    if base and not approve_policy:
        raise click.UsageError("--base is about the policy: pass --policy with it.")
    loaded, changes, _, _, settings = _load_state(with_new_policy=approve_policy, base=base)
    if whole_tree:
        if names or everything:
            raise click.UsageError("--tree approves no pending changes: pass no ID and no --all with it.")
        options = _ApprovalOptions(
            reason=check_reason(reason), tag=tag, sign=sign, approve_policy=approve_policy, base=base
        )
        if _approve_whole_tree(loaded, options) or not approve_policy:
            return
    if not names and not everything and approve_policy and not settings:
        print_text(POLICY_APPROVED)
        return
    if not changes and not names and not approve_policy:
        print_text("\n".join([NOTHING_PENDING, *setting_lines(settings)]))
        return
    chosen = _choose_changes(changes, names, everything=everything, may_be_none=approve_policy)
    options = _ApprovalOptions(
        reason=check_reason(reason), tag=tag, sign=sign, approve_policy=approve_policy, base=base
    )
    if chosen or (approve_policy and settings):
        _approve_chosen(loaded, chosen, settings, options)
    else:
        print_text("nothing to approve")
    refused = [change for change in changes if change.kind is ChangeKind.REFUSED] if everything else []
    if refused:
        print_text(f"{count(len(refused), 'change')} cannot be approved: see traceforge status", err=True)
        raise click.exceptions.Exit(1)


class _ApprovalOptions(TypedDict):
    """The options of a command that approves."""

    reason: str
    tag: str
    sign: bool
    approve_policy: bool
    base: str


def _approve_whole_tree(loaded: LoadedConfig, options: _ApprovalOptions) -> bool:
    """Approve the snapshots as they are in the tree; false where all are approved as they are."""
    with exit_on_refusal(snapshots_root(loaded)):
        approval = approve_tree(loaded, **options)
    if approval is None:
        print_text("every snapshot is as approved")
        return False
    _print_tree_approval(approval)
    return True


def _approve_chosen(
    loaded: LoadedConfig,
    changes: Sequence[PendingChange],
    settings: Sequence[SettingChange],
    options: _ApprovalOptions,
) -> None:
    with exit_on_refusal(snapshots_root(loaded)):
        approval = write(loaded, changes, **options)
    _print_approved_changes(changes)
    _print_approval(approval)
    if settings and not options["approve_policy"]:
        print_text("\n".join(setting_lines(settings)), err=True)


def _choose_changes(
    changes: Sequence[PendingChange], names: Sequence[str], *, everything: bool, may_be_none: bool
) -> Sequence[PendingChange]:
    """The pending changes that the command line names: by their ids, or all that can be approved."""
    if everything and not names:
        return [change for change in changes if change.kind is not ChangeKind.REFUSED]
    if everything or not (names or may_be_none):
        raise click.UsageError('Name the changes to approve, or pass --all: traceforge approve --all --reason "…"')
    return select_pending(changes, names)


def _print_approved_changes(changes: Sequence[PendingChange]) -> None:
    for change in changes:
        values = count(change.redacted_count, "value")
        redacted = f", {values} will replay as [REDACTED]" if change.redacted_count else ""
        unknown = unknown_parts_text(change.raw_response)
        not_compared = f", without {unknown}: unknown" if unknown else ""
        adopted = ", with an adopted answer that no provider gave to this request" if change.is_adopted else ""
        print_text(f"approved: {change.id} ({changed_part(change.kind)}){adopted}{redacted}{not_compared}")


def _print_tree_approval(result: CommitResult) -> None:
    for change in result.approval.changes:
        print_text(f"approved: {change.id} ({'as it is' if change.after is not None else 'removed'})")
    absent = result.approval.absent
    if absent is not UNSET:
        print_text(f"approved: {count(len(absent), 'approval')} that others follow and that the tree does not have")
    _print_approval(result)


def _print_approval(result: CommitResult) -> None:
    """Print the settings that were approved, and the file to commit."""
    policy = result.approval.policy
    if policy is not UNSET:
        print_text("approved: the policy" if policy else "approved: the policy (every setting has its default)")
        for name, setting in policy.items():
            print_text(f"  {one_line(SettingChange(name, setting.before, setting.after).describe())}")
    print_text(f"wrote {SNAPSHOTS_DIR}/{one_line(result.approval.file)}; commit {SNAPSHOTS_DIR}/")


@click.command()
@click.argument("names", nargs=-1, metavar="ID...")
def reject(names: tuple[str, ...]) -> None:
    """Delete pending changes; approved snapshots stay as they are."""
    refuse_in_ci("reject")
    if not names:
        raise click.UsageError("Name the changes to reject; to list them: traceforge status")
    loaded, changes, *_ = _load_state()
    chosen = select_pending(changes, names)
    delete_pending(loaded.project, [change.id for change in chosen])
    for change in chosen:
        print_text(f"rejected: {change.id}")


_REVIEW_KEYS = {
    "a": "accept: it is approved at the end, together with the others",
    "r": "reject: delete the pending change; the snapshot stays as it is",
    "s": "skip: it stays pending",
    "o": "open the pending change in your editor, and show it again",
    "q": "quit: approve what you accepted; everything else stays pending",
}


def _reason_question(number: int) -> str:
    return "Why is this change right?" if number == 1 else f"Why are these {number} changes right?"


@click.command()
@full_option
@sign_option
def review(full: bool, sign: bool) -> None:
    """Accept, reject or skip pending changes one by one.

    Shows the diff of each change and asks what to do with it; it can also be opened in your editor. What you accept
    is approved together, with one reason.
    """
    refuse_in_ci("review")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            'A review needs a terminal. Without one: traceforge diff, then traceforge approve --all --reason "…"'
        )
    state = _load_state()
    if not state.changes:
        print_text(NOTHING_PENDING)
        return
    chosen = _review_each(state, full=full)
    if not chosen:
        print_text("nothing was accepted; what is still pending: traceforge status")
        return
    reason = ""
    while is_placeholder(reason):
        reason = click.prompt(_reason_question(len(chosen)), prompt_suffix=" ")
    with exit_on_refusal(snapshots_root(state.loaded)):
        approval = write(state.loaded, chosen, reason=reason, sign=sign)
    print_text(f"approved {count(len(chosen), 'change')}")
    _print_approval(approval)


def _review_each(state: PendingState, *, full: bool) -> list[PendingChange]:
    """Ask about each pending change; the accepted ones, as they are after edits. Rejected ones are deleted."""
    accepted: list[PendingChange] = []
    place = 0
    while place < len(state.changes):
        change = state.changes[place]
        print_text(f"\n[{place + 1}/{len(state.changes)}]")
        _print_diffs(state.loaded, [change], state.approved, full=full)
        may_accept = change.kind is not ChangeKind.REFUSED
        keys = [key for key in _REVIEW_KEYS if may_accept or key != "a"]
        question = f"{'a accept, ' if may_accept else ''}r reject, s skip, o open in the editor, q quit, ? help"
        answer = click.prompt(question, type=click.Choice([*keys, "?"]), show_choices=False)
        if answer == "q":
            break
        if answer == "?":
            print_text("\n".join(f"  {key}  {_REVIEW_KEYS[key]}" for key in keys))
            continue
        if answer == "o":
            state.changes[place] = _edit_change(state, change)
            continue
        if answer == "a":
            accepted.append(change)
        if answer == "r":
            delete_pending(state.loaded.project, [change.id])
        place += 1
    return accepted


def _edit_change(state: PendingState, change: PendingChange) -> PendingChange:
    """Open a pending change in the editor, and judge it again."""
    project = state.loaded.project
    click.edit(filename=os.path.join(project, PENDING_FOLDER, f"{change.id}.json"))
    edited = judge_pending(
        state.loaded, load_pending(project), state.approved, are_settings_approved=not state.settings
    )
    return next((fresh for fresh in edited if fresh.id == change.id), change)
