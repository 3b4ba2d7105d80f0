"""The context snapshot: the compiled, ordered input of one branch head (seed 004).

In: bytes. Out: a context snapshot, or every reason why not. Never: holds content, a model or a runtime;
it pins which blocks a model will see, in which order, and by which rules they were put together.
"""

from __future__ import annotations

from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta, Struct

from traceforge.canon import JSON, JSONObject, ecmascript_bytes, parse
from traceforge.errors import InvalidArtefact
from traceforge.findings import Finding
from traceforge.ids import id_pattern
from traceforge.shape import DigestText, Timestamp, Whole, problems, time_problems

RULE = "CS1"


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
    """One pinned input."""

    id: SnapshotId
    object: Literal["snapshot"]
    session_id: SessionId
    branch_id: BranchId
    branch_version: Whole
    prompt_compiler_revision: CompilerRevision
    ordered_block_manifest: list[BlockId]
    ordered_block_manifest_digest: DigestText
    created_at: Timestamp


def read_context_snapshot(data: bytes) -> ContextSnapshot:
    """Read a context snapshot.

    Raises:
        NotJSON: it is not JSON.
        InvalidArtefact: it breaks a rule; the error holds every finding.
    """
    value = parse(data)
    found = check_context_snapshot(value)
    if found:
        raise InvalidArtefact(tuple(found))
    return msgspec.convert(value, ContextSnapshot)


def write_context_snapshot(snapshot: ContextSnapshot) -> bytes:
    """Write a context snapshot in the seed's key order."""
    return ecmascript_bytes(cast("JSONObject", msgspec.to_builtins(snapshot)), indent=2) + b"\n"


def check_context_snapshot(value: JSON, file: str = "") -> list[Finding]:
    """Find everything that is wrong with a parsed context snapshot."""
    found = problems(value, ContextSnapshot)
    if isinstance(value, dict):
        found += time_problems(value.get("created_at"), "$.created_at")
    return [Finding(file, problem.path, RULE, problem.message) for problem in found]
