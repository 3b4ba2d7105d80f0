"""`traceforge init`: a project that is ready to record."""

from __future__ import annotations

import click

from traceforge.cli.output import refuse_in_ci
from traceforge.config import current_folder


@click.command()
def init() -> None:
    """Prepare this folder: a commented configuration, the .gitignore lines, and a key to compare redacted parts.

    What is there is left alone, and said.
    """
    from traceforge.prepare import prepare

    refuse_in_ci("init")
    for step in prepare(current_folder()):
        click.echo(step)
