"""`traceforge trace`: traces of recorded calls."""

from __future__ import annotations

import click

from traceforge.cli.command_table import TRACE
from traceforge.cli.lazy_group import LazyGroup


class _TraceGroup(LazyGroup):
    table = TRACE


@click.group(cls=_TraceGroup)
def trace() -> None:
    """List, show, search, diff and prune traces."""
