"""`traceforge context project`: the tenants of a store."""

from __future__ import annotations

import click

from traceforge.cli.context.context_options import (
    EmptyList,
    add_list_command,
    idempotency_key_option,
    print_result,
    with_client_of_new_store,
)
from traceforge.cli.lazy_group import SuggestingGroup
from traceforge.context.api.store_client import Client
from traceforge.report.context_text import field_lines, project_line


@click.group(cls=SuggestingGroup)
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


add_list_command(
    project,
    Client.list_projects,
    project_line,
    EmptyList("projects", "create one with `traceforge context project create NAME`"),
)
