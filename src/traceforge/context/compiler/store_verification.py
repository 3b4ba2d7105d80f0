"""Verifies the history of a project in the database, and its snapshots.

In: a project. Out: the number of checked objects, and every problem. Never: repairs; never trusts stored states:
contents are decrypted and hashed, snapshots are compiled from the beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

from sqlalchemy import select

from traceforge.canon import JSON
from traceforge.context.compiler import branch_compilation
from traceforge.context.compiler.branch_compilation import fold_from
from traceforge.context.compiler.compiler_revisions import find_compiler
from traceforge.context.compiler.pinned_snapshots import verify_snapshot
from traceforge.context.history.artifacts import open_artifact
from traceforge.context.history.branch_paths import Path, branch_path, clip_path, event_rows, is_on_path
from traceforge.context.history.bundles import get_bundle
from traceforge.context.history.events import decrypt_event
from traceforge.context.history.sessions import open_metadata
from traceforge.context.model.block_source import content_digest, event_role, kind_of
from traceforge.context.model.content import unpack
from traceforge.context.model.objects import EventType
from traceforge.context.model.verification_objects import StoreCheck, StoreProblem
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import (
    artifacts,
    branches,
    bundles,
    events,
    pages,
    prefixes,
    sessions,
    snapshots,
)
from traceforge.errors import ContentPurged, TraceForgeError


def verify_history(tx: StoreTransaction) -> StoreCheck:
    """Check every artifact, bundle, session, branch, event and snapshot of this project."""
    checked: Counter[str] = Counter()
    problems: list[StoreProblem] = []
    checks = (
        ("artifact", artifacts, _check_artifact),
        ("bundle", bundles, _check_bundle),
        ("session", sessions, _check_session),
        ("branch", branches, _check_branch),
        ("event", events, _check_event),
        ("snapshot", snapshots, _check_snapshot),
    )
    for kind, table, check in checks:
        checked[kind] = 0
        for row in tx.fetch_all(select(table.c.id).where(table.c.project_id == tx.project_id)):
            checked[kind] += 1
            full_row = tx.find(table, row.id)
            assert full_row is not None
            try:
                problems += [StoreProblem(id=row.id, message=message) for message in check(tx, full_row)]
            except TraceForgeError as exc:
                problems.append(StoreProblem(id=row.id, message=exc.message))
    return StoreCheck(valid=not problems, checked=dict(checked), problems=problems)


def _check_artifact(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    if row.purged_by is not None:
        yield from _check_emptied(row)
        return
    content, _ = open_artifact(tx, row)
    if content_digest(cast("JSON | bytes", content)) != row.content_digest:
        yield "its content does not match its digest"
    if kind_of(row.artifact_type, cast("JSON | bytes", content)) != row.kind:
        yield "its kind does not match its content"


def _check_bundle(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    if row.purged_by is not None:
        yield from _check_emptied(row)
    elif row.deleted_at is None:
        get_bundle(tx, row.id)


def _check_session(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    if row.purged_by is not None:
        yield from _check_emptied(row)
    else:
        open_metadata(tx, row)
    first = tx.find(branches, row.default_branch_id)
    if first is None or first.session_id != row.id or first.parent_branch_id is not None:
        yield f"its default branch {row.default_branch_id} is not its first branch"


def _check_branch(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    """No gap in the sequence, one causal parent each, and the head is the last event."""
    tx.sealer.open_text("branches", row)
    path = branch_path(tx, row)
    last_id, last = None, 0
    places = select(events.c.id, events.c.sequence, events.c.parent_event_id, events.c.session_id)
    for event in event_rows(tx, path, places):
        if event.sequence != last + 1:
            yield f"after sequence {last} comes {event.sequence}"
        if event.parent_event_id != last_id:
            yield f"the parent of {event.id} is {event.parent_event_id} and not {last_id}"
        if event.session_id != row.session_id:
            yield f"{event.id} is of another session"
        last_id, last = event.id, event.sequence
    if (last, last_id) != (row.version, row.head_event_id):
        yield f"its head is {row.head_event_id} at version {row.version}, and its last event {last_id} at {last}"
    beyond = select(events.c.id).where(events.c.branch_id == row.id)
    for event in tx.fetch_all(beyond.where((events.c.sequence > row.version) | (events.c.sequence <= row.forked_at))):
        yield f"{event.id} is not on its path"
    yield from _check_fork(tx, row)
    yield from _check_compiled(tx, row)


def _check_fork(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    if row.parent_branch_id is None:
        if row.forked_at:
            yield "it inherits events and has no parent"
        return
    parent = tx.find(branches, row.parent_branch_id)
    if parent is None or parent.session_id != row.session_id:
        yield f"its parent {row.parent_branch_id} is not a branch of its session"
        return
    at = tx.find(events, row.forked_from_event_id) if row.forked_from_event_id else None
    if at is None:
        if row.forked_at:
            yield f"the event it was forked at, {row.forked_from_event_id}, is not there"
    elif at.sequence != row.forked_at or not is_on_path(branch_path(tx, parent), at.branch_id, at.sequence):
        yield f"the event it was forked at, {at.id}, is not on the path of its parent"


def _check_compiled(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    """The stored states and pages match the events they derive from."""
    path = branch_path(tx, row)
    states = tx.fetch_all(select(prefixes).where(prefixes.c.branch_id == row.id).order_by(prefixes.c.sequence))
    for revision in sorted({state.revision for state in states}):
        yield from _check_states(
            tx, row.session_id, path, revision, [state for state in states if state.revision == revision]
        )
    for page in tx.fetch_all(select(pages).where(pages.c.branch_id == row.id)):
        own = clip_path(
            path, page.page * branch_compilation.PAGE_EVENTS, (page.page + 1) * branch_compilation.PAGE_EVENTS
        )
        if page.block_ids.split() != [event.block_id for event in event_rows(tx, own, select(events.c.block_id))]:
            yield f"page {page.page} of its block ids is another one"


def _check_states(
    tx: StoreTransaction, session_id: str, path: Path, revision: str, states: list[AnyRow]
) -> Iterator[str]:
    """The stored states of one compiler match one compilation from the beginning."""
    compiler = find_compiler(revision)
    computed, upto = compiler.start(), None
    for state in states:
        try:
            computed = fold_from(tx, compiler, computed, session_id, path, upto, state.sequence)
        except ContentPurged:
            yield f"the state of {revision} at {state.sequence} outlived a purge"
            return
        upto = state.sequence
        if state.state != computed:
            yield f"the state of {revision} that was kept at {state.sequence} is another one"


def _check_event(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    if row.role != event_role(EventType(row.event_type)):
        yield "its role does not match its type"
    if row.purged_by is not None:
        yield from _check_emptied(row)
        return
    _, data = decrypt_event(tx, row)
    if row.payload_ref is None:
        content = cast("JSON | bytes", unpack(row.kind, data))
    else:
        artifact = tx.find(artifacts, row.payload_ref)
        if artifact is None:
            yield f"its artifact {row.payload_ref} is not there"
            return
        if artifact.purged_by is not None:
            yield f"its artifact {row.payload_ref} was purged, and it was not"
            return
        content = cast("JSON | bytes", open_artifact(tx, artifact)[0])
    if content_digest(content) != row.content_digest:
        yield "its content does not match its digest"
    if kind_of(row.event_type, content) != row.kind:
        yield "its kind does not match its content"


def _check_snapshot(tx: StoreTransaction, row: AnyRow) -> Iterator[str]:
    if row.purged_by is not None:
        return
    branch = tx.find(branches, row.branch_id)
    if branch is None or branch.session_id != row.session_id or branch.version < row.version:
        yield f"branch {row.branch_id} is not what it was compiled of"
        return
    head = [event.id for event in event_rows(tx, clip_path(branch_path(tx, branch), row.version - 1, row.version))]
    if head != ([row.head_event_id] if row.head_event_id else []):
        yield f"its head {row.head_event_id} is not at version {row.version}"
    result = verify_snapshot(tx, row.id)
    if not result.valid:
        yield f"recompiled, its digest is {result.recompiled_digest} and not {result.ordered_block_manifest_digest}"


def _check_emptied(row: AnyRow) -> Iterator[str]:
    if row.sealed is not None or row.wrapped_key is not None:
        yield "it was purged and still has content"
