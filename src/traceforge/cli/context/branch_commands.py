"""`traceforge context branch`: fork, merge, list and label branches."""

from __future__ import annotations

import click

from traceforge.cli.context.context_options import (
    EmptyList,
    after_option,
    branch_option,
    idempotency_key_option,
    limit_option,
    print_page,
    print_result,
    resolve_branch,
    with_client,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import MergeStrategy
from traceforge.errors import BranchConflict, StoreRefused
from traceforge.report.context_text import branch_line, field_lines

_NO_BRANCHES = EmptyList("branches", "fork one with `traceforge context branch fork SESSION`")


@click.group(cls=SuggestingGroup)
def branch() -> None:
    """Fork, merge, list and update branches."""


@branch.command()
@click.argument("session_id", metavar="SESSION")
@branch_option
@click.option(
    "--at",
    default=None,
    metavar="EVENT",
    help="Fork after this event, the last one both branches share.  [default: the head]",
)
@click.option("--label", default="", help="Label the new branch.")
@idempotency_key_option
@with_client
def fork(
    client: Client, session_id: str, branch_id: str, at: str | None, label: str, idempotency_key: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Fork a branch at its head or at any of its events.

    Nothing is copied: both branches share their past.
    """
    source = resolve_branch(client, session_id, branch_id)
    branch = client.fork_branch(
        session_id, fork_from_branch_id=source, fork_from_event_id=at, label=label, idempotency_key=idempotency_key
    )
    print_result(branch, field_lines, as_json)


@branch.command("list")
@click.argument("session_id", metavar="SESSION")
@limit_option
@after_option
@with_client
def list_branches(client: Client, session_id: str, limit: int, after: str | None, as_json: bool) -> None:
    """List the branches of a session, oldest first."""
    print_page(client.list_branches(session_id, limit=limit, after=after), branch_line, as_json, _NO_BRANCHES)


@branch.command("show")
@click.argument("session_id", metavar="SESSION")
@branch_option
@with_client
def show_branch(client: Client, session_id: str, branch_id: str, as_json: bool) -> None:
    """Show a branch: its head, version and fork point."""
    print_result(client.get_branch(session_id, resolve_branch(client, session_id, branch_id)), field_lines, as_json)


@branch.command()
@click.argument("session_id", metavar="SESSION")
@branch_option
@click.option("--label", required=True, help="Set the label.")
@with_client
def update(client: Client, session_id: str, branch_id: str, label: str, as_json: bool) -> None:
    """Label a branch; its head does not move."""
    print_result(
        client.update_branch(session_id, resolve_branch(client, session_id, branch_id), label=label),
        field_lines,
        as_json,
    )


@branch.command()
@click.argument("session_id", metavar="SESSION")
@click.argument("source", metavar="SOURCE")
@branch_option
@click.option("--strategy", type=click.Choice([strategy.value for strategy in MergeStrategy]), required=True,
              help="Choose how the events of SOURCE are merged.")  # fmt: skip
@click.option("--summary", default=None, metavar="TEXT", help="Use this summary of SOURCE (compact).")
@click.option("--model", default=None, metavar="NAME", help="Ask this model for the summary (compact).")
@click.option("--label", default="", help="Label the new branch (fork).")
@click.option("--expected-version", type=click.IntRange(0), default=None, metavar="N",
              help="Require that the branch is at this version.  [default: its current one]")  # fmt: skip
@click.option("--expected-head", default=None, metavar="EVENT",
              help="Require this head, the last event of the branch; needs --expected-version.")  # fmt: skip
@idempotency_key_option
@with_client
def merge(
    client: Client, session_id: str, source: str, branch_id: str, strategy: str, summary: str | None,
    model: str | None, label: str, expected_version: int | None, expected_head: str | None,
    idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Merge the branch SOURCE into another branch.

    SOURCE stays as it is. checkpoint appends one event with the text of SOURCE; compact appends a summary; rebase
    appends the events of SOURCE again; fork does the same on a new branch. Events that an earlier merge has brought
    are left out; if no others are left, nothing is written and the exit code is 3.
    """
    target = resolve_branch(client, session_id, branch_id)
    version, head = read_expected_head(
        client, session_id, target, expected_version, expected_head, is_retry_possible=idempotency_key is not None
    )
    try:
        result = client.merge_branch(
            session_id, target, source_branch_id=source, strategy=strategy, expected_version=version,
            expected_head_event_id=head, summary=summary, model=model, label=label, idempotency_key=idempotency_key,
        )  # fmt: skip
    except StoreRefused as exc:
        if exc.reason == "nothing_to_merge":  # The error of a server has no hint.
            exc.hint = f"Append to the source first, or look at both: traceforge context log {session_id}"
        raise
    print_result(result, field_lines, as_json)


def read_expected_head(
    client: Client,
    session_id: str,
    branch_id: str,
    version: int | None,
    head: str | None,
    *,
    is_retry_possible: bool = False,
) -> tuple[int, str | None]:
    """The version and head that the branch must have: from the options; what is missing there, from the branch.

    Raises:
        BranchConflict: the branch is not at this version. With `is_retry_possible`, only if it never was: the retry
            of a request that was carried out finds a later version, and must send the same head again.
    """
    if version is None and head is not None:
        raise click.UsageError("--expected-head needs --expected-version.")
    if version is not None and (head is not None or version == 0):  # At version 0, there is no head.
        return version, head
    branch = client.get_branch(session_id, branch_id)
    if version is None or version == branch.version:
        return branch.version, branch.head_event_id
    if is_retry_possible and version < branch.version:
        events = client.iterate_events(session_id, branch_id)
        return version, next(event.id for event in events if event.sequence == version)
    raise BranchConflict(branch.version, branch.head_event_id, expected=f"version {version}")
