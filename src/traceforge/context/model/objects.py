"""The objects that the context store returns: one type for each.

In: nothing. Out: types, as they are written as JSON and named in the OpenAPI document. Never: a key, a ciphertext, or
a detail of how an engine stores its results, or purged content: reading that is an error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import DIGEST_PATTERN
from traceforge.clock import TIMESTAMP_PATTERN
from traceforge.context.model.context_snapshot import BlockId, BranchId, CompilerRevision, SessionId, SnapshotId
from traceforge.ids import id_pattern


def _opaque(prefix: str) -> Meta:
    return Meta(pattern=id_pattern(prefix), description=f"{prefix}_ and 26 characters of Crockford base32")


ProjectId = Annotated[str, _opaque("prj")]
ArtifactId = Annotated[str, _opaque("art")]
BundleId = Annotated[str, _opaque("bnd")]
EventId = Annotated[str, _opaque("evt")]
ReleaseId = Annotated[str, _opaque("alr")]
ResponseId = Annotated[str, _opaque("rsp")]
ReplayRunId = Annotated[str, _opaque("rpl")]
PurgeJobId = Annotated[str, _opaque("pjb")]
ReceiptId = Annotated[str, _opaque("pur")]
KeyId = Annotated[str, _opaque("key")]
DigestText = Annotated[str, Meta(pattern=DIGEST_PATTERN)]
Time = Annotated[str, Meta(pattern=TIMESTAMP_PATTERN)]
WHOLE_MAX = 2**53 - 1  # The largest integer that every JSON parser reads exactly.
Count = Annotated[int, Meta(ge=0, le=WHOLE_MAX)]
AliasName = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)", description="a name such as support-bot")
]
Metadata = dict[str, Any]  # Belongs to the caller; stored unchanged, and encrypted like content.
Content = str | list[Any] | dict[str, Any]  # A text, or parts in the format of any provider.
RendererRevision = Annotated[
    str, Meta(pattern=r"^rr_[1-9][0-9]*$(?!\n)", description="a renderer revision such as rr_1")
]
Provider = Literal["openai", "anthropic", "gemini", "ollama"]
Role = Literal["system", "developer", "user", "assistant", "tool"]

Item = TypeVar("Item")


class Page(Struct, Generic[Item], kw_only=True, frozen=True):
    """A page of a list, oldest first. For the next page, pass the last id as `after`."""

    object: Literal["list"] = "list"
    data: list[Item]
    has_more: bool


class ArtifactType(StrEnum):
    """What an artifact is for."""

    TEXT_CONTEXT = "text_context"
    TOOL_BUNDLE_SOURCE = "tool_bundle_source"
    RESPONSE_SCHEMA = "response_schema"
    DOCUMENT = "document"
    RETRIEVAL_CHUNK = "retrieval_chunk"
    POLICY = "policy"
    CHECKPOINT = "checkpoint"
    COMPACTION_SUMMARY = "compaction_summary"
    BINARY_ATTACHMENT = "binary_attachment"


class RetentionClass(StrEnum):
    """How long an artifact is kept: ephemeral content expires, the rest stays until it is purged."""

    EPHEMERAL = "ephemeral"
    STANDARD = "standard"
    EXTENDED = "extended"


class EventType(StrEnum):
    """The kind of an event."""

    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_RESULT = "tool_result"
    RETRIEVAL_RESULT = "retrieval_result"
    CHECKPOINT = "checkpoint"
    NOTE = "note"


class SessionStatus(StrEnum):
    """What may still be done with a context session."""

    ACTIVE = "active"
    ARCHIVED = "archived"  # Read, fork and compile; no append.
    TOMBSTONED = "tombstoned"  # Deleted or purged.


class MergeStrategy(StrEnum):
    """How the events of one branch are merged into another."""

    CHECKPOINT = "checkpoint"
    COMPACT = "compact"
    REBASE = "rebase"
    FORK = "fork"


class Progress(StrEnum):
    """The status of a response, a replay run or a purge job."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class Project(Struct, kw_only=True, frozen=True):
    """The tenant: every other object belongs to one."""

    id: ProjectId
    object: Literal["project"] = "project"
    name: str
    generation: Count  # Raised by every purge, so that a cache cannot return older content.
    created_at: Time


class ApiKey(Struct, kw_only=True, frozen=True):
    """An API key. `key` is set only in the response that created it."""

    id: KeyId
    object: Literal["api_key"] = "api_key"
    project_id: ProjectId
    scopes: list[Literal["read", "write", "admin"]]
    label: str
    created_at: Time
    key: str | None = None


class Artifact(Struct, kw_only=True, frozen=True):
    """Content that never changes. The content itself is fetched separately."""

    id: ArtifactId
    object: Literal["artifact"] = "artifact"
    artifact_type: ArtifactType
    content_media_type: str
    content_digest: DigestText
    size_bytes: Count
    retention_class: RetentionClass
    expires_at: Time | None  # When its content can no longer be read, and is purged; None: never.
    metadata: Metadata
    created_at: Time


class ArtifactContent(Struct, kw_only=True, frozen=True):
    """The content of an artifact. Either `content` (text or JSON) or `content_base64` (bytes) is set."""

    id: ArtifactId
    object: Literal["artifact_content"] = "artifact_content"
    content_media_type: str
    content: Content | UnsetType = UNSET
    content_base64: str | UnsetType = UNSET


class BundleItem(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One artifact of a bundle, and the role of its message."""

    artifact_id: ArtifactId
    role: Role


class Bundle(Struct, kw_only=True, frozen=True):
    """An ordered list of artifacts."""

    id: BundleId
    object: Literal["bundle"] = "bundle"
    items: list[BundleItem]
    metadata: Metadata
    created_at: Time


class Session(Struct, kw_only=True, frozen=True):
    """A context session: its base bundles and its branches."""

    id: SessionId
    object: Literal["session"] = "session"
    base_bundle_ids: list[BundleId]
    default_branch_id: BranchId
    status: SessionStatus
    metadata: Metadata
    created_at: Time


class Branch(Struct, kw_only=True, frozen=True):
    """A sequence of events. Its head moves by compare-and-swap only."""

    id: BranchId
    object: Literal["branch"] = "branch"
    session_id: SessionId
    parent_branch_id: BranchId | None
    forked_from_event_id: EventId | None
    head_event_id: EventId | None
    version: Count
    label: str
    created_at: Time


class Event(Struct, kw_only=True, frozen=True):
    """An event of a branch. It never changes."""

    id: EventId
    object: Literal["event"] = "event"
    session_id: SessionId
    branch_id: BranchId  # Where it was appended; a fork lists it too.
    parent_event_id: EventId | None
    sequence: Annotated[int, Meta(ge=1)]
    event_type: EventType
    payload_ref: ArtifactId | None
    content: Content | None
    content_digest: DigestText | None  # None: purged.
    block_id: BlockId
    rebased_from: EventId | None
    merged_from: EventId | None  # The head of the merged branch, for a checkpoint or a summary.
    metadata: Metadata
    created_at: Time
    purged_by: ReceiptId | None = None  # The receipt of the purge that removed its content and its metadata.


class Block(Struct, kw_only=True, frozen=True):
    """One part of the input of a model."""

    id: BlockId
    object: Literal["block"] = "block"
    role: Role
    kind: str  # The type of the artifact or event, with "+json" for JSON and "+binary" for bytes.
    content_digest: DigestText
    prefix_digest: DigestText  # Over this block and all before it: equal prefixes have equal digests.
    artifact_id: ArtifactId | None
    bundle_id: BundleId | None
    event_id: EventId | None


class Merged(Struct, kw_only=True, frozen=True):
    """The result of a merge. The source branch does not change."""

    object: Literal["merge"] = "merge"
    strategy: MergeStrategy
    branch: Branch  # The target after it; for `fork`, the new branch.
    source_branch_id: BranchId
    source_head_event_id: EventId | None
    common_ancestor_event_id: EventId | None  # The last event that both branches share, if any.
    event_ids: list[EventId]  # What was appended, in order.


class Snapshot(Struct, kw_only=True, frozen=True):
    """The compiled input of a model. `traceforge verify` checks the same object as a file."""

    id: SnapshotId
    object: Literal["snapshot"] = "snapshot"
    session_id: SessionId
    branch_id: BranchId
    branch_version: Count
    prompt_compiler_revision: CompilerRevision
    ordered_block_manifest: list[BlockId]
    ordered_block_manifest_digest: DigestText
    created_at: Time


class Rendering(Struct, kw_only=True, frozen=True):
    """A snapshot as the request to a provider, without parameters of a target or a caller."""

    object: Literal["rendering"] = "rendering"
    snapshot_id: SnapshotId
    provider: Provider
    model: str
    renderer_revision: RendererRevision
    path: str  # Below the address of the provider.
    body: dict[str, Any]
    request_digest: DigestText


_NO_NUL = r"^[^\u0000]*$(?!\n)"


class Target(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One model of a release, and its share of the calls."""

    provider: Provider
    model: Annotated[str, Meta(min_length=1, max_length=256, pattern=_NO_NUL)]
    revision: Annotated[str, Meta(pattern=_NO_NUL)] | None = None
    weight: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    params: dict[str, Any] = {}
    tokenizer_revision: Annotated[str, Meta(pattern=_NO_NUL)] | None = None  # None: not known.
    chat_template_revision: Annotated[str, Meta(pattern=_NO_NUL)] | None = None


class Release(Struct, kw_only=True, frozen=True):
    """The targets of an alias from one moment on. It never changes."""

    id: ReleaseId
    object: Literal["release"] = "release"
    alias: AliasName | None  # None: the release of a target that was named directly, as provider/model.
    targets: list[Target]
    created_at: Time


class Alias(Struct, kw_only=True, frozen=True):
    """A name that points to exactly one release."""

    object: Literal["model_alias"] = "model_alias"
    name: AliasName
    live_release_id: ReleaseId
    created_at: Time


class Usage(Struct, kw_only=True, frozen=True):
    """Tokens, as the provider counted them."""

    input_tokens: Count | None
    output_tokens: Count | None


class AppendConflict(Struct, kw_only=True, frozen=True):
    """The branch changed while the model answered, so the answer is only in the response, and on no branch."""

    current_version: Count
    current_head_event_id: EventId | None


class Failure(Struct, kw_only=True, frozen=True):
    """The error of a response without an answer."""

    code: str
    message: str


class Response(Struct, kw_only=True, frozen=True):
    """An answer, bound to everything that determined it. A response of an older version lacks some fields."""

    id: ResponseId
    object: Literal["response"] = "response"
    status: Progress
    session_id: SessionId
    branch_id: BranchId
    snapshot_id: SnapshotId
    alias_release_id: ReleaseId
    target: Target
    parameters: dict[str, Any]  # Of the call: those of the target, overridden by those of the request.
    parameters_digest: DigestText | None  # Of their canonical JSON.
    renderer_revision: RendererRevision | None
    request_digest: DigestText | None  # Of the request that the renderer gave.
    materialization_key: DigestText
    output: dict[str, Any] | None  # The assistant's message in the unified view.
    finish_reason: str | None
    usage: Usage | None
    trace_id: str | None
    event_id: EventId | None  # The assistant message on the branch, where it was appended.
    append_conflict: AppendConflict | None
    error: Failure | None
    created_at: Time
    completed_at: Time | None


class ResponseEvent(Struct, kw_only=True, frozen=True):
    """One event of a streamed response.

    `type` is response.created, then response.text.delta for each text, and finally response.completed,
    response.failed or response.canceled.
    """

    type: str
    delta: str = ""  # Of response.text.delta: the text.
    response: Response | None = None  # Of all other types: the response at that moment.


class ReplayRun(Struct, kw_only=True, frozen=True):
    """A comparison of a baseline and a candidate on the same snapshots."""

    id: ReplayRunId
    object: Literal["replay_run"] = "replay_run"
    status: Progress
    mode: Literal["single_turn", "trajectory"]
    baseline: ReleaseId
    candidate: ReleaseId
    snapshot_ids: list[SnapshotId]
    finished: Count
    total: Count
    evidence_digest: DigestText | None
    created_at: Time
    completed_at: Time | None


class ReplayReport(Struct, kw_only=True, frozen=True):
    """The result of a replay run. `evidence_digest` is the digest of the canonical JSON of `items`."""

    object: Literal["replay_report"] = "replay_report"
    replay_run_id: ReplayRunId
    mode: Literal["single_turn", "trajectory"]
    note: str  # How to read the numbers of this mode.
    baseline: Release
    candidate: Release
    summary: dict[str, Any]  # How many items, by verdict and by rule.
    items: list[dict[str, Any]]  # In order: each lane's answer, the differences, the verdict.
    evidence_digest: DigestText
    created_at: Time


class PurgeJob(Struct, kw_only=True, frozen=True):
    """A purge and its progress."""

    id: PurgeJobId
    object: Literal["purge_job"] = "purge_job"
    status: Progress
    targets: list[str]
    reason: str  # From the caller. It is kept, so it must not contain what is purged.
    receipt_id: ReceiptId | None  # Readable once the job is completed.
    error_code: str | None
    created_at: Time
    completed_at: Time | None


class Removed(Struct, kw_only=True, frozen=True):
    """How many objects of one kind were removed, and their ids if they have any."""

    kind: str
    count: Count
    ids: list[str]


class Receipt(Struct, kw_only=True, frozen=True):
    """What a purge removed, what it made unreadable, what it did not find, and the generation after it."""

    id: ReceiptId
    object: Literal["purge_receipt"] = "purge_receipt"
    purge_job_id: PurgeJobId
    project_id: ProjectId
    removed: list[Removed]
    invalidated: list[Removed]
    not_found: list[Removed] = []  # Traces that were not in the traces folder of the process that purged.
    generation: Count
    created_at: Time


class Deleted(Struct, kw_only=True, frozen=True):
    """The confirmation that an object was deleted."""

    id: str
    object: Literal["deleted"] = "deleted"
    deleted: Literal[True] = True
