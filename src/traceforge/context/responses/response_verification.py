"""Verifies responses: each is rendered again from its snapshot and its release, and compared with what was sent.

A response that cannot be rendered again, because it was stored without a renderer revision or with one that this
version does not have, was not checked. That is a problem with a rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

from sqlalchemy import select

from traceforge.canon import JSONObject, digest_canonical
from traceforge.context.compiler.store_verification import verify_history
from traceforge.context.model.cache_keys import materialization_key
from traceforge.context.model.objects import Response, Target
from traceforge.context.model.verification_objects import (
    RENDERING_RULE,
    UNCHECKED_RULE,
    ResponseVerification,
    StoreCheck,
    StoreProblem,
)
from traceforge.context.responses import stored_responses
from traceforge.context.responses.model_releases import get_release
from traceforge.context.responses.renderer_revisions import RENDERER_REVISIONS, target_runtime
from traceforge.context.responses.response_generation import build_model_request
from traceforge.context.storage.store_transaction import AnyRow, StoreTransaction
from traceforge.context.storage.tables import responses, snapshots
from traceforge.errors import StoreRefused, TraceForgeError


def verify_project(tx: StoreTransaction) -> StoreCheck:
    """Check every object of this project."""
    history = verify_history(tx)
    own = select(responses.c.id).where(responses.c.project_id == tx.project_id)
    response_ids = [row.id for row in tx.fetch_all(own)]
    problems = [problem for response_id in response_ids for problem in _check_stored(tx, response_id)]
    return StoreCheck(
        valid=history.valid and not problems,
        checked={**history.checked, "response": len(response_ids)},
        problems=[*history.problems, *problems],
    )


def verify_response(tx: StoreTransaction, response_id: str) -> ResponseVerification:
    """Render the snapshot of a response again, and compare.

    Raises:
        ContentPurged: the response was purged.
        StoreRefused: it does not exist, or its input has expired.
    """
    return _verify_row(tx, stored_responses.load_row(tx, response_id))


class _PinnedSnapshot(NamedTuple):
    id: str
    prompt_compiler_revision: str
    ordered_block_manifest_digest: str


class _RenderedAgain(NamedTuple):
    target: Target
    request_digest: str
    materialization_key: str


def _check_stored(tx: StoreTransaction, response_id: str) -> list[StoreProblem]:
    row = tx.find(responses, response_id)
    assert row is not None
    if row.purged_by is not None:
        is_emptied = row.sealed is None and row.wrapped_key is None
        return [] if is_emptied else [StoreProblem(id=row.id, message="it was purged and still has content")]
    try:
        return _verify_row(tx, row).problems
    except TraceForgeError as exc:
        is_expired = isinstance(exc, StoreRefused) and exc.reason == "expired"
        return [] if is_expired else [StoreProblem(id=row.id, message=exc.message)]


def _verify_row(tx: StoreTransaction, row: AnyRow) -> ResponseVerification:
    response = stored_responses.to_response(tx, row)
    rendered: _RenderedAgain | None = None
    rule, messages = RENDERING_RULE, []
    reason = _why_unchecked(response)
    if reason is not None:
        rule, messages = UNCHECKED_RULE, [f"could not be checked: {reason}"]
    else:
        try:
            rendered = _render_again(tx, row)
            messages = list(_list_differences(response, rendered))
        except StoreRefused as exc:
            if exc.reason == "expired":  # It is about to be purged, with this response.
                raise
            messages = [f"it cannot be rendered again: {exc.message}"]
    return ResponseVerification(
        response_id=response.id,
        valid=not messages,
        renderer_revision=response.renderer_revision,
        request_digest=response.request_digest,
        rendered_digest=None if rendered is None else rendered.request_digest,
        problems=[StoreProblem(id=response.id, rule=rule, message=message) for message in messages],
    )


def _why_unchecked(response: Response) -> str | None:
    if response.renderer_revision is None or response.request_digest is None:
        return "how it was rendered was not recorded"
    if response.renderer_revision not in RENDERER_REVISIONS:
        return f"renderer revision {response.renderer_revision} is unknown, only {', '.join(RENDERER_REVISIONS)}"
    return None


def _render_again(tx: StoreTransaction, row: AnyRow) -> _RenderedAgain:
    snapshot = tx.find(snapshots, row.snapshot_id)  # Also one that was deleted: its response has not changed.
    assert snapshot is not None, "a foreign key"
    params = cast("JSONObject", stored_responses.open_content(tx, row)["params"])
    request = build_model_request(tx, snapshot, get_release(tx, row.release_id), params, row.renderer_revision)
    key = materialization_key(
        _PinnedSnapshot(snapshot.id, snapshot.revision, snapshot.manifest_digest),
        target_runtime(request.target, request.renderer),
    )
    return _RenderedAgain(request.target, request.encode().digest, key)


def _list_differences(response: Response, rendered: _RenderedAgain) -> Iterator[str]:
    if rendered.target != response.target:
        yield "its release resolves to another target than it states"
    parameters_digest = digest_canonical(response.parameters)
    if parameters_digest != response.parameters_digest:
        yield f"the digest of its parameters is {parameters_digest} and not {response.parameters_digest}"
    if rendered.request_digest != response.request_digest:
        yield f"rendered again, its request is {rendered.request_digest} and not {response.request_digest}"
    if rendered.materialization_key != response.materialization_key:
        yield f"its materialization key is {response.materialization_key} and not {rendered.materialization_key}"
