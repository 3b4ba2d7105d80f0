"""`traceforge context api-key`: the keys of `traceforge serve --auth required`."""

from __future__ import annotations

from typing import cast

import click

from traceforge.cli.context.context_options import (
    EmptyList,
    add_object_command,
    after_option,
    limit_option,
    print_page,
    print_result,
    with_client,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.context.model.inputs import Scope
from traceforge.report.context_text import api_key_line, field_lines

_NO_KEYS = EmptyList("API keys", "create one with `traceforge context api-key create --scope admin`")


@click.group(cls=SuggestingGroup)
def api_key() -> None:
    """Create, list and delete the API keys of a server."""


@api_key.command()
@click.option("--scope", "scopes", type=click.Choice(["read", "write", "admin"]), multiple=True, required=True,
              help="Allow this; write includes read, and admin includes both. Repeatable.")  # fmt: skip
@click.option("--label", default="", help="Label the key with what it is for.")
@with_client_of_new_store
def create(client: Client, scopes: tuple[str, ...], label: str, as_json: bool) -> None:
    """Create an API key for the project.

    The key is printed once: the store keeps only its hash.
    """
    api_key = client.create_api_key(scopes=cast("list[Scope]", list(dict.fromkeys(scopes))), label=label)
    print_result(api_key, field_lines, as_json)


@api_key.command("list")
@limit_option
@after_option
@with_client
def list_keys(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List the API keys of the project, without the secrets."""
    print_page(client.list_api_keys(limit=limit, after=after), api_key_line, as_json, _NO_KEYS)


add_object_command(api_key, "delete", Client.delete_api_key, "KEY", "Revoke an API key at once.\n\nKEY is its id.")
