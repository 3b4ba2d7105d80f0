"""`traceforge context bundle`: artifacts in an order that is meaning."""

from __future__ import annotations

from typing import cast, get_args

import click

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
from traceforge.context.model.objects import BundleItem, Role
from traceforge.report.context_text import bundle_line, fields


@click.group()
def bundle() -> None:
    """Bundles: artifacts in an order that is meaning."""


@bundle.command()
@click.argument("items", nargs=-1, required=True, metavar="ROLE=ARTIFACT...")
@metadata_option
@key_option
@on_store
def create(
    client: Client, items: tuple[str, ...], metadata: str | None, idempotency_key: str | None, as_json: bool
) -> None:
    """Put artifacts in order, each with the role in which it speaks: system, developer, user, assistant or tool."""
    made = client.create_bundle(
        items=[_item(one) for one in items], metadata=read_metadata(metadata), idempotency_key=idempotency_key
    )
    show(made, fields, as_json)


def _item(text: str) -> BundleItem:
    role, _, artifact_id = text.partition("=")
    if role not in get_args(Role) or not artifact_id:
        raise click.BadParameter(f"Write a role, = and an artifact; roles are {', '.join(get_args(Role))}.")
    return BundleItem(artifact_id=artifact_id, role=cast("Role", role))


@bundle.command("list")
@limit_option
@after_option
@on_store
def list_bundles(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List bundles, the oldest first."""
    show_page(client.list_bundles(limit=limit, after=after), bundle_line, as_json)


@bundle.command("show")
@click.argument("bundle_id", metavar="BUNDLE")
@on_store
def show_bundle(client: Client, bundle_id: str, as_json: bool) -> None:
    """Show a bundle."""
    show(client.get_bundle(bundle_id), fields, as_json)


@bundle.command()
@click.argument("bundle_id", metavar="BUNDLE")
@on_store
def delete(client: Client, bundle_id: str, as_json: bool) -> None:
    """Revoke a bundle's handle. What uses it keeps it."""
    show(client.delete_bundle(bundle_id), fields, as_json)
