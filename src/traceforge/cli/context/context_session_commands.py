"""`traceforge context session`: context sessions."""

from __future__ import annotations

from typing import Literal

import click
from msgspec import UNSET, UnsetType

from traceforge.cli.context.context_options import (
    after_option,
    key_option,
    limit_option,
    metadata_option,
    on_store,
    read_metadata,
    show,
    show_page,
)
from traceforge.context.api.store_client import Client
from traceforge.report.context_text import fields, session_line


@click.group(short_help="Context sessions: what they begin with, and their status.")
def session() -> None:
    """Context sessions: what they begin with, and whether anything may still happen in them."""


@session.command()
@click.option("--bundle", "bundles", multiple=True, metavar="ID", help="A bundle to begin with; in this order.")
@metadata_option
@key_option
@on_store
def create(
    client: Client, bundles: tuple[str, ...], metadata: str | None, idempotency_key: str | None, as_json: bool
) -> None:
    """Begin a session, with its first branch, which is empty."""
    made = client.create_session(
        base_bundle_ids=list(bundles), metadata=read_metadata(metadata), idempotency_key=idempotency_key
    )
    show(made, fields, as_json)


@session.command("list")
@limit_option
@after_option
@on_store
def list_sessions(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List sessions, the oldest first."""
    show_page(client.list_sessions(limit=limit, after=after), session_line, as_json)


@session.command("show")
@click.argument("session_id", metavar="SESSION")
@on_store
def show_session(client: Client, session_id: str, as_json: bool) -> None:
    """Show a session."""
    show(client.get_session(session_id), fields, as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@metadata_option
@click.option(
    "--status", type=click.Choice(["active", "archived"]), default=None, help="Archive it, or open it again."
)
@on_store
def update(client: Client, session_id: str, metadata: str | None, status: str | None, as_json: bool) -> None:
    """Replace the metadata, archive a session, or open it again."""
    given: Literal["active", "archived"] | UnsetType = UNSET
    if status is not None:
        given = "archived" if status == "archived" else "active"
    show(client.update_session(session_id, metadata=read_metadata(metadata), status=given), fields, as_json)


@session.command()
@click.argument("session_id", metavar="SESSION")
@on_store
def delete(client: Client, session_id: str, as_json: bool) -> None:
    """Revoke a session's handle. Its content stays until it is purged."""
    show(client.delete_session(session_id), fields, as_json)
