"""`traceforge context bundle`: artifacts in order."""

from __future__ import annotations

from typing import cast, get_args

import click

from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    add_object_command,
    idempotency_key_option,
    metadata_option,
    print_result,
    read_metadata,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.objects import BundleItem, Role
from traceforge.report.context_text import bundle_line, field_lines


@click.group(cls=SuggestingGroup)
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


add_list_command(
    bundle,
    Client.list_bundles,
    bundle_line,
    EmptyList("bundles", "create one with `traceforge context bundle create ROLE=ARTIFACT`"),
)
add_object_command(bundle, "show", Client.get_bundle, "BUNDLE", "Show a bundle.")
add_object_command(
    bundle, "delete", Client.delete_bundle, "BUNDLE", "Delete a bundle's id.\n\nSessions that use the bundle keep it."
)
