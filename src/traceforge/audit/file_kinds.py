"""Which kind of artefact is this?

In: a parsed JSON document. Out: its kind, by the fields that only this kind has. Never: judges
whether it is valid: a broken snapshot is still a snapshot.
"""

from __future__ import annotations

from enum import StrEnum

from traceforge.canon import JSON


class Kind(StrEnum):
    """Everything `traceforge verify` can check."""

    SNAPSHOT = "snapshot"
    MANIFEST = "manifest"
    APPROVAL = "approval"
    TRACE = "trace"
    MODEL_IO = "modelio"
    PACK = "pack"
    CONTEXT_SNAPSHOT = "context-snapshot"
    EXECUTION_TRACE = "execution-trace"


# The first line of which every name stands in the document decides.
_MARKS: tuple[tuple[Kind, frozenset[str]], ...] = (
    (Kind.MODEL_IO, frozenset({"model_io_schema_version"})),
    (Kind.MANIFEST, frozenset({"snapshots", "created_at", "updated_at"})),
    (Kind.SNAPSHOT, frozenset({"version", "snapshots"})),
    (Kind.APPROVAL, frozenset({"approved_at", "changes"})),
    (Kind.CONTEXT_SNAPSHOT, frozenset({"object", "ordered_block_manifest"})),
    (Kind.EXECUTION_TRACE, frozenset({"trace_id", "inputs", "output"})),
    (Kind.TRACE, frozenset({"schema_version", "endpoint", "request"})),
    (Kind.MODEL_IO, frozenset({"adapter_id", "interactions"})),
    (Kind.SNAPSHOT, frozenset({"snapshots", "hash"})),
)


def find_kind(value: JSON) -> Kind | None:
    """The kind of a document, or None if it is none of ours."""
    if not isinstance(value, dict):
        return None
    return next((kind for kind, marks in _MARKS if marks <= value.keys()), None)
