"""The JSON Schemas that ship with the package. Made from the types by `make docs`; a test keeps them true."""

from __future__ import annotations

from importlib.resources import files

NAMES = (
    "approval",
    "context-snapshot",
    "execution-trace",
    "manifest",
    "modelio",
    "pack-ledger-entry",
    "pack-run",
    "snapshot",
    "trace",
)

# For editors: people write these files, and the reader accepts more, such as a variable where a number belongs.
EDITOR_NAMES = ("check",)


def load_schema(name: str) -> bytes:
    """The text of a schema; `name` is one of NAMES or EDITOR_NAMES."""
    assert name in NAMES or name in EDITOR_NAMES
    return files(__package__).joinpath(f"{name}.json").read_bytes()
