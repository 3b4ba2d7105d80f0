"""What the checks of the context store return.

A check never repairs. What could not be checked is a problem with a rule of its own (UNCHECKED_RULE): it is not
valid, and it is not known to be wrong.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from traceforge.context.model.context_snapshot import SnapshotId
from traceforge.context.model.objects import Count, DigestText, RendererRevision, ResponseId

OBJECT_RULE = "CS2"  # An object agrees with its digests and with the objects that it refers to.
RENDERING_RULE = "CS3"  # A response renders to the request that was sent.
UNCHECKED_RULE = "CS4"  # A response can be rendered again.


class Verification(Struct, kw_only=True, frozen=True):
    """Whether compiling a snapshot again gives the same digest."""

    object: Literal["verification"] = "verification"
    snapshot_id: SnapshotId
    valid: bool
    ordered_block_manifest_digest: DigestText  # As the snapshot states it.
    recompiled_digest: DigestText  # From compiling it again.


class StoreProblem(Struct, kw_only=True, frozen=True):
    """A stored object that broke a rule, or that could not be checked."""

    id: str
    rule: str = OBJECT_RULE
    message: str


class ResponseVerification(Struct, kw_only=True, frozen=True):
    """Whether rendering the snapshot of a response again gives the request that was sent."""

    object: Literal["response_verification"] = "response_verification"
    response_id: ResponseId
    valid: bool
    renderer_revision: RendererRevision | None
    request_digest: DigestText | None  # As the response states it.
    rendered_digest: DigestText | None  # From rendering it again.
    problems: list[StoreProblem]


class StoreCheck(Struct, kw_only=True, frozen=True):
    """How many objects of each kind were checked, and the problems."""

    object: Literal["store_verification"] = "store_verification"
    valid: bool  # Everything was checked, and there is no problem.
    checked: dict[str, Count]
    problems: list[StoreProblem]
