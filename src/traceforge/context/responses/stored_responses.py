"""Responses: answers of models, each bound to one snapshot and one release.

A response never changes once it is final; the first process that ends it wins. Never: calls a model
(`response_generation` does) or stores an output in the clear.

`sealed` is JSON: {"target": {…}, "params": {…}, "parameters_digest": "…", "request_digest": "…", "output": {…} or
null, "finish_reason": "…" or null, "message": "why it failed" or null}. `params` are those of the request. The
digests are sealed because parameters and short prompts could be guessed from them; older responses have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import insert, select, update

from traceforge.canon import JSON, JSONObject, digest_canonical, json_bytes, parse_json
from traceforge.clock import now_text
from traceforge.context.model.objects import AppendConflict, Failure, Progress, Response, Target, Usage
from traceforge.context.storage.leases import has_no_lease, lease_end, lease_owner, seconds_ago
from traceforge.context.storage.paging import Page, list_page
from traceforge.context.storage.sealing import SealedColumns
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import responses
from traceforge.conversion import convert
from traceforge.errors import StoreRefused

OBJECT_NAME = "response"
INTERRUPTED = "interrupted"
INTERRUPTED_AFTER_S = 300.0  # After its lease expired; until then, a retry with its key can resume it.


class ResponseStart(NamedTuple):
    """What is known at the start of a call."""

    id: str
    session_id: str
    branch_id: str
    snapshot_id: str
    release_id: str
    target: Target
    params: JSONObject  # Of the request.
    renderer_revision: str
    request_digest: str
    materialization_key: str
    input_event_id: str | None


class ResponseEnd(NamedTuple):
    """The outcome of a model call, as it is stored."""

    status: Progress
    output: JSONObject | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    trace_id: str | None = None
    error_code: str | None = None
    message: str | None = None
    event_id: str | None = None
    conflict: AppendConflict | None = None


def call_parameters(target: Target, params: Mapping[str, JSON]) -> JSONObject:
    """The parameters of a call: those of the target, overridden by those of the request."""
    return {**target.params, **params}


def insert_running(tx: StoreTransaction, start: ResponseStart) -> None:
    """Insert a response that this process is about to ask for."""
    content: JSONObject = {
        "target": msgspec.to_builtins(start.target), "params": start.params,
        "parameters_digest": digest_canonical(call_parameters(start.target, start.params)),
        "request_digest": start.request_digest, "output": None, "finish_reason": None, "message": None,
    }  # fmt: skip
    row: dict[str, Any] = {
        "id": start.id,
        "project_id": tx.project_id,
        "status": Progress.RUNNING.value,
        "session_id": start.session_id,
        "branch_id": start.branch_id,
        "snapshot_id": start.snapshot_id,
        "release_id": start.release_id,
        "renderer_revision": start.renderer_revision,
        "materialization_key": start.materialization_key,
        "input_event_id": start.input_event_id,
        "append_conflict": False,
        "cancel_requested": False,
        "lease_owner": lease_owner(),
        "lease_until": lease_end(),
        "created_at": now_text(),
        **_seal(tx, start.id, content),
    }
    tx.lock_inserts()
    tx.execute(insert(responses), [row])


def finish_response(tx: StoreTransaction, response_id: str, end: ResponseEnd) -> bool:
    """Store how a response ended; False if another process ended it or took it over."""
    row = _find_running(tx, response_id, mine=True)
    if row is None:
        return False
    content = open_content(tx, row)
    content |= {"output": end.output, "finish_reason": end.finish_reason, "message": end.message}
    conflict = end.conflict
    values = {
        "status": end.status.value,
        "input_tokens": end.usage.input_tokens if end.usage else None,
        "output_tokens": end.usage.output_tokens if end.usage else None,
        "trace_id": end.trace_id,
        "event_id": end.event_id,
        "append_conflict": conflict is not None,
        "conflict_version": conflict.current_version if conflict else None,
        "conflict_head_event_id": conflict.current_head_event_id if conflict else None,
        "error_code": end.error_code,
        "completed_at": now_text(),
        "lease_owner": None,
        "lease_until": None,
        **_seal(tx, response_id, content),
    }
    tx.execute(update(responses).where(responses.c.id == response_id).values(values))
    return True


def cancel_response(tx: StoreTransaction, response_id: str) -> Response:
    """Cancel a running response; what its model still answers is not stored.

    Raises:
        StoreRefused: it is completed or failed.
    """
    row = load_row(tx, response_id)
    if row.status == Progress.CANCELED.value:
        return to_response(tx, row)
    if _find_running(tx, response_id) is None:
        raise StoreRefused(
            f"response {response_id} is {row.status}: there is nothing to cancel", reason="already_final", status=409
        )
    values = {
        "status": Progress.CANCELED.value, "cancel_requested": True, "completed_at": now_text(),
        "lease_owner": None, "lease_until": None,
    }  # fmt: skip
    tx.execute(update(responses).where(responses.c.id == response_id).values(values))
    return to_response(tx, load_row(tx, response_id))


def note_trace(tx: StoreTransaction, response_id: str, trace_id: str | None) -> None:
    """Add the trace of a call whose response another process ended, so that a purge finds it."""
    own = (responses.c.id == response_id, responses.c.project_id == tx.project_id, responses.c.trace_id.is_(None))
    tx.execute(update(responses).where(*own).values(trace_id=trace_id))


def renew_lease(tx: StoreTransaction, response_id: str) -> bool:
    """Renew this process's lease; False if the response is final or another process has it."""
    own = (
        responses.c.id == response_id,
        responses.c.status == Progress.RUNNING.value,
        responses.c.lease_owner == lease_owner(),
        responses.c.purged_by.is_(None),
    )
    return tx.execute(update(responses).where(*own).values(lease_until=lease_end())) == 1


def take_over_response(tx: StoreTransaction, response_id: str) -> bool:
    """Take over a response whose process died; False if it did not die or the response is final."""
    own = (
        responses.c.id == response_id,
        responses.c.project_id == tx.project_id,
        responses.c.status == Progress.RUNNING.value,
        has_no_lease(responses.c.lease_until),
        responses.c.purged_by.is_(None),
    )
    return tx.execute(update(responses).where(*own).values(lease_owner=lease_owner(), lease_until=lease_end())) == 1


def has_abandoned(tx: StoreTransaction) -> bool:
    """Whether this project has a running response whose lease expired long ago."""
    return tx.fetch_one(select(responses.c.id).where(*_is_abandoned(tx)).limit(1)) is not None


def fail_abandoned(tx: StoreTransaction) -> int:
    """Mark responses whose process died as failed; returns how many."""
    ended = {
        "status": Progress.FAILED.value, "error_code": INTERRUPTED, "completed_at": now_text(),
        "lease_owner": None, "lease_until": None,
    }  # fmt: skip
    return tx.execute(update(responses).where(*_is_abandoned(tx)).values(ended))


def load_row(tx: StoreTransaction, response_id: str) -> AnyRow:
    """The row of a response, unless it was purged."""
    return tx.load(responses, OBJECT_NAME, response_id)


def list_responses(tx: StoreTransaction, limit: int, after: str | None) -> Page[Response]:
    """The responses of the project, oldest first."""
    return list_page(
        tx,
        responses,
        (),
        lambda rows: [to_response(tx, row) for row in rows],
        limit=limit,
        after=after,
        visible=(responses.c.purged_by.is_(None),),
    )


def open_content(tx: StoreTransaction, row: AnyRow) -> JSONObject:
    """The decrypted content of a row."""
    sealed = SealedColumns(row.sealed, row.wrapped_key, row.generation)
    return cast("JSONObject", parse_json(tx.sealer.open("responses", row.id, sealed)))


def to_response(tx: StoreTransaction, row: AnyRow) -> Response:
    """The response of a row."""
    content = open_content(tx, row)
    counted = row.input_tokens is not None or row.output_tokens is not None
    conflict = AppendConflict(
        current_version=row.conflict_version or 0, current_head_event_id=row.conflict_head_event_id
    )
    target = convert(content["target"], Target)
    message = content.get("message") or "the process that called the model ended before the answer arrived"
    return Response(
        id=row.id,
        status=Progress(row.status),
        session_id=row.session_id,
        branch_id=row.branch_id,
        snapshot_id=row.snapshot_id,
        alias_release_id=row.release_id,
        target=target,
        parameters=cast("dict[str, Any]", call_parameters(target, cast("JSONObject", content["params"]))),
        parameters_digest=cast("str | None", content.get("parameters_digest")),
        renderer_revision=row.renderer_revision,
        request_digest=cast("str | None", content.get("request_digest")),
        materialization_key=row.materialization_key,
        output=cast("dict[str, Any] | None", content.get("output")),
        finish_reason=cast("str | None", content["finish_reason"]),
        usage=Usage(input_tokens=row.input_tokens, output_tokens=row.output_tokens) if counted else None,
        trace_id=row.trace_id,
        event_id=row.event_id,
        append_conflict=conflict if row.append_conflict else None,
        error=Failure(code=row.error_code, message=str(message)) if row.error_code else None,
        created_at=row.created_at,
        completed_at=row.completed_at,
    )


def initial_response(tx: StoreTransaction, row: AnyRow) -> Response:
    """The response of a row as it was at the start."""
    return msgspec.structs.replace(
        to_response(tx, row), status=Progress.RUNNING, output=None, finish_reason=None, usage=None, trace_id=None,
        event_id=None, append_conflict=None, error=None, completed_at=None,
    )  # fmt: skip


def _find_running(tx: StoreTransaction, response_id: str, *, mine: bool = False) -> AnyRow | None:
    """The row of a running response, locked."""
    own = [
        responses.c.id == response_id,
        responses.c.project_id == tx.project_id,
        responses.c.status == Progress.RUNNING.value,
        responses.c.purged_by.is_(None),
    ]
    if mine:
        own.append(responses.c.lease_owner == lease_owner())
    return tx.fetch_one(select(responses).where(*own).with_for_update())


def _is_abandoned(tx: StoreTransaction) -> tuple[Any, ...]:
    return (
        responses.c.project_id == tx.project_id,
        responses.c.status == Progress.RUNNING.value,
        responses.c.lease_until < seconds_ago(INTERRUPTED_AFTER_S),
        responses.c.purged_by.is_(None),
    )


def _seal(tx: StoreTransaction, response_id: str, content: dict[str, JSON]) -> dict[str, Any]:
    return tx.sealer.seal("responses", response_id, tx.lock_generation(), json_bytes(content))._asdict()
