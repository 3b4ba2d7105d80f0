"""`traceforge hash`: name a file by its content."""

from __future__ import annotations

import click

from traceforge.canon import Digest, canonicalize, digest_bytes, ecmascript_bytes, parse_json
from traceforge.cli.modelio.recording_check_commands import print_session_hash
from traceforge.errors import InvalidFile, NotJSON
from traceforge.files import read_file
from traceforge.snapshots.formats.snapshot_format import computed_hash


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
        print_session_hash(file)
        return
    data = read_file(file)
    try:
        click.echo(_digest(data, kind))
    except (NotJSON, InvalidFile) as exc:
        raise exc.in_file(file) from None


def _digest(data: bytes, kind: str) -> Digest:
    if kind == "snapshot":
        return computed_hash(data)
    if kind == "ecmascript":
        return digest_bytes(ecmascript_bytes(parse_json(data), may_modify=True))
    return digest_bytes(canonicalize(data))
