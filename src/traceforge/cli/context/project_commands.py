"""`traceforge context project`: the tenants of a store."""

from __future__ import annotations

import click

from traceforge.cli.context.context_options import (
    after_option,
    idempotency_key_option,
    limit_option,
    print_page,
    print_result,
    with_client,
    with_client_of_new_store,
)
from traceforge.context.api.store_client import Client
from traceforge.report.context_text import field_lines, project_line


@click.group()
def project() -> None:
    """Create and list projects: the tenants of a store.

    Everything else belongs to one project and sees nothing of the others.
    """


@project.command()
@click.argument("name", metavar="NAME")
@idempotency_key_option
@with_client_of_new_store
def create(client: Client, name: str, idempotency_key: str | None, as_json: bool) -> None:
    """Create a project."""
    print_result(client.create_project(name=name, idempotency_key=idempotency_key), field_lines, as_json)


@project.command("list")
@limit_option
@after_option
@with_client
def list_projects(client: Client, limit: int, after: str | None, as_json: bool) -> None:
    """List projects, oldest first."""
    print_page(client.list_projects(limit=limit, after=after), project_line, as_json)
