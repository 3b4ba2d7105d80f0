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
    pack_reference,
    read_branch_for_append,
)
from traceforge.context.history.merge_transcript import open_events, write_transcript
from traceforge.context.history.unmerged_events import find_unmerged_events
from traceforge.context.model.content import join_metadata, pack_metadata, unpack
from traceforge.context.model.inputs import Merge, NewArtifact
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
        StoreRefused: a branch does not exist, the session is archived, a branch is merged into itself, the body has
            a field that its strategy does not take, or the target has every event of the source already.
        ContentPurged: an event that would be appended again, or as a part of a checkpoint, was purged.
    """
    strategy = MergeStrategy(body.strategy)
    if strategy is not MergeStrategy.REBASE:  # The others insert an artifact or a branch.
        tx.lock_inserts()
    target = read_branch_for_append(tx, session_id, branch_id)
    source = load_branch_row(tx, session_id, body.source_branch_id, "source_branch_id")
    check_merge(body, branch_id, has_model_summary=model_summary is not None)
    check_head(target, body.expected_version, body.expected_head_event_id)
    ancestor, unmerged = compare_branches(tx, target, source)
    if strategy is MergeStrategy.CHECKPOINT:
        packed_events = [_checkpoint(tx, source, unmerged, ancestor)]
    elif strategy is MergeStrategy.COMPACT:
        packed_events = [_compact(tx, source, body, ancestor, model_summary)]
    else:
        packed_events = [_repack(tx, row) for row in unmerged]
    is_fork = strategy is MergeStrategy.FORK
    appended_to = _fork_target(tx, session_id, target, body.label) if is_fork else target
    appended = append_packed_events(tx, appended_to, packed_events)
    return Merged(
        strategy=strategy,
        branch=to_branch(tx, load_branch_row(tx, session_id, appended_to.id)),
        source_branch_id=source.id,
        source_head_event_id=model_summary.head_event_id if model_summary else source.head_event_id,
        common_ancestor_event_id=ancestor,
        event_ids=[event.id for event in appended],
    )


class BranchComparison(NamedTuple):
    """What two branches have in common, and what one of them lacks."""

    ancestor_event_id: str | None
    unmerged: list[AnyRow]


def compare_branches(tx: StoreTransaction, target: BranchState, source: AnyRow) -> BranchComparison:
    """The last event that both branches share, and the source's events that the target does not have.

    Raises:
        StoreRefused: there are none.
    """
    target_path, source_path = branch_path(tx, target), branch_path(tx, source)
    common = common_version(target_path, source_path)
    unmerged = find_unmerged_events(tx, target_path, source_path, common)
    if not unmerged:
        message = f"nothing_to_merge: the target already has every event of branch {source.id}"
        if source.head_event_id is None:
            message = f"nothing_to_merge: the source branch {source.id} has no events"
        raise StoreRefused(message, reason="nothing_to_merge", status=409, param="source_branch_id")
    return BranchComparison(_event_at(tx, target_path, common), unmerged)


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


def _checkpoint(tx: StoreTransaction, source: AnyRow, unmerged: list[AnyRow], ancestor: str | None) -> PackedEvent:
    """The new events of the source as a text, and one event that refers to it."""
    transcript = write_transcript(open_events(tx, unmerged))
    provenance = {**_provenance(source), "common_ancestor_event_id": ancestor}
    return _pack_summary(tx, ArtifactType.CHECKPOINT, transcript, provenance, _provenance(source))


def _compact(
    tx: StoreTransaction, source: AnyRow, body: Merge, ancestor: str | None, model_summary: ModelSummary | None
) -> PackedEvent:
    """The summary as an artifact, and one event that refers to it."""
    summary = body.summary if model_summary is None else model_summary.content
    assert summary is not None
    origin = _provenance(source)
    if model_summary is not None:
        origin |= {"source_head_event_id": model_summary.head_event_id, **model_summary.provenance}
    provenance = {**origin, "common_ancestor_event_id": ancestor, "model": body.model}
    return _pack_summary(tx, ArtifactType.COMPACTION_SUMMARY, summary, provenance, origin)


def _pack_summary(
    tx: StoreTransaction, kind: ArtifactType, content: Content, provenance: Metadata, origin: Metadata
) -> PackedEvent:
    """An artifact with this content and provenance, and the event that refers to it."""
    artifact = create_artifact(tx, NewArtifact(artifact_type=kind, content=content, metadata=provenance))
    packed = pack_reference(EventType.CHECKPOINT, tx.load(artifacts, "artifact", artifact.id), origin)
    return packed._replace(merged_from=origin["source_head_event_id"])


def _provenance(source: AnyRow) -> Metadata:
    return {"source_branch_id": source.id, "source_head_event_id": source.head_event_id}


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
