"""`traceforge context event`: append and list events."""

from __future__ import annotations

from typing import cast

import click

from traceforge.cli.context.branch_commands import read_expected_head
from traceforge.cli.context.context_options import (
    EmptyList,
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
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.inputs import NewEvent
from traceforge.context.model.objects import Content, EventType
from traceforge.report.context_text import event_line, field_lines

_NO_EVENTS = EmptyList("events", "append one with `traceforge context event append SESSION --content TEXT`")


@click.group(cls=SuggestingGroup)
def event() -> None:
    """Append and list the events of a branch."""


@event.command()
@click.argument("session_id", metavar="SESSION")
@branch_option
@click.option("--type", "event_type", type=click.Choice([kind.value for kind in EventType]), metavar="TYPE",
              default="user_message", show_default=True,
              help=f"Set the type of the event: {', '.join(kind.value for kind in EventType)}.")  # fmt: skip
@click.option("--content", default=None, metavar="TEXT", help="Store this text as the content.")
@click.option("--file", "file", default=None, metavar="FILE", help="Read the content from a file; - is stdin.")
@click.option("--json-content", is_flag=True, help="Read the content as JSON, not as text.")
@click.option("--artifact", default=None, metavar="ID", help="Use the content of this artifact instead.")
@metadata_option
@click.option("--expected-version", type=click.IntRange(0), default=None, metavar="N",
              help="Require that the branch is at this version.  [default: its current one]")  # fmt: skip
@click.option("--expected-head", default=None, metavar="EVENT",
              help="Require this head, the last event of the branch; needs --expected-version.")  # fmt: skip
@idempotency_key_option
@with_client
def append(
    client: Client, session_id: str, branch_id: str, event_type: str, content: str | None, file: str | None,
    json_content: bool, artifact: str | None, metadata: str | None, expected_version: int | None,
    expected_head: str | None, idempotency_key: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Append one event to a branch.

    Its content comes from exactly one of --content, --file and --artifact. A branch's version counts its events; its
    head is the last one.

    If another writer appended first, nothing is written and the error says where the branch is now. An idempotency
    key needs --expected-version, because a retry must send the same request.
    """
    if sum(value is not None for value in (content, file, artifact)) != 1:
        raise click.UsageError("Pass exactly one of --content, --file and --artifact.")
    if idempotency_key is not None and expected_version is None:
        raise click.UsageError("--idempotency-key needs --expected-version: a retry must send the same request.")
    text = read_text(file) if file is not None else content
    event_content: Content | None = text
    if json_content and text is not None:
        event_content = cast("Content", read_json_text(text, "--file" if file else "--content"))
    branch = resolve_branch(client, session_id, branch_id)
    version, head = read_expected_head(
        client, session_id, branch, expected_version, expected_head, is_retry_possible=idempotency_key is not None
    )
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
    """List the events of a branch in order, inherited ones first."""
    branch = resolve_branch(client, session_id, branch_id)
    print_page(client.list_events(session_id, branch, limit=limit, after=after), event_line, as_json, _NO_EVENTS)
