"""`traceforge context session`: context sessions."""

from __future__ import annotations

from typing import Literal

import click
from msgspec import UNSET, UnsetType

from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    add_object_command,
    format_db_option,
    idempotency_key_option,
    metadata_option,
    print_result,
    read_metadata,
    with_client,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import Deleted
from traceforge.report.context_text import field_lines, session_line


def _deletion_lines(deletion: Deleted) -> list[str]:
    db = format_db_option(click.get_current_context().params["db"])
    purge = f"traceforge context purge create {deletion.id}{db}"
    return [*field_lines(deletion), f"Its content is kept until you purge it: {purge}"]


@click.group(cls=SuggestingGroup)
def session() -> None:
    """Create, list, update and delete context sessions."""


@session.command()
@click.option(
    "--bundle", "bundles", multiple=True, metavar="ID", help="Start with this bundle; repeatable, in this order."
)
@metadata_option
@idempotency_key_option
@with_client_of_new_store
def create(
    client: Client, bundles: tuple[str, ...], metadata: str | None, idempotency_key: str | None, as_json: bool
) -> None:
    """Create a session with an empty first branch."""
    session = client.create_session(
        base_bundle_ids=list(bundles), metadata=read_metadata(metadata), idempotency_key=idempotency_key
    )
    print_result(session, field_lines, as_json)


add_list_command(
    session,
    Client.list_sessions,
    session_line,
    EmptyList("sessions", "create one with `traceforge context session create`"),
)
add_object_command(session, "show", Client.get_session, "SESSION", "Show a session.")
add_object_command(
    session,
    "delete",
    Client.delete_session,
    "SESSION",
    "Delete a session; its content stays until it is purged.",
    _deletion_lines,
)


@session.command()
@click.argument("session_id", metavar="SESSION")
@metadata_option
@click.option(
    "--status", type=click.Choice(["active", "archived"]), default=None, help="Archive the session, or open it again."
)
@with_client
def update(client: Client, session_id: str, metadata: str | None, status: str | None, as_json: bool) -> None:
    """Update the metadata or the status of a session."""
    new_status: Literal["active", "archived"] | UnsetType = UNSET
    if status is not None:
        new_status = "archived" if status == "archived" else "active"
    print_result(
        client.update_session(session_id, metadata=read_metadata(metadata), status=new_status), field_lines, as_json
    )
