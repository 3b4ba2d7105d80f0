"""Merges: the past of one branch comes into another, explicitly.

In: a source, a target and the head of the target that the caller has seen. Out: what was appended. Never: changes the
source; moves the target by anything but one compare-and-swap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import select

from traceforge.context.history.artifacts import create as create_artifact
from traceforge.context.history.branch_paths import Path, Standing, between, common_version, path_of, rows_on
from traceforge.context.history.branches import insert_fork, load_row, to_branch
from traceforge.context.history.events import Made, expect, open_event, prepare, put, refer, standing
from traceforge.context.model.content import join, pack_metadata, unpack
from traceforge.context.model.inputs import Merge, NewArtifact, NewEvent
from traceforge.context.model.objects import ArtifactType, Content, EventType, Merged, MergeStrategy, Metadata
from traceforge.context.storage.store_transaction import AnyRow, Tx
from traceforge.context.storage.tables import artifacts, events
from traceforge.errors import ContentPurged, InvalidFields, StoreRefused


class Summary(NamedTuple):
    """A summary that a model wrote: of the source up to which event, and where it came from."""

    content: Content
    head_event_id: str
    provenance: Metadata


def merge(tx: Tx, session_id: str, branch_id: str, body: Merge, written: Summary | None = None) -> Merged:
    """Merge a branch into this one; `written` is the summary of a `compact` whose body has none.

    Raises:
        BranchConflict: the target has moved on. Nothing was written.
        StoreRefused: there is no such branch, the session is archived, a branch is merged into itself, or the body
            says something that its strategy does not take.
        ContentPurged: an event that would be appended again was purged.
    """
    strategy = MergeStrategy(body.strategy)
    if strategy in (MergeStrategy.COMPACT, MergeStrategy.FORK):
        tx.begin_to_make()
    target = standing(tx, session_id, branch_id)
    source = load_row(tx, session_id, body.source_branch_id, "source_branch_id")
    check(body, branch_id, written=written is not None)
    expect(target, body.expected_version, body.expected_head_event_id)
    target_path, source_path = path_of(tx, target), path_of(tx, source)
    common = common_version(target_path, source_path)
    ancestor = _event_at(tx, target_path, common)
    if strategy is MergeStrategy.CHECKPOINT:
        put_on, made = target, [_checkpoint(tx, source, common)]
    elif strategy is MergeStrategy.COMPACT:
        put_on, made = target, [_compact(tx, source, body, ancestor, written)]
    else:
        put_on = target
        made = [_again(tx, row) for row in rows_on(tx, between(source_path, common, source.version))]
        if strategy is MergeStrategy.FORK:
            put_on = _forked(tx, session_id, target, body.label)
    appended = put(tx.driver, tx.sealer, tx.project_id, put_on, made) if made else []
    return Merged(
        strategy=strategy,
        branch=to_branch(load_row(tx, session_id, put_on.id)),
        source_branch_id=source.id,
        source_head_event_id=written.head_event_id if written else source.head_event_id,
        common_ancestor_event_id=ancestor,
        event_ids=[event.id for event in appended],
    )


def check(body: Merge, branch_id: str, *, written: bool) -> None:
    """A merge that says what its strategy takes, and nothing else.

    Raises:
        StoreRefused: it does not.
    """
    strategy = MergeStrategy(body.strategy)
    if body.source_branch_id == branch_id:
        told = "a branch is not merged into itself"
        raise StoreRefused(told, reason="same_branch", status=409, param="source_branch_id")
    compacts = strategy is MergeStrategy.COMPACT
    if compacts and body.summary is not None and body.model is not None:
        told = "compact takes a summary, or a model that writes it, and not both"
        raise InvalidFields([("summary", told), ("model", told)], reason="invalid_merge")
    if compacts and body.summary is None and not written:
        raise _refused("compact takes a summary, or a model that writes it", "summary")
    if not compacts and body.summary is not None:
        raise _refused(f"{strategy.value} takes no summary", "summary")
    if not compacts and body.model is not None:
        raise _refused(f"{strategy.value} asks no model", "model")
    if strategy is not MergeStrategy.FORK and body.label:
        raise _refused(f"{strategy.value} makes no branch that has a label", "label")


def _refused(message: str, param: str) -> StoreRefused:
    return StoreRefused(message, reason="invalid_merge", param=param)


def _event_at(tx: Tx, path: Path, sequence: int) -> str | None:
    """The id of the event with this sequence on a path."""
    for row in rows_on(tx, between(path, sequence - 1, sequence), select(events.c.id)):
        return str(row.id)
    return None


def _checkpoint(tx: Tx, source: AnyRow, common: int) -> Made:
    """One event that refers to the head of the source. It says how much happened there, and nothing that varies."""
    count = source.version - common
    text = f"Checkpoint: another branch went on from here with {count} event{'' if count == 1 else 's'}."
    body = NewEvent(event_type=EventType.CHECKPOINT, content=text, metadata=_provenance(source))
    return prepare(tx, body)._replace(merged_from=_head(source))


def _compact(tx: Tx, source: AnyRow, body: Merge, ancestor: str | None, written: Summary | None) -> Made:
    """The summary as an artifact, and one event that refers to it."""
    summary = body.summary if written is None else written.content
    assert summary is not None
    head = _head(source) if written is None else written.head_event_id
    origin = {**_provenance(source), "source_head_event_id": head, **(written.provenance if written else {})}
    provenance = {**origin, "common_ancestor_event_id": ancestor, "model": body.model}
    made = create_artifact(
        tx, NewArtifact(artifact_type=ArtifactType.COMPACTION_SUMMARY, content=summary, metadata=provenance)
    )
    row = tx.load(artifacts, "artifact", made.id)
    return refer(EventType.CHECKPOINT, row, origin)._replace(merged_from=head)


def _provenance(source: AnyRow) -> Metadata:
    return {"source_branch_id": source.id, "source_head_event_id": source.head_event_id}


def _head(source: AnyRow) -> str:
    if source.head_event_id is None:
        raise _refused("the source has no events", "source_branch_id")
    head: str = source.head_event_id
    return head


def _again(tx: Tx, row: AnyRow) -> Made:
    """The same event, to be appended somewhere else."""
    if row.purged_by is not None:
        raise ContentPurged(row.id, row.purged_by)
    metadata, data = open_event(tx, row)
    content: Any = None if row.payload_ref is not None else unpack(row.kind, data)
    return Made(
        EventType(row.event_type),
        row.role,
        row.kind,
        row.content_digest,
        row.payload_ref,
        content,
        join(pack_metadata(metadata), data),
        metadata,
        rebased_from=row.id,
        merged_from=row.merged_from,
    )


def _forked(tx: Tx, session_id: str, target: Standing, label: str) -> Standing:
    """A new branch at the head of the target."""
    made = insert_fork(tx, target, target.version, target.head_event_id, label)
    return standing(tx, session_id, made.id)
