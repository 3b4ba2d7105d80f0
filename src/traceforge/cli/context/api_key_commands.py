"""`traceforge context api-key`: the keys of `traceforge serve --auth required`."""

from __future__ import annotations

from typing import cast

import click

from traceforge.cli.context.context_options import after_option, limit_option, print_page, print_result, with_client
from traceforge.context.api.store_client import Client
from traceforge.context.model.inputs import Scope
from traceforge.report.context_text import api_key_line, field_lines


@click.group()
def api_key() -> None:
    """Keys: who may ask a server, and for what."""


@api_key.command()
@click.option("--scope", "scopes", type=click.Choice(["read", "write", "admin"]), multiple=True, required=True,
              help="What it allows; write allows read, and admin both.")  # fmt: skip
@click.option("--label", default="", help="What it is for.")
@with_client
def create(client: Client, scopes: tuple[str, ...], label: str, as_json: bool) -> None:
    """Make a key for the project. It is shown this once: what is kept is its hash."""
    api_key = client.create_api_key(scopes=cast("list[Scope]", list(dict.fromkeys(scopes))), label=label)
    print_result(api_key, field_lines, as_json)


@api_key.command("list")
@limit_option
@after_option
@with_client
def list_keys(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List the keys of the project, without what they are."""
    print_page(client.list_api_keys(limit=limit, after=after), api_key_line, as_json)


@api_key.command()
@click.argument("key_id", metavar="KEY")
@with_client
def delete(client: Client, key_id: str, as_json: bool) -> None:
    """Revoke a key, from now on. KEY is its id."""
    print_result(client.delete_api_key(key_id), field_lines, as_json)
