"""`traceforge hash`: the digest of a JSON file."""

from __future__ import annotations

import click

from traceforge.canon import Digest, canonicalize, digest_bytes, ecmascript_bytes, parse_json
from traceforge.cli.modelio.recording_check_commands import print_session_hash
from traceforge.errors import InvalidFile, NotJSON
from traceforge.files import read_file
from traceforge.snapshots.formats.snapshot_format import computed_hash
from traceforge.terminal import print_text


@click.command("hash")
@click.argument("file", metavar="FILE")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["snapshot", "modelio", "canonical", "ecmascript"]),
    default="canonical",
    show_default=True,
    help="Choose the hash: of a snapshot file, of a recording's core, or of the JSON text in canonical (RFC "
    "8785) or ECMAScript key order.",
)
def hash_file(file: str, kind: str) -> None:
    """Print the digest of a JSON file; formatting is ignored.

    The digest is the SHA-256 of the canonical JSON text, and not of the bytes of the file. A snapshot's hash is
    computed from its records; the hashes that the file states are ignored.
    """
    if kind == "modelio":
        print_session_hash(file)
        return
    data = read_file(file)
    try:
        print_text(_digest(data, kind))
    except (NotJSON, InvalidFile) as exc:
        raise exc.in_file(file) from None


def _digest(data: bytes, kind: str) -> Digest:
    if kind == "snapshot":
        return computed_hash(data)
    if kind == "ecmascript":
        return digest_bytes(ecmascript_bytes(parse_json(data), may_modify=True))
    return digest_bytes(canonicalize(data))
