"""From the calls of a run to proposed changes of the snapshots.

In: candidates, the approved calls, and which of them the run was answered from. Out: new, changed and refused calls,
and how many are unchanged. Never: writes, or gives the successor of an approved call another id: the two are matched
by test and order, then by similarity, then by call site.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, cast

from msgspec import Struct, field

from traceforge.canon import JSON, Digest, JSONObject, digest_fields, json_bytes
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.replay.compared_frames import list_client_frames
from traceforge.replay.request_distance import PromptLikeness, RequestDistance, measure_distance
from traceforge.replay.request_key import KeyedRequest, RequestKeyer
from traceforge.snapshots.formats.determinism_policy import BEHAVIOUR_GATE
from traceforge.snapshots.formats.raw_response import write_raw_response
from traceforge.snapshots.formats.record_draft import RefusalReason
from traceforge.snapshots.record.candidates import Candidate, RequestIdentity
from traceforge.snapshots.record.count_changes import propose_counts
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange, order_of_call
from traceforge.snapshots.tree.approved_calls import ApprovedCall, ScopeTurn, key_stored_request
from traceforge.snapshots.tree.call_counts import CountedRun
from traceforge.snapshots.tree.run_scopes import RunScopes
from traceforge.wire.endpoints import find_endpoint

ID_TAG = "traceforge.snapshot-id/1"
NAME_LENGTH_MAX = 40
ID_DIGITS = 8


class Proposal(NamedTuple):
    """The changes that a run proposes."""

    changes: list[PendingChange]
    unchanged: int  # calls equal to an approved one, replayed or live
    settled_ids: list[str]  # ids whose pending changes are obsolete: the calls are as approved again


class _CallGroup(Struct):
    """Equal calls, which one snapshot can represent."""

    first: Candidate
    turns: list[ScopeTurn]
    order: int
    answers: int = 1  # how many different ones
    calls: int = 1
    predecessor: ApprovedCall | None = None
    reasons: list[RefusalReason] = field(default_factory=list)


def propose_changes(
    candidates: Sequence[Candidate],
    approved: Sequence[ApprovedCall],
    keys: RequestKeyer,
    used: Mapping[tuple[str, str], int],
    scopes: RunScopes,
    run: CountedRun | None = None,
    *,
    keeps_answers: bool = True,
) -> Proposal:
    """The changes between the approved calls and a run.

    `used` counts by scope and id the approved calls that the run was answered from; `scopes` are those of the run.
    With `run`, changed numbers of calls are proposed as well. `keeps_answers`: approved answers are not recorded
    again. A WebSocket always goes live, because it cannot be looked up before it is open: it keeps its answer here.
    """
    index = _ApprovedIndex(approved, keys)
    groups = _group_calls(candidates, index, used)
    used_ids = {name for _, name in used}
    _match_predecessors(groups, [call for call in approved if call.id not in used_ids], index, scopes)
    taken_ids = {call.id for call in approved}
    changes: list[PendingChange] = []
    settled: list[str] = []
    unchanged = sum(used.values())
    calls_as_approved: Counter[tuple[str, str]] = Counter()  # live calls, by scope and snapshot id
    for group in groups:
        kind = _find_change_kind(group, index, keeps_answers=keeps_answers)
        if kind is None:
            assert group.predecessor is not None
            unchanged += group.calls
            settled.append(group.predecessor.id)
            calls_as_approved.update((turn.scope, group.predecessor.id) for turn in group.turns)
            continue
        name = group.predecessor.id if group.predecessor else _make_id(group.first, taken_ids)
        taken_ids.add(name)
        changes.append(_make_pending(name, kind, group, scopes))
    if run is not None:
        changed_ids = {change.id for change in changes}
        same_calls = [call for call in approved if call.id not in changed_ids]
        keys_by_id = {call.id: requests[0].key for call in same_calls if (requests := index.requests(call))}
        call_counts = Counter(run.call_counts) + calls_as_approved
        changes += propose_counts(same_calls, keys_by_id, run._replace(call_counts=call_counts))
    return Proposal(sorted(changes, key=lambda change: order_of_call(change.id)), unchanged, settled)


class _ApprovedIndex:
    """The approved calls with their keys and comparable forms, computed once each."""

    def __init__(self, approved: Iterable[ApprovedCall], keys: RequestKeyer) -> None:
        self._keys = keys
        self._requests: dict[tuple[str, tuple[str, ...]], KeyedRequest] = {}
        self._calls: dict[str, ComparedCall] = {}
        self.by_id = {call.id: call for call in approved}

    def requests(self, call: ApprovedCall) -> list[KeyedRequest]:
        """The request with each of its keys: those of its tests, and the one for other tests. None without a raw
        response.
        """
        requests = [self.request(call, scope) for scope in [*(turn.scope for turn in call.turns), ""]]
        return list({request.tests: request for request in requests if request is not None}.values())

    def request(self, call: ApprovedCall, scope: str) -> KeyedRequest | None:
        """The request with its key in a scope; None without a raw response."""
        raw = call.raw_response
        if raw is None:
            return None
        place = call.id, self._keys.list_tests(scope)
        if place not in self._requests:
            self._requests[place] = key_stored_request(self._keys, raw, scope)
        return self._requests[place]

    def asks_the_same(self, call: ApprovedCall, candidate: Candidate) -> bool:
        """Whether both requests are the same as far as they are known."""
        return any(
            (candidate.keyed_request.has_key(request.key) or request.has_key(candidate.key))
            and self._has_fingerprints(call, request, candidate)
            for request in self.requests(call)
        )

    def knows_all_of(self, call: ApprovedCall, candidate: Candidate) -> bool:
        """Whether the approved request is this one, and at least as much is known about it."""
        return any(
            request.has_key(candidate.key) and self._has_fingerprints(call, request, candidate)
            for request in self.requests(call)
        )

    def _has_fingerprints(self, call: ApprovedCall, request: KeyedRequest, candidate: Candidate) -> bool:
        assert call.raw_response is not None
        return self._keys.read_fingerprints(request, call.raw_response.redacted) == candidate.fingerprints

    def call(self, approved: ApprovedCall) -> ComparedCall:
        if approved.id not in self._calls:
            self._calls[approved.id] = approved.call
        return self._calls[approved.id]


def _group_calls(
    candidates: Iterable[Candidate], index: _ApprovedIndex, used: Mapping[tuple[str, str], int]
) -> list[_CallGroup]:
    """Group the calls that one snapshot can represent."""
    turns: Counter[tuple[str, Digest]] = Counter()
    for (scope, name), times in used.items():
        request = index.request(index.by_id[name], scope)
        if request is not None:
            turns[scope, request.key] += times
    groups: list[_CallGroup] = []
    groups_by_request: dict[RequestIdentity, list[_CallGroup]] = {}
    for order, candidate in enumerate(candidates):
        known_keys = [candidate.key, *(key for _, key in candidate.keyed_request.partial_keys)]
        number = sum(turns[candidate.scope, key] for key in known_keys)
        turn = ScopeTurn(candidate.scope, number, 1, candidate.per_worker)
        turns[candidate.scope, candidate.key] += 1
        same_request = groups_by_request.setdefault(candidate.identity, [])
        group = _find_group(candidate, same_request)
        if group is None:
            group = _CallGroup(candidate, [turn], order, reasons=list(candidate.reasons))
            same_request.append(group)
            groups.append(group)
        else:
            group.calls += 1
            group.turns.append(turn)
    return groups


def _find_group(candidate: Candidate, same_request: Sequence[_CallGroup]) -> _CallGroup | None:
    """The group of the same request and answer; under `gate: "behaviour"`, of the same request."""
    for group in same_request:
        if not compare(group.first.call, candidate.call).answer_changes:
            return group
    if same_request and candidate.gate == BEHAVIOUR_GATE and not candidate.has_failed:
        group = same_request[0]
        group.answers += 1
        return group
    return None


def _match_predecessors(
    groups: Sequence[_CallGroup], unused: Sequence[ApprovedCall], index: _ApprovedIndex, scopes: RunScopes
) -> None:
    """Find the approved call that each group succeeds: by key, then by scope and similarity, then by call site."""
    unmatched = {call.id: call for call in unused}

    def assign(pairs: Iterable[tuple[int | RequestDistance, int, _CallGroup, ApprovedCall]]) -> None:
        for _, _, group, call in sorted(pairs, key=lambda pair: pair[:2]):
            if group.predecessor is None and call.id in unmatched:
                group.predecessor = unmatched.pop(call.id)

    assign(
        (int(_scopes_of(group.turns).isdisjoint(_scopes_of(call.turns))), group.order, group, call)
        for group in groups
        for call in unmatched.values()
        if index.asks_the_same(call, group.first)
    )
    for scope in dict.fromkeys(turn.scope for group in groups for turn in group.turns):
        groups_in_scope = [
            group
            for group in groups
            if group.predecessor is None and any(turn.scope == scope for turn in group.turns)
        ]
        calls_in_scope = [call for call in unmatched.values() if any(turn.scope == scope for turn in call.turns)]
        calls_in_scope.sort(key=attrgetter("recorded_at"))
        assign(
            (_distance(group, call, index), abs(group_order - call_order), group, call)
            for group_order, group in enumerate(groups_in_scope)
            for call_order, call in enumerate(calls_in_scope)
            if _is_comparable(group, call)
        )
    assign(
        (distance_to, 0, group, call)
        for group in groups
        if group.predecessor is None
        for call in unmatched.values()
        if _is_comparable(group, call)
        and all(scopes.has_run(turn.scope) or scopes.is_removed(turn.scope) for turn in call.turns)
        and _call_site(group.first.source) == _call_site(call.source)
        and (distance_to := _distance(group, call, index)).prompt < PromptLikeness.OTHER
    )


def _scopes_of(turns: Iterable[ScopeTurn]) -> set[str]:
    return {turn.scope for turn in turns}


def _call_site(source: JSONObject) -> tuple[JSON, JSON]:
    return source.get("file"), source.get("function")


def _is_comparable(group: _CallGroup, call: ApprovedCall) -> bool:
    """Whether both are calls of the same provider and kind."""
    if call.raw_response is None:
        return call.provider == group.first.provider
    return (
        find_endpoint(call.raw_response.method, call.raw_response.url)[:2] == group.first.keyed_request.endpoint[:2]
    )


def _distance(group: _CallGroup, call: ApprovedCall, index: _ApprovedIndex) -> RequestDistance:
    request = index.request(call, group.first.scope)
    if request is None:  # without a raw response
        changes = {change.rule for change in compare(index.call(call), group.first.call).request_changes}
        likeness = PromptLikeness.EDITED if "request.prompt" in changes else PromptLikeness.SAME
        return RequestDistance(likeness, "request.model" in changes, len(changes))
    return measure_distance(request.key_fields, group.first.keyed_request.key_fields)


def _find_change_kind(group: _CallGroup, index: _ApprovedIndex, *, keeps_answers: bool) -> ChangeKind | None:
    """How a call changed; None if it is as approved."""
    if group.answers > 1:
        group.reasons.append(
            RefusalReason(
                "response",
                f"{group.answers} different answers to the same request in {group.calls} calls",
                'Make the call repeatable, or declare the model with "gate": "request" in the configuration.',
            )
        )
    predecessor = group.predecessor
    if predecessor is None:
        return ChangeKind.REFUSED if group.reasons else ChangeKind.NEW
    comparison = compare(index.call(predecessor), _call_like(predecessor, group.first.call))
    is_request_changed = (
        not index.knows_all_of(predecessor, group.first)
        if predecessor.raw_response is not None
        else bool(comparison.request_changes)
    )
    is_now_live = predecessor.is_adopted and group.first.raw_response.adopted_from is None
    if not is_request_changed and not comparison.answer_changes and not is_now_live:
        return None
    if group.reasons:
        return ChangeKind.REFUSED
    is_conversation = list_client_frames(group.first.raw_response.request_body) is not None
    if is_conversation and keeps_answers and not is_request_changed and not is_now_live:
        return None
    if is_request_changed:
        return ChangeKind.BOTH if comparison.answer_changes else ChangeKind.REQUEST
    return ChangeKind.ANSWER


def _call_like(predecessor: ApprovedCall, call: ComparedCall) -> ComparedCall:
    """The call with `stream` only if the record of its predecessor has it: earlier records do not show it."""
    stated = predecessor.record["request"] if predecessor.record is not None else None
    if not isinstance(stated, dict) or "stream" in stated:
        return call
    return ComparedCall({name: value for name, value in call.request.items() if name != "stream"}, call.answer)


def _make_id(candidate: Candidate, taken_ids: Collection[str]) -> str:
    """A readable id, the same on every machine that records the same call."""
    function = str(candidate.source.get("function") or "")
    stem = str(candidate.source.get("file") or "").rpartition("/")[2].partition(".")[0]
    readable = stem if not function or "<" in function else function  # not `<module>` or `<lambda>`
    name = re.sub(r"[^a-z0-9_-]+", "-", readable.lower()).strip("-_")[:NAME_LENGTH_MAX] or candidate.provider
    fields: list[tuple[str, str | None]] = [("key", candidate.key)]
    if candidate.fingerprints:
        fields.append(("redacted", json_bytes(cast("JSON", candidate.fingerprints)).decode()))
    digest = digest_fields(ID_TAG, fields).removeprefix("sha256:")[:ID_DIGITS]
    base = unique = f"{name}-{digest}"
    number = 1
    while unique in taken_ids:
        number += 1
        unique = f"{base}-{number}"
    return unique


def _make_pending(name: str, kind: ChangeKind, group: _CallGroup, scopes: RunScopes) -> PendingChange:
    candidate = group.first
    predecessor = group.predecessor
    source: JSONObject = {**candidate.source, "scopes": list(_list_scopes(group, predecessor, scopes))}
    raw = candidate.raw_response if candidate.has_record else candidate.raw_response._replace(source=source)
    return PendingChange(
        name,
        kind,
        predecessor.provider if predecessor is not None else candidate.provider,
        candidate.gate,
        predecessor.hash if predecessor is not None else None,
        candidate.trace_id,
        _make_record(name, candidate, source) if candidate.has_record else None,
        raw,
        write_raw_response(raw).decode(),
        candidate.redacted_count,
        tuple(group.reasons),
    )


def _list_scopes(group: _CallGroup, predecessor: ApprovedCall | None, scopes: RunScopes) -> Iterator[JSON]:
    """The scopes of this run, and the earlier ones of tests that exist and did not run."""
    older = [
        turn
        for turn in (predecessor.turns if predecessor is not None else ())
        if not scopes.has_run(turn.scope) and not scopes.is_removed(turn.scope)
    ]
    is_numbered = group.first.gate != BEHAVIOUR_GATE
    entries: dict[tuple[str, int], ScopeTurn] = {}
    for turn in group.turns:
        place = (turn.scope, turn.turn if is_numbered else 0)
        calls = entries[place].calls + 1 if place in entries else 1
        entries[place] = ScopeTurn(*place, calls, turn.per_worker)
    for turn in older:
        place = (turn.scope, turn.turn if is_numbered else 0)
        entries.setdefault(place, ScopeTurn(*place, turn.calls, turn.per_worker))
    for entry in entries.values():
        yield entry.to_json(is_numbered=is_numbered)


def _make_record(name: str, candidate: Candidate, source: JSONObject) -> JSONObject:
    fields = dict(candidate.draft.response)
    response: JSONObject = {key: fields.pop(key) for key in ("content", "tokens_used") if key in fields}
    return {
        "id": name,
        "timestamp": candidate.timestamp,
        "source": source,
        "request": cast("JSON", candidate.draft.request),
        "response": {**response, "latency_ms": round(candidate.latency_ms), **fields},
    }
