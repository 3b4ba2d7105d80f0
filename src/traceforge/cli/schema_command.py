"""`traceforge schema`: the formats as JSON Schema."""

from __future__ import annotations

import click

from traceforge.cli.output import write_stdout
from traceforge.schemas import NAMES, load_schema


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
def schema(name: str | None) -> None:
    """Print the JSON Schema of a format; without NAME, list the formats.

    A schema says what a file looks like. Rules about hashes, order and uniqueness are the reader's alone:
    docs/reference/rules.md.
    """
    if name is None:
        click.echo("\n".join(NAMES))
        return
    if name not in NAMES:
        raise click.UsageError(f"There is no format {name!r}. Formats: {', '.join(NAMES)}.")
    write_stdout(load_schema(name))
