"""`traceforge context bundle`: artifacts in order."""

from __future__ import annotations

from typing import cast, get_args

import click

from traceforge.cli.context.context_options import (
    after_option,
    idempotency_key_option,
    limit_option,
    metadata_option,
    print_page,
    print_result,
    read_metadata,
    with_client,
    with_client_of_new_store,
)
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import BundleItem, Role
from traceforge.report.context_text import bundle_line, field_lines


@click.group()
def bundle() -> None:
    """Create, show and delete bundles: artifacts in order."""


@bundle.command()
@click.argument("items", nargs=-1, required=True, metavar="ROLE=ARTIFACT...")
@metadata_option
@idempotency_key_option
@with_client_of_new_store
def create(
    client: Client, items: tuple[str, ...], metadata: str | None, idempotency_key: str | None, as_json: bool
) -> None:
    """Create a bundle of artifacts in this order.

    Each artifact is given with its role: system, developer, user, assistant or tool.
    """
    bundle = client.create_bundle(
        items=[_read_item(text) for text in items], metadata=read_metadata(metadata), idempotency_key=idempotency_key
    )
    print_result(bundle, field_lines, as_json)


def _read_item(text: str) -> BundleItem:
    role, _, artifact_id = text.partition("=")
    if role not in get_args(Role) or not artifact_id:
        raise click.BadParameter(f"Write ROLE=ARTIFACT; roles are {', '.join(get_args(Role))}.")
    return BundleItem(artifact_id=artifact_id, role=cast("Role", role))


@bundle.command("list")
@limit_option
@after_option
@with_client
def list_bundles(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List bundles, oldest first."""
    print_page(client.list_bundles(limit=limit, after=after), bundle_line, as_json)


@bundle.command("show")
@click.argument("bundle_id", metavar="BUNDLE")
@with_client
def show_bundle(client: Client, bundle_id: str, as_json: bool) -> None:
    """Show a bundle."""
    print_result(client.get_bundle(bundle_id), field_lines, as_json)


@bundle.command()
@click.argument("bundle_id", metavar="BUNDLE")
@with_client
def delete(client: Client, bundle_id: str, as_json: bool) -> None:
    """Delete a bundle's id.

    Sessions that use the bundle keep it.
    """
    print_result(client.delete_bundle(bundle_id), field_lines, as_json)
