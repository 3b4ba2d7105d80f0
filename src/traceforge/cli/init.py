"""`traceforge init`: a project that is ready to record."""

from __future__ import annotations

import click

from traceforge.cli.output import refuse_in_ci
from traceforge.config import current_folder


@click.command()
def init() -> None:
    """Prepare a project: a commented configuration, .gitignore, .gitattributes, a key.

    The key lets two requests be compared in what was redacted. What is there already is kept, and said. Inside a
    project, or a Git repository, its root is prepared.
    """
    from traceforge.prepare import prepare

    refuse_in_ci("init")
    for step in prepare(current_folder()):
        click.echo(step)
