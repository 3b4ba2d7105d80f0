"""Store rows and traces that a purge must remove, and a search for a text in every encoding in files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import insert

from support.operation_store import Store
from traceforge.canon import JSONObject, digest_text
from traceforge.clock import now_text
from traceforge.context.compiler.pinned_snapshots import get_snapshot, load_snapshot
from traceforge.context.model.cache_keys import materialization_key
from traceforge.context.model.inputs import NewPurge
from traceforge.context.model.objects import Progress, Receipt
from traceforge.context.responses.model_releases import resolve_release
from traceforge.context.responses.renderer_revisions import target_runtime
from traceforge.context.responses.response_generation import build_model_request
from traceforge.context.responses.stored_responses import ResponseEnd, ResponseStart, finish_response, insert_running
from traceforge.context.storage.sealed_tables import row_name
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.context.storage.tables import (
    idempotency,
    idempotency_subjects,
    releases,
    replay_items,
    replay_runs,
)
from traceforge.ids import new_id, new_uuid
from traceforge.traces.trace_format import write_trace
from traceforge.traces.trace_summary import StoredTrace, summarize_trace


def purge(store: Store, *targets: str) -> Receipt:
    """Purge and return the receipt."""
    job = store.create_purge_job(NewPurge(targets=list(targets)))
    assert "completed" == job.status
    return store.get_receipt(job.id)


def purged_ids(receipt: Receipt, kind: str) -> set[str]:
    """The ids of one kind in a receipt."""
    return {
        object_id for each in (*receipt.removed, *receipt.invalidated) if each.kind == kind for object_id in each.ids
    }


def insert_release(tx: StoreTransaction) -> str:
    """Insert a release without a name; returns its id."""
    release_id = new_id("alr")
    row = {"id": release_id, "project_id": tx.project_id, "created_at": now_text()}
    tx.execute(insert(releases), [row | tx.sealer.seal_text("releases", release_id, tx.lock_generation(), "[]")])
    return release_id


def insert_response(
    store: Store, snapshot_id: str, text: str, *, event_id: str | None = None, trace_id: str | None = None
) -> str:
    """Insert a completed response to a snapshot with the output `text`; no model is called."""

    def work(tx: StoreTransaction) -> str:
        snapshot = get_snapshot(tx, snapshot_id)
        release = resolve_release(tx, "openai/m")
        request = build_model_request(tx, load_snapshot(tx, snapshot_id), release, {})
        start = ResponseStart(
            id=new_id("rsp"), session_id=snapshot.session_id, branch_id=snapshot.branch_id, snapshot_id=snapshot_id,
            release_id=release.id, target=request.target, params={}, renderer_revision=request.renderer.revision,
            request_digest=request.encode().digest, input_event_id=None,
            materialization_key=materialization_key(snapshot, target_runtime(request.target, request.renderer)),
        )  # fmt: skip
        insert_running(tx, start)
        output: JSONObject = {"role": "assistant", "content": text}
        end = ResponseEnd(Progress.COMPLETED, output, "stop", trace_id=trace_id, event_id=event_id)
        assert finish_response(tx, start.id, end)
        return start.id

    return store.write(work)


def insert_replay_run(store: Store, text: str, *snapshot_ids: str) -> str:
    """Insert a completed replay run over snapshots, with `text` in its items and its report."""

    def work(tx: StoreTransaction) -> str:
        run_id, release_id, report = new_id("rpl"), insert_release(tx), json.dumps({"report": text}).encode()
        row = {
            "id": run_id, "project_id": tx.project_id, "status": "completed", "mode": "single_turn",
            "baseline": release_id, "candidate": release_id, "fresh_baseline": True, "concurrency": 1,
            "total": len(snapshot_ids), "evidence_digest": digest_text(text), "cancel_requested": False,
            "created_at": now_text(),
        }  # fmt: skip
        tx.execute(
            insert(replay_runs),
            [{**row, **tx.sealer.seal("replay_runs", run_id, tx.lock_generation(), report)._asdict()}],
        )
        for position, snapshot_id in enumerate(snapshot_ids):
            name = row_name(run_id, position)
            item = {"run_id": run_id, "position": position, "snapshot_id": snapshot_id, "status": "completed"}
            sealed = tx.sealer.seal("replay_items", name, tx.lock_generation(), report)
            tx.execute(insert(replay_items), [{**item, **sealed._asdict()}])
        return run_id

    return store.write(work)


def insert_idempotent_response(store: Store, path: str, key: str, answer: object, *subjects: str) -> str:
    """Insert the stored response to a request with an idempotency key; returns the key's digest."""
    digest = digest_text(key)

    def work(tx: StoreTransaction) -> None:
        sealed = tx.sealer.seal(
            "idempotency", row_name(path, digest), tx.lock_generation(), msgspec.json.encode(answer)
        )
        row = {
            "project_id": tx.project_id, "path": path, "key_digest": digest, "body_digest": digest_text("body"),
            "status": 201, "created_at": now_text(),
        }  # fmt: skip
        tx.execute(insert(idempotency), [{**row, **sealed._asdict()}])
        named = {"project_id": tx.project_id, "path": path, "key_digest": digest}
        tx.execute(insert(idempotency_subjects), [{**named, "subject_id": subject} for subject in subjects])

    store.write(work)
    return digest


def trace_with_text(text: str, number: int = 0) -> StoredTrace:
    """The trace of a streamed call with `text` in its messages and chunks."""
    body: dict[str, Any] = {
        "schema_version": "1.0.0",
        "id": new_uuid(),
        "timestamp": f"2025-03-02T09:15:{number % 60:02}.123Z",
        "endpoint": "/v1/chat/completions",
        "request": {
            "model": "gpt-4.1-mini",
            "stream": True,
            "messages": [{"role": "user", "content": f"{text} " * 9}],
        },
        "response": {
            "object": "chat.completion",
            "id": f"chatcmpl-{number}",
            "created": 1740906900,
            "model": "gpt-4.1-mini",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"{text}! " * 9}}
            ],
        },
        "metadata": {"duration_ms": 12, "status": "success"},
    }
    line = json.dumps({"i": 0, "t_ms": 1.5, "data": text}, ensure_ascii=False) + "\n"
    return StoredTrace(summarize_trace(body), write_trace(body), line.encode())


def encodings(marker: str) -> Iterator[tuple[str, bytes]]:
    """The encodings in which a text could be in a file, each with its name."""
    data = marker.encode()
    yield "UTF-8", data
    yield "UTF-16 LE", marker.encode("utf-16-le")
    yield "UTF-16 BE", marker.encode("utf-16-be")
    yield "hex", data.hex().encode()
    yield "HEX", data.hex().upper().encode()
    yield "JSON", json.dumps(marker)[1:-1].encode()
    yield "reversed", data[::-1]
    for shift in range(3):  # A text begins at any of three places of a base64 group; the edges depend on neighbours.
        encoded = base64.b64encode(bytes(shift) + data)
        yield f"base64 +{shift}", encoded[4 if shift else 0 : -4]


def search_files(marker: str, *folders: Path) -> list[str]:
    """Every file below these folders that contains a text in any encoding."""
    wanted = list(encodings(marker))
    matches = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                matches += [f"{path}: {name}" for name, spelling in wanted if spelling in data]
    return matches
