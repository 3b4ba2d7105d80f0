"""`traceforge context event`: what happened on a branch."""

from __future__ import annotations

from typing import cast

import click

from traceforge.cli.context.branch_commands import read_expected_head
from traceforge.cli.context.context_options import (
    after_option,
    branch_option,
    idempotency_key_option,
    limit_option,
    metadata_option,
    print_page,
    print_result,
    read_json_text,
    read_metadata,
    read_text,
    resolve_branch,
    with_client,
)
from traceforge.context.api.store_client import Client
from traceforge.context.model.inputs import NewEvent
from traceforge.context.model.objects import Content, EventType
from traceforge.report.context_text import event_line, field_lines


@click.group(short_help="Events: appended to a branch, and never changed.")
def event() -> None:
    """Events: appended to a branch if it is still where you think it is, and never changed."""


@event.command()
@click.argument("session_id", metavar="SESSION")
@branch_option
@click.option("--type", "event_type", type=click.Choice([kind.value for kind in EventType]), default="user_message",
              show_default=True, help="What happened.")  # fmt: skip
@click.option("--content", default=None, metavar="TEXT", help="What it says.")
@click.option("--file", "file", default=None, metavar="FILE", help="The same from a file; - is stdin.")
@click.option("--json-content", is_flag=True, help="The content is JSON, and no text.")
@click.option("--artifact", default=None, metavar="ID", help="Instead of content: the artifact that holds it.")
@metadata_option
@click.option("--expected-version", type=click.IntRange(0), default=None, metavar="N",
              help="Where the branch must be.  [default: where it is found]")  # fmt: skip
@click.option(
    "--expected-head", default=None, metavar="EVENT", help="The head it must have; with --expected-version."
)
@idempotency_key_option
@with_client
def append(
    client: Client, session_id: str, branch_id: str, event_type: str, content: str | None, file: str | None,
    json_content: bool, artifact: str | None, metadata: str | None, expected_version: int | None,
    expected_head: str | None, idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Append one event.

    If somebody else appended first, nothing is written; the error says where the branch is now. An idempotency key
    with no --expected-version makes no sense: a retry would find the branch somewhere else.
    """
    if sum(value is not None for value in (content, file, artifact)) != 1:
        raise click.UsageError("Give one of --content, --file and --artifact.")
    if idempotency_key is not None and expected_version is None:
        raise click.UsageError("--idempotency-key needs --expected-version: a retry must ask for the same thing.")
    text = read_text(file) if file is not None else content
    event_content: Content | None = text
    if json_content and text is not None:
        event_content = cast("Content", read_json_text(text, "--file" if file else "--content"))
    branch = resolve_branch(client, session_id, branch_id)
    version, head = read_expected_head(client, session_id, branch, expected_version, expected_head)
    metadata_object = read_metadata(metadata)
    event = client.append_event(
        session_id, branch, expected_version=version, expected_head_event_id=head, idempotency_key=idempotency_key,
        event=NewEvent(event_type=EventType(event_type), payload_ref=artifact, content=event_content,
                       metadata=metadata_object if isinstance(metadata_object, dict) else {}),
    )  # fmt: skip
    print_result(event, field_lines, as_json)


@event.command("list")
@click.argument("session_id", metavar="SESSION")
@branch_option
@limit_option
@after_option
@with_client
def list_events(
    client: Client, session_id: str, branch_id: str, limit: int, after: str | None, as_json: bool
) -> None:
    """List the events of a branch in causal order, those it inherited first."""
    branch = resolve_branch(client, session_id, branch_id)
    print_page(client.list_events(session_id, branch, limit=limit, after=after), event_line, as_json)
