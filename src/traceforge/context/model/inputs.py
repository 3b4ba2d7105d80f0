"""The bodies of requests to the context store, one type each.

Every type refuses unknown fields. None has a default for a choice that changes the prompt.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.context.model.context_snapshot import BranchId, CompilerRevision, SessionId, SnapshotId
from traceforge.context.model.objects import (
    AliasName,
    ArtifactId,
    ArtifactType,
    BundleId,
    BundleItem,
    Content,
    Count,
    EventId,
    EventType,
    MergeStrategy,
    Metadata,
    ProjectId,
    Provider,
    RendererRevision,
    RetentionClass,
    Target,
)
from traceforge.ids import id_pattern

# PostgreSQL cannot store a NUL in a text.
_NO_NUL = r"^[^\u0000]*$(?!\n)"
Label = Annotated[str, Meta(max_length=200, pattern=_NO_NUL, description="a text without NUL")]
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=_NO_NUL, description="a text without NUL")]
MediaType = Annotated[
    str, Meta(max_length=200, pattern=r"^[\x21-\x7e]+/[\x20-\x7e]+$(?!\n)", description="a type such as text/plain")
]
Base64 = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\n)",
        description="base64, with its padding",
    ),
]
PurgeTarget = Annotated[
    str, Meta(pattern=id_pattern("(?:art|evt|ses)"), description="the id of an artifact, an event or a session")
]
ModelName = Annotated[str, Meta(min_length=1, max_length=300, pattern=_NO_NUL, description="a text without NUL")]
Scope = Literal["read", "write", "admin"]


class _Body(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A body refuses unknown fields."""


class NewProject(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /projects."""

    name: Name


class NewApiKey(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /api-keys."""

    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=3)]
    label: Label = ""
    project_id: ProjectId | None = None  # None: the caller's own.


class NewArtifact(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """POST /artifacts: `content` is a text or JSON; `content_base64` is bytes. Exactly one of them."""

    artifact_type: ArtifactType
    content: Content | UnsetType = UNSET
    content_base64: Base64 | UnsetType = UNSET
    content_media_type: MediaType | UnsetType = UNSET
    retention_class: RetentionClass = RetentionClass.STANDARD
    metadata: Metadata = {}


class NewBundle(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /bundles."""

    items: Annotated[list[BundleItem], Meta(max_length=10_000)]
    metadata: Metadata = {}


class NewSession(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """POST /sessions: makes its first branch too."""

    base_bundle_ids: Annotated[list[BundleId], Meta(max_length=1000)] = []
    metadata: Metadata = {}


class SessionChange(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """PATCH /sessions/{id}: what is not named stays as it is."""

    metadata: Metadata | UnsetType = UNSET
    status: Literal["active", "archived"] | UnsetType = UNSET


class NewBranch(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /sessions/{id}/branches: a fork."""

    fork_from_branch_id: BranchId
    fork_from_event_id: EventId | None = None  # None: at the head.
    label: Label = ""


class BranchChange(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """PATCH /sessions/{id}/branches/{id}: never moves the head."""

    label: Label | UnsetType = UNSET


class NewEvent(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What is appended: by reference or inline, exactly one of them."""

    event_type: EventType
    payload_ref: ArtifactId | None = None
    content: Content | None = None
    metadata: Metadata = {}


class Append(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /sessions/{id}/branches/{id}/events."""

    expected_version: Count
    expected_head_event_id: EventId | None
    event: NewEvent


class Merge(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """POST /sessions/{id}/branches/{id}/merges: the branch in the path is the target."""

    source_branch_id: BranchId
    strategy: MergeStrategy
    expected_version: Count
    expected_head_event_id: EventId | None
    summary: Content | None = None  # `compact`: the summary. None: `model` writes it.
    model: ModelName | None = None  # `compact`: an alias, a release id or provider/model.
    label: Label = ""  # `fork`: of the new branch.


class NewSnapshot(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /sessions/{id}/branches/{id}/snapshots."""

    prompt_compiler_revision: CompilerRevision | None = None


class SnapshotRendering(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The query of GET /snapshots/{id}/render."""

    provider: Provider
    model: ModelName = "MODEL"
    renderer_revision: RendererRevision | None = None


class NewResponse(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """POST /responses: by session, branch and input, or by a snapshot."""

    model: ModelName
    snapshot_id: SnapshotId | None = None
    session_id: SessionId | None = None
    branch_id: BranchId | None = None  # None: the default branch.
    input: Content | None = None  # Appended as a user message first. None: the branch as it stands.
    expected_version: Count | UnsetType = UNSET  # Where it is not given, the branch as it is found.
    expected_head_event_id: EventId | UnsetType | None = UNSET
    prompt_compiler_revision: CompilerRevision | None = None
    params: dict[str, Any] = {}
    stream: bool = False


class NewAlias(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /model-aliases."""

    name: AliasName
    targets: Annotated[list[Target], Meta(min_length=1, max_length=100)]


class NewRelease(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The body of POST /model-aliases/{name}/releases."""

    targets: Annotated[list[Target], Meta(min_length=1, max_length=100)]


class NewReplayRun(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """POST /replay-runs: pinned snapshots, or every response of a session."""

    candidate: ModelName  # An alias, a release id or provider/model.
    baseline: ModelName
    snapshot_ids: Annotated[list[SnapshotId], Meta(max_length=10_000)] = []
    session_id: SessionId | None = None  # Instead of snapshots: the whole session, labelled a trajectory.
    fresh_baseline: bool = True
    concurrency: Annotated[int, Meta(ge=1, le=256)] = 8


class NewPurge(_Body, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """POST /purge-jobs: ids of sessions, events or artifacts."""

    targets: Annotated[list[PurgeTarget], Meta(min_length=1, max_length=1000)]
    reason: Annotated[str, Meta(max_length=1000, pattern=_NO_NUL, description="a text without NUL")] = ""
