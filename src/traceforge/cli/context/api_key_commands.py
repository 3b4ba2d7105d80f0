"""`traceforge context key`: the keys of `traceforge serve --auth required`."""

from __future__ import annotations

from typing import cast

import click

from traceforge.cli.context.context_options import after_option, limit_option, on_store, show, show_page
from traceforge.context.api.store_client import Client
from traceforge.context.model.inputs import Scope
from traceforge.report.context_text import fields, key_line


@click.group()
def key() -> None:
    """Keys: who may ask a server, and for what."""


@key.command()
@click.option("--scope", "scopes", type=click.Choice(["read", "write", "admin"]), multiple=True, required=True,
              help="What it allows; write allows read, and admin both.")  # fmt: skip
@click.option("--label", default="", help="What it is for.")
@on_store
def create(client: Client, scopes: tuple[str, ...], label: str, as_json: bool) -> None:
    """Make a key for the project. It is shown this once: what is kept is its hash."""
    made = client.create_api_key(scopes=cast("list[Scope]", list(dict.fromkeys(scopes))), label=label)
    show(made, fields, as_json)


@key.command("list")
@limit_option
@after_option
@on_store
def list_keys(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List the keys of the project, without what they are."""
    show_page(client.list_api_keys(limit=limit, after=after), key_line, as_json)


@key.command()
@click.argument("key_id", metavar="KEY")
@on_store
def delete(client: Client, key_id: str, as_json: bool) -> None:
    """Revoke a key, from now on. KEY is its id."""
    show(client.delete_api_key(key_id), fields, as_json)
