"""Merges: bring the events of one branch, or a summary of them, into another branch.

In: a source, a target and the head of the target that the caller has seen. Out: the appended events. Never: changes
the source; moves the head of the target other than by one compare-and-swap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import select

from traceforge.context.history.artifacts import create_artifact
from traceforge.context.history.branch_paths import (
    BranchState,
    Path,
    branch_path,
    clip_path,
    common_version,
    event_rows,
)
from traceforge.context.history.branches import insert_fork, load_branch_row, to_branch
from traceforge.context.history.events import (
    PackedEvent,
    append_packed_events,
    check_head,
    decrypt_event,
    pack_event,
    pack_reference,
    read_branch_for_append,
)
from traceforge.context.model.content import join_metadata, pack_metadata, unpack
from traceforge.context.model.inputs import Merge, NewArtifact, NewEvent
from traceforge.context.model.objects import ArtifactType, Content, EventType, Merged, MergeStrategy, Metadata
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import artifacts, events
from traceforge.errors import ContentPurged, InvalidFields, StoreRefused


class ModelSummary(NamedTuple):
    """A summary that a model wrote: its text, the last event it covers, and the response that wrote it."""

    content: Content
    head_event_id: str
    provenance: Metadata


def merge_branch(
    tx: StoreTransaction, session_id: str, branch_id: str, body: Merge, model_summary: ModelSummary | None = None
) -> Merged:
    """Merge a branch into this one; `model_summary` is the summary of a `compact` whose body has none.

    Raises:
        BranchConflict: the target has moved on. Nothing was written.
        StoreRefused: a branch does not exist, the session is archived, a branch is merged into itself, or the body
            has a field that its strategy does not take.
        ContentPurged: an event that would be appended again was purged.
    """
    strategy = MergeStrategy(body.strategy)
    if strategy in (MergeStrategy.COMPACT, MergeStrategy.FORK):
        tx.lock_inserts()
    target = read_branch_for_append(tx, session_id, branch_id)
    source = load_branch_row(tx, session_id, body.source_branch_id, "source_branch_id")
    check_merge(body, branch_id, has_model_summary=model_summary is not None)
    check_head(target, body.expected_version, body.expected_head_event_id)
    target_path, source_path = branch_path(tx, target), branch_path(tx, source)
    common = common_version(target_path, source_path)
    ancestor = _event_at(tx, target_path, common)
    if strategy is MergeStrategy.CHECKPOINT:
        appended_to, packed_events = target, [_checkpoint(tx, source, common)]
    elif strategy is MergeStrategy.COMPACT:
        appended_to, packed_events = target, [_compact(tx, source, body, ancestor, model_summary)]
    else:
        appended_to = target
        packed_events = [_repack(tx, row) for row in event_rows(tx, clip_path(source_path, common, source.version))]
        if strategy is MergeStrategy.FORK:
            appended_to = _fork_target(tx, session_id, target, body.label)
    appended = append_packed_events(tx, appended_to, packed_events) if packed_events else []
    return Merged(
        strategy=strategy,
        branch=to_branch(tx, load_branch_row(tx, session_id, appended_to.id)),
        source_branch_id=source.id,
        source_head_event_id=model_summary.head_event_id if model_summary else source.head_event_id,
        common_ancestor_event_id=ancestor,
        event_ids=[event.id for event in appended],
    )


def check_merge(body: Merge, branch_id: str, *, has_model_summary: bool) -> None:
    """Check that a merge has the fields that its strategy takes, and no others.

    Raises:
        StoreRefused: it has not.
    """
    strategy = MergeStrategy(body.strategy)
    if body.source_branch_id == branch_id:
        message = "a branch cannot be merged into itself"
        raise StoreRefused(message, reason="same_branch", status=409, param="source_branch_id")
    compacts = strategy is MergeStrategy.COMPACT
    if compacts and body.summary is not None and body.model is not None:
        message = "give either `summary`, or the `model` that writes it"
        raise InvalidFields([("summary", message), ("model", message)], reason="invalid_merge")
    if compacts and body.summary is None and not has_model_summary:
        raise _invalid_merge("compact needs `summary`, or the `model` that writes it", "summary")
    if not compacts and body.summary is not None:
        raise _invalid_merge(f"{strategy.value} takes no `summary`", "summary")
    if not compacts and body.model is not None:
        raise _invalid_merge(f"{strategy.value} takes no `model`", "model")
    if strategy is not MergeStrategy.FORK and body.label:
        raise _invalid_merge(f"{strategy.value} takes no `label`: it makes no branch", "label")


def _invalid_merge(message: str, param: str) -> StoreRefused:
    return StoreRefused(message, reason="invalid_merge", param=param)


def _event_at(tx: StoreTransaction, path: Path, sequence: int) -> str | None:
    """The id of the event with this sequence on a path."""
    for row in event_rows(tx, clip_path(path, sequence - 1, sequence), select(events.c.id)):
        return str(row.id)
    return None


def _checkpoint(tx: StoreTransaction, source: AnyRow, common: int) -> PackedEvent:
    """One event that refers to the head of the source. Its text depends on the number of events alone."""
    count = source.version - common
    text = f"Checkpoint: another branch went on from here with {count} event{'' if count == 1 else 's'}."
    body = NewEvent(event_type=EventType.CHECKPOINT, content=text, metadata=_provenance(source))
    return pack_event(tx, body)._replace(merged_from=_head(source))


def _compact(
    tx: StoreTransaction, source: AnyRow, body: Merge, ancestor: str | None, model_summary: ModelSummary | None
) -> PackedEvent:
    """The summary as an artifact, and one event that refers to it."""
    summary = body.summary if model_summary is None else model_summary.content
    assert summary is not None
    head = _head(source) if model_summary is None else model_summary.head_event_id
    origin = {
        **_provenance(source),
        "source_head_event_id": head,
        **(model_summary.provenance if model_summary else {}),
    }
    provenance = {**origin, "common_ancestor_event_id": ancestor, "model": body.model}
    artifact = create_artifact(
        tx, NewArtifact(artifact_type=ArtifactType.COMPACTION_SUMMARY, content=summary, metadata=provenance)
    )
    row = tx.load(artifacts, "artifact", artifact.id)
    return pack_reference(EventType.CHECKPOINT, row, origin)._replace(merged_from=head)


def _provenance(source: AnyRow) -> Metadata:
    return {"source_branch_id": source.id, "source_head_event_id": source.head_event_id}


def _head(source: AnyRow) -> str:
    if source.head_event_id is None:
        raise _invalid_merge("the source branch has no events", "source_branch_id")
    head: str = source.head_event_id
    return head


def _repack(tx: StoreTransaction, row: AnyRow) -> PackedEvent:
    """A stored event, packed again to be appended to another branch."""
    if row.purged_by is not None:
        raise ContentPurged(row.id, row.purged_by)
    metadata, data = decrypt_event(tx, row)
    content: Any = None if row.payload_ref is not None else unpack(row.kind, data)
    return PackedEvent(
        EventType(row.event_type),
        row.role,
        row.kind,
        row.content_digest,
        row.payload_ref,
        content,
        join_metadata(pack_metadata(metadata), data),
        metadata,
        rebased_from=row.id,
        merged_from=row.merged_from,
    )


def _fork_target(tx: StoreTransaction, session_id: str, target: BranchState, label: str) -> BranchState:
    """A new branch at the head of the target."""
    fork = insert_fork(tx, target, target.version, target.head_event_id, label)
    return read_branch_for_append(tx, session_id, fork.id)
