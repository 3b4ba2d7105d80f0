"""A snapshot as the request that a provider would be sent."""

from __future__ import annotations

from typing import Any, cast

from traceforge.context.compiler.block_contents import open_snapshot
from traceforge.context.compiler.pinned_snapshots import load_snapshot
from traceforge.context.model.inputs import SnapshotRendering
from traceforge.context.model.objects import Rendering
from traceforge.context.responses.renderer_revisions import find_renderer
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.wire.endpoints import Dialect


def render_snapshot(tx: StoreTransaction, snapshot_id: str, wanted: SnapshotRendering) -> Rendering:
    """Render a snapshot for a provider; no model is called.

    Raises:
        StoreRefused: a block cannot be sent to the provider, or the renderer revision is unknown.
        ContentPurged: content of the snapshot was purged.
    """
    renderer = find_renderer(wanted.renderer_revision)
    dialect = Dialect(wanted.provider)
    prompt = renderer.render(open_snapshot(tx, load_snapshot(tx, snapshot_id)), dialect)
    request = renderer.encode(prompt, dialect, wanted.model)
    return Rendering(
        snapshot_id=snapshot_id,
        provider=wanted.provider,
        model=wanted.model,
        renderer_revision=renderer.revision,
        path=request.path,
        body=cast("dict[str, Any]", request.body),
        request_digest=request.digest,
    )
