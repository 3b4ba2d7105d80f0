"""`traceforge context purge`: remove content for good."""

from __future__ import annotations

import sys

import click
import msgspec

from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    add_object_command,
    idempotency_key_option,
    print_result,
    with_client,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.cli.output import confirm_or_exit, print_json_list
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import Progress
from traceforge.context.purge.expired_content import purge_expired
from traceforge.context.purge.purge_jobs import remove_remaining_traces
from traceforge.errors import StoreUnavailable
from traceforge.report.context_text import purge_job_line, receipt_lines
from traceforge.terminal import print_text


@click.group(cls=SuggestingGroup)
def purge() -> None:
    """Remove content for good, with everything made from it."""


@purge.command()
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@click.option("--reason", default="", help="State why; stored for ever, so leave out what must go.")
@click.option("--yes", is_flag=True, help="Skip the question; required without a terminal.")
@idempotency_key_option
@with_client
def create(
    client: Client, targets: tuple[str, ...], reason: str, yes: bool, idempotency_key: str | None, as_json: bool
) -> None:
    """Purge artifacts, events or sessions and print the receipt.

    TARGET is an id. This cannot be undone, and backups from before cannot be read afterwards: make a new backup.
    """
    _confirm(yes)
    created = client.create_purge_job(targets=list(targets), reason=reason, idempotency_key=idempotency_key)
    job = client.get_purge_job(created.id)
    if job.status is not Progress.COMPLETED:
        raise StoreUnavailable(
            f"purge job {job.id} is {job.status.value}: it is not completed",
            hint=f"It continues when the database is opened. Then run: traceforge context purge receipt {job.id}",
        )
    print_result(client.get_receipt(job.id), receipt_lines, as_json)


@purge.command()
@with_client
def expired(client: Client, as_json: bool) -> None:
    """Purge ephemeral artifacts that have expired.

    Prints the receipts. `traceforge serve` does this by itself, and so does every command that opens the database.
    Run this where nothing else opens it.
    """
    if client.store is None:
        raise click.UsageError("A server purges expired content by itself. Name a database with --db.")
    jobs = [job for job in purge_expired(client.store, at_once=True) if job.status is Progress.COMPLETED]
    receipts = [client.get_receipt(job.id) for job in jobs]
    if as_json:
        print_json_list(msgspec.to_builtins(receipts))
    elif not receipts:
        print_text("nothing has expired")
    for receipt in receipts if not as_json else ():
        print_result(receipt, receipt_lines, as_json)


@purge.command()
@click.argument("job_id", metavar="JOB")
@with_client
def traces(client: Client, job_id: str, as_json: bool) -> None:
    """Remove traces that a completed purge did not find.

    The store does not know where a trace was recorded: a purge removes those of the project it runs in, and its
    receipt lists the others. Run this in the project where they are, with the same database.
    """
    if client.store is None:
        raise click.UsageError("Run this in the folder of the traces, and name the database with --db.")
    print_result(remove_remaining_traces(client.store, job_id), receipt_lines, as_json)


add_list_command(
    purge,
    Client.list_purge_jobs,
    purge_job_line,
    EmptyList("purge jobs", "`traceforge context purge create TARGET` removes content"),
)
add_object_command(purge, "show", Client.get_purge_job, "JOB", "Show a purge job and its progress.")
add_object_command(
    purge, "receipt", Client.get_receipt, "JOB", "Show what a completed purge has removed.", receipt_lines
)


def _confirm(yes: bool) -> None:
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError("A purge cannot be undone, and there is no terminal to confirm it: pass --yes.")
    confirm_or_exit("Remove this content for good, with everything made from it?", "nothing was removed")
