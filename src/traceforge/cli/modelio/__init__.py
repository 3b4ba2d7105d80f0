"""`traceforge modelio`: recordings for deterministic replay."""

from __future__ import annotations

import click

from traceforge.cli.command_table import MODELIO
from traceforge.cli.lazy_group import LazyGroup


class _ModelIOGroup(LazyGroup):
    table = MODELIO


@click.group(cls=_ModelIOGroup)
def modelio() -> None:
    """Record, verify, show and diff Model IO recordings."""
