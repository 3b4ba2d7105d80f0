"""Candidates and proposed snapshot changes, computed in memory without a command or a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from support.exchanges import COMPOSER, REDACTOR, chat_answer, chat_request, make_exchange, parse_object
from support.replay_player import KEYS
from support.wire_transcripts import CHAT
from traceforge.canon import Digest
from traceforge.config import ModelRule
from traceforge.exchange import Caller, Exchange
from traceforge.replay.request_key import RequestKeyer
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.record.candidates import Candidate, find_candidates
from traceforge.snapshots.record.pending_changes import PendingChange
from traceforge.snapshots.record.proposal import Proposal, propose_changes
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.run_scopes import RunScopes
from traceforge.traces.trace_composer import TraceComposer

REPEATABLE: dict[str, Any] = {"temperature": 0, "max_tokens": 50, "seed": 7}
USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
Models = Mapping[str, ModelRule]
NO_MODELS: Models = {}


def make_call(
    text: str,
    answer: str = "yes",
    number: int = 0,
    scope: str = "",
    source: str = "app.py:12:ask",
    status: int = 200,
    **more: Any,
) -> Exchange:
    """A call that can be approved, unless `more` changes that."""
    request = chat_request(text, **{**REPEATABLE, **more})
    response: Any = chat_answer(answer, usage=USAGE) if status == 200 else {"error": {"message": answer}}
    return make_exchange(CHAT, request, response, number=number, status=status, caller=Caller(source, scope))


def candidates_from(
    *calls: Exchange,
    models: Models = NO_MODELS,
    is_strict: bool = False,
    match_key: bytes | None = None,
    keys: RequestKeyer = KEYS,
    workers: Mapping[str, str] | None = None,
) -> list[Candidate]:
    """The candidates for approval in a run of these calls; `workers`, by trace id."""
    composer = TraceComposer(REDACTOR, match_key) if match_key else COMPOSER
    composed = [composer.compose(exchange) for exchange in calls]
    traces = [(parse_object(trace.trace), trace.chunks) for trace in composed]
    return find_candidates(traces, keys, ModelPolicy(models, is_strict), workers=workers)


def propose(
    *calls: Exchange,
    approved: Sequence[ApprovedCall] = (),
    used: Mapping[tuple[str, str], int] | None = None,
    models: Models = NO_MODELS,
    is_strict: bool = False,
    folder: str = "/nowhere",
    match_key: bytes | None = None,
) -> Proposal:
    """The changes that a run of these calls proposes, in a folder of tests."""
    candidates = candidates_from(*calls, models=models, is_strict=is_strict, match_key=match_key)
    return propose_changes(
        candidates, approved, KEYS, used or {}, RunScopes({exchange.caller.scope for exchange in calls}, [folder])
    )


def approve_change(change: PendingChange, digest: str = "sha256:" + "a" * 64) -> ApprovedCall:
    """A pending change, approved."""
    file = f"{change.provider}/{change.id}.json"
    return ApprovedCall(
        change.id, change.provider, file, Digest(digest), change.record, change.raw_response, change.gate
    )
