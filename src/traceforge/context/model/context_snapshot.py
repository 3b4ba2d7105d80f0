"""The context snapshot: the compiled, ordered input of one branch head.

In: bytes. Out: a context snapshot, or every reason why not. Never: holds content, a model or a runtime;
it pins which blocks a model will see, in which order, and by which rules they were put together.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from traceforge.ids import id_pattern
from traceforge.shape import DigestText, Timestamp, WholeNumber
from traceforge.shape.closed_format import ClosedFormat


def _opaque(prefix: str) -> Meta:
    return Meta(pattern=id_pattern(prefix), description=f"{prefix}_ and 26 characters of Crockford base32")


SnapshotId = Annotated[str, _opaque("snp")]
SessionId = Annotated[str, _opaque("ses")]
BranchId = Annotated[str, _opaque("br")]
BlockId = Annotated[str, _opaque("blk")]
CompilerRevision = Annotated[
    str, Meta(pattern=r"^pc_[1-9][0-9]*$(?!\n)", description="a compiler revision such as pc_1")
]


class ContextSnapshot(Struct, forbid_unknown_fields=True, frozen=True):
    """The content of a context snapshot's file."""

    id: SnapshotId
    object: Literal["snapshot"]
    session_id: SessionId
    branch_id: BranchId
    branch_version: WholeNumber
    prompt_compiler_revision: CompilerRevision
    ordered_block_manifest: list[BlockId]
    ordered_block_manifest_digest: DigestText
    created_at: Timestamp


_FORMAT = ClosedFormat(ContextSnapshot, rule="CS1", time="created_at")

read_context_snapshot = _FORMAT.read
write_context_snapshot = _FORMAT.write
check_context_snapshot = _FORMAT.check
