"""Detect the kind of a file.

In: a parsed JSON document. Out: its kind, by the fields that only this kind has. Never: judges whether it is valid: a
broken snapshot is still a snapshot.
"""

from __future__ import annotations

from enum import StrEnum

from traceforge.canon import JSON


class FileKind(StrEnum):
    """The kinds of files that `traceforge verify` can check."""

    SNAPSHOT = "snapshot"
    MANIFEST = "manifest"
    APPROVAL = "approval"
    TRACE = "trace"
    MODEL_IO = "modelio"
    PACK = "pack"
    CONTEXT_SNAPSHOT = "context-snapshot"
    EXECUTION_TRACE = "execution-trace"
    CHECK_FILE = "check-file"  # YAML: known by its folder


# A document is of the first kind all of whose fields it has.
_MARKS: tuple[tuple[FileKind, frozenset[str]], ...] = (
    (FileKind.MODEL_IO, frozenset({"model_io_schema_version"})),
    (FileKind.MANIFEST, frozenset({"snapshots", "created_at", "updated_at"})),
    (FileKind.SNAPSHOT, frozenset({"version", "snapshots"})),
    (FileKind.APPROVAL, frozenset({"approved_at", "changes"})),
    (FileKind.CONTEXT_SNAPSHOT, frozenset({"object", "ordered_block_manifest"})),
    (FileKind.EXECUTION_TRACE, frozenset({"trace_id", "inputs", "output"})),
    (FileKind.TRACE, frozenset({"schema_version", "endpoint", "request"})),
    (FileKind.TRACE, frozenset({"endpoint", "request", "response", "metadata"})),  # Of a time before versions.
    (FileKind.MODEL_IO, frozenset({"adapter_id", "interactions"})),
    (FileKind.SNAPSHOT, frozenset({"snapshots", "hash"})),
)


def find_kind(value: JSON) -> FileKind | None:
    """The kind of a document; None if unknown."""
    if not isinstance(value, dict):
        return None
    return next((kind for kind, marks in _MARKS if marks <= value.keys()), None)
