"""`traceforge context project`: the tenants of a store."""

from __future__ import annotations

import click

from traceforge.cli.context.context_options import after_option, key_option, limit_option, on_store, show, show_page
from traceforge.context.api.store_client import Client
from traceforge.report.context_text import fields, project_line


@click.group(short_help="Projects: everything else belongs to one.")
def project() -> None:
    """Projects: everything else belongs to one, and sees nothing of the others."""


@project.command()
@click.argument("name", metavar="NAME")
@key_option
@on_store
def create(client: Client, name: str, idempotency_key: str | None, as_json: bool) -> None:
    """Make a project."""
    show(client.create_project(name=name, idempotency_key=idempotency_key), fields, as_json)


@project.command("list")
@limit_option
@after_option
@on_store
def list_projects(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List projects, the oldest first."""
    show_page(client.list_projects(limit=limit, after=after), project_line, as_json)
