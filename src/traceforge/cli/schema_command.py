"""`traceforge schema`: the formats as JSON Schema."""

from __future__ import annotations

import click

from traceforge.cli.output import write_stdout
from traceforge.schemas import NAMES, load_schema
from traceforge.terminal import print_text


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
def schema(name: str | None) -> None:
    """Print the JSON Schema of a file format.

    Without NAME, list the formats. A schema describes the shape of a file; rules about hashes, order and uniqueness
    are checked by `traceforge verify` and explained by `traceforge help RULE`.
    """
    if name is None:
        print_text("\n".join(NAMES))
        return
    if name not in NAMES:
        raise click.UsageError(f"There is no format {name!r}. Formats: {', '.join(NAMES)}.")
    write_stdout(load_schema(name))
