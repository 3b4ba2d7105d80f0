"""`traceforge context`: the context store. One module for each group of commands."""

from __future__ import annotations

import click

from traceforge.cli.command_table import CONTEXT
from traceforge.cli.lazy_group import LazyGroup
from traceforge.errors import MissingExtra


class _ContextGroup(LazyGroup):
    table = CONTEXT

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return super().get_command(ctx, cmd_name)
        except ModuleNotFoundError as exc:
            raise MissingExtra(f"the context store cannot run here: {exc.name} is not installed", "context") from None


@click.group(cls=_ContextGroup)
def context() -> None:
    """Manage sessions, branches and pinned input in a context store.

    The commands work on a database, by default .ai-tests/context.db in the project. To work on a server, give its
    http://… address as --db and its key in TRACEFORGE_CONTEXT_API_KEY.
    """
