"""Context snapshots: the compiled input of a branch, pinned by its digest.

In: a branch and a compiler's revision. Out: a snapshot, its blocks, its verification. Never: content. A snapshot that
does not compile to its digest again is invalid.
"""

from __future__ import annotations

from sqlalchemy import insert

from traceforge.clock import now_text
from traceforge.context.compiler.branch_compilation import (
    block_origins,
    fold_path,
    path_version,
    read_block_ids,
    store_prefix,
)
from traceforge.context.compiler.compiler_revisions import Compiler, compile_sources, find_compiler
from traceforge.context.history.branch_paths import Path, branch_path
from traceforge.context.history.branches import load_branch, load_branch_row
from traceforge.context.model.inputs import NewSnapshot
from traceforge.context.model.objects import Block, Snapshot
from traceforge.context.model.verification_objects import Verification
from traceforge.context.storage.paging import Page, list_page, slice_page
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import snapshots
from traceforge.ids import new_id

_KIND = "snapshot"


def create_snapshot(tx: StoreTransaction, session_id: str, branch_id: str, body: NewSnapshot) -> Snapshot:
    """Compile a branch as it is now.

    Raises:
        StoreRefused: the branch or the revision does not exist.
        ContentPurged: an event or artifact of the branch was purged.
    """
    compiler = find_compiler(body.prompt_compiler_revision)
    tx.lock_inserts()  # A purge waits, too: either it sees this snapshot, or this sees what the purge left.
    branch = load_branch(tx, session_id, branch_id)
    path = branch_path(tx, branch)
    state, known_sequence = fold_path(tx, compiler, session_id, path)
    if known_sequence < path_version(path):
        store_prefix(tx, compiler, path, state)
    manifest = compiler.arrange(state, read_block_ids(tx, session_id, path, keep_pages=True))
    snapshot = Snapshot(
        id=new_id("snp"),
        session_id=session_id,
        branch_id=branch_id,
        branch_version=branch.version,
        prompt_compiler_revision=compiler.revision,
        ordered_block_manifest=manifest,
        ordered_block_manifest_digest=compiler.finish(state),
        created_at=now_text(),
    )
    row = {
        "id": snapshot.id,
        "project_id": tx.project_id,
        "session_id": session_id,
        "branch_id": branch_id,
        "version": branch.version,
        "head_event_id": branch.head_event_id,
        "revision": compiler.revision,
        "manifest_digest": snapshot.ordered_block_manifest_digest,
        "blocks": len(manifest),
        "created_at": snapshot.created_at,
    }
    tx.execute(_INSERT, [row])
    return snapshot


_INSERT = insert(snapshots)


def get_snapshot(tx: StoreTransaction, snapshot_id: str) -> Snapshot:
    """A snapshot by its id."""
    return _snapshot(tx, load_snapshot(tx, snapshot_id))


def load_snapshot(tx: StoreTransaction, snapshot_id: str, param: str | None = None) -> AnyRow:
    """The row of a snapshot, unless it was purged."""
    return tx.load(snapshots, _KIND, snapshot_id, param=param)


def list_snapshots(
    tx: StoreTransaction, session_id: str, branch_id: str, limit: int, after: str | None
) -> Page[Snapshot]:
    """The snapshots of a branch, oldest first."""
    load_branch(tx, session_id, branch_id)
    return list_page(
        tx,
        snapshots,
        (snapshots.c.branch_id == branch_id,),
        lambda rows: [_snapshot(tx, row) for row in rows],
        limit=limit,
        after=after,
        visible=(snapshots.c.purged_by.is_(None),),
    )


def list_blocks(tx: StoreTransaction, snapshot_id: str, limit: int, after: str | None) -> Page[Block]:
    """The blocks of a snapshot in the order of the prompt, each with the digest of the prefix that it ends."""
    blocks = read_blocks(tx, load_snapshot(tx, snapshot_id))
    return slice_page(blocks, [block.id for block in blocks], limit=limit, after=after)


def read_blocks(tx: StoreTransaction, row: AnyRow) -> list[Block]:
    """Every block of a snapshot."""
    origins = block_origins(tx, row.session_id, snapshot_path(tx, row))
    compiled = compile_sources([origin.source for origin in origins], row.revision)
    by_id = {origin.source.block_id: origin for origin in origins}
    return [
        Block(
            id=source.block_id,
            role=source.role,  # type: ignore[arg-type]  # one of the roles, as it was stored
            kind=source.kind,
            content_digest=source.content_digest,
            prefix_digest=prefix,
            artifact_id=by_id[source.block_id].artifact_id,
            bundle_id=by_id[source.block_id].bundle_id,
            event_id=by_id[source.block_id].event_id,
        )
        for source, prefix in zip(compiled.blocks, compiled.prefixes, strict=True)
    ]


def verify_snapshot(tx: StoreTransaction, snapshot_id: str) -> Verification:
    """Compile a snapshot again, from the beginning, and compare."""
    row = load_snapshot(tx, snapshot_id)
    sources = [origin.source for origin in block_origins(tx, row.session_id, snapshot_path(tx, row))]
    compiled = compile_sources(sources, row.revision)
    return Verification(
        snapshot_id=snapshot_id,
        valid=(compiled.digest, len(sources)) == (row.manifest_digest, row.blocks),
        ordered_block_manifest_digest=row.manifest_digest,
        recompiled_digest=compiled.digest,
    )


def snapshot_path(tx: StoreTransaction, row: AnyRow) -> Path:
    """The events that a snapshot was compiled from."""
    return branch_path(tx, load_branch_row(tx, row.session_id, row.branch_id), row.version)


def _snapshot(tx: StoreTransaction, row: AnyRow) -> Snapshot:
    compiler = find_compiler(row.revision)
    return Snapshot(
        id=row.id,
        session_id=row.session_id,
        branch_id=row.branch_id,
        branch_version=row.version,
        prompt_compiler_revision=row.revision,
        ordered_block_manifest=_manifest(tx, compiler, row),
        ordered_block_manifest_digest=row.manifest_digest,
        created_at=row.created_at,
    )


def _manifest(tx: StoreTransaction, compiler: Compiler, row: AnyRow) -> list[str]:
    path = snapshot_path(tx, row)
    ids = read_block_ids(tx, row.session_id, path)
    return compiler.arrange(fold_path(tx, compiler, row.session_id, path).state, ids)
