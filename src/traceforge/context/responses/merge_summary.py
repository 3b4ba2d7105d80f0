"""A merge whose summary a model writes.

A `compact` merge that names a model and no summary forks the source, appends the instruction to the fork and asks for
a response there. So the input of the model is pinned, its answer is a response with a trace, and the source does not
change. The version of the target is checked first, in the same transaction: a merge that is refused before the model
is called leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from traceforge.context.history import merges
from traceforge.context.history.branches import fork_branch, load_branch_row
from traceforge.context.history.events import append_packed_events, check_head, pack_event, read_branch_for_append
from traceforge.context.model.inputs import Merge, NewBranch, NewEvent, NewResponse
from traceforge.context.model.objects import EventType, Merged, MergeStrategy, Progress
from traceforge.context.project_store import Store
from traceforge.context.responses.model_releases import resolve_release
from traceforge.context.responses.response_generation import answer_content, start_response
from traceforge.context.storage.store_transaction import StoreTransaction
from traceforge.errors import StoreRefused

SUMMARY_BRANCH_LABEL = "summary"
SUMMARY_INSTRUCTIONS = (
    "Summarize the conversation so far for somebody who goes on with it and has not read it. Keep every decision, "
    "number, name, date and open question. Answer with the summary alone."
)


class _SummaryBranch(NamedTuple):
    source_head_event_id: str
    branch_id: str
    version: int
    head_event_id: str | None


def merge_branch(store: Store, session_id: str, branch_id: str, body: Merge) -> Merged:
    """Merge in one transaction, unless a model writes the summary."""
    if body.model is not None and body.summary is None and body.strategy == MergeStrategy.COMPACT:
        return merge_with_model(store, session_id, branch_id, body)
    return store.write(lambda tx: merges.merge_branch(tx, session_id, branch_id, body))


def merge_with_model(
    store: Store,
    session_id: str,
    branch_id: str,
    body: Merge,
    keep: Callable[[StoreTransaction, Merged], None] | None = None,
) -> Merged:
    """Merge with a summary that `body.model` writes.

    Raises:
        BranchConflict: the target has moved on, before or during the call of the model.
        StoreRefused: the model gave no summary; the message names the response.
    """
    summary_branches: list[_SummaryBranch] = []

    def ask(joined: Store) -> NewResponse:
        fork = _fork_for_summary(joined, session_id, branch_id, body)
        summary_branches[:] = [fork]
        return NewResponse(
            model=body.model or "", session_id=session_id, branch_id=fork.branch_id,
            expected_version=fork.version, expected_head_event_id=fork.head_event_id,
        )  # fmt: skip

    response = start_response(store, ask).wait_for_end()
    (fork,) = summary_branches
    if response.status is not Progress.COMPLETED or not answer_content(response.output or {}):
        code = response.error.code if response.error else response.status.value
        raise StoreRefused(
            f"the model wrote no summary ({code}): response {response.id}",
            reason="no_summary",
            status=502,
            param="model",
        )
    provenance = {
        "response_id": response.id,
        "snapshot_id": response.snapshot_id,
        "alias_release_id": response.alias_release_id,
        "summary_branch_id": fork.branch_id,
    }
    written = merges.ModelSummary(answer_content(response.output or {}), fork.source_head_event_id, provenance)

    def work(tx: StoreTransaction) -> Merged:
        summary_branches = merges.merge_branch(tx, session_id, branch_id, body, written)
        if keep is not None:
            keep(tx, summary_branches)
        return summary_branches

    return store.write(work)


def _fork_for_summary(store: Store, session_id: str, branch_id: str, body: Merge) -> _SummaryBranch:
    tx = store.tx
    merges.check_merge(body, branch_id, has_model_summary=True)
    target = read_branch_for_append(tx, session_id, branch_id)
    check_head(target, body.expected_version, body.expected_head_event_id)
    source = load_branch_row(tx, session_id, body.source_branch_id, "source_branch_id")
    merges.compare_branches(tx, target, source)  # Before the model is called: there may be nothing to merge.
    resolve_release(tx, body.model or "")  # Before the fork: the model may not exist.
    fork = NewBranch(
        fork_from_branch_id=source.id,
        fork_from_event_id=source.head_event_id,  # The source may have moved on since it was read.
        label=SUMMARY_BRANCH_LABEL,
    )
    branch = fork_branch(tx, session_id, fork)
    noted = append_packed_events(
        tx,
        read_branch_for_append(tx, session_id, branch.id),
        [pack_event(tx, NewEvent(event_type=EventType.NOTE, content=SUMMARY_INSTRUCTIONS))],
    )[0]
    assert source.head_event_id is not None
    return _SummaryBranch(source.head_event_id, branch.id, noted.sequence, noted.id)
