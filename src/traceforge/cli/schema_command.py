"""`traceforge schema`: the formats as JSON Schema."""

from __future__ import annotations

import click

from traceforge.cli.output import write_stdout
from traceforge.schemas import EDITOR_NAMES, NAMES, load_schema
from traceforge.terminal import print_text


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
def schema(name: str | None) -> None:
    """Print the JSON Schema of a file format.

    Without NAME, list the formats. A schema describes the shape of a file; rules about hashes, order and uniqueness
    are checked by `traceforge verify` and explained by `traceforge help RULE`.
    """
    names = sorted((*NAMES, *EDITOR_NAMES))
    if name is None:
        print_text("\n".join(names))
        return
    if name not in names:
        raise click.UsageError(f"There is no format {name!r}. Formats: {', '.join(names)}.")
    write_stdout(load_schema(name))
