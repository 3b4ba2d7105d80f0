"""`traceforge context`: the context store. One module for each group of commands."""

from __future__ import annotations

import click

from traceforge.cli.command_table import CONTEXT
from traceforge.cli.lazy_group import LazyGroup


class _ContextGroup(LazyGroup):
    table = CONTEXT


@click.group(cls=_ContextGroup)
def context() -> None:
    """Manage sessions, branches and pinned input in a context store.

    The commands work on a database, by default .ai-tests/context.db in the project; the first `create` makes it. To
    work on a server, pass its address to the command (traceforge context session list --db http://…) and its key in
    TRACEFORGE_CONTEXT_API_KEY.
    """
