"""`traceforge hash`: name a file by its content."""

from __future__ import annotations

import click

from traceforge.canon import canonical_text, digest_bytes, ecmascript_bytes, parse
from traceforge.files import read_file


@click.command("hash")
@click.argument("file", metavar="FILE")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["snapshot", "modelio", "canonical", "ecmascript"]),
    default="canonical",
    show_default=True,
    help="Which hash: of a snapshot document, of a recording's core, or of the JSON text in one of the two orders.",
)
def hash_file(file: str, kind: str) -> None:
    """Print sha256:<hex> of a JSON file, free of white space and notation.

    A snapshot's hash is computed from its records' content, whatever hashes the file states.
    """
    if kind == "modelio":
        from traceforge.cli.modelio import print_session_hash

        print_session_hash(file)
        return
    data = read_file(file)
    if kind == "snapshot":
        from traceforge.snapshots.format import computed_hash

        click.echo(computed_hash(data))
    elif kind == "ecmascript":
        click.echo(digest_bytes(ecmascript_bytes(parse(data), owned=True)))
    else:
        click.echo(digest_bytes(canonical_text(data)))
