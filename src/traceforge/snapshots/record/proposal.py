"""From the calls of a run to pending changes.

In: candidates, what is approved, and which of it the run was answered from. Out: what is new, what changed and in
which part, what is refused, and how many are unchanged. Never: writes, or gives a call that was approved before
another id: its successor is paired with it by test and order, then by similarity, then by call site.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

from msgspec import Struct, field

from traceforge import compare as comparing
from traceforge.canon import JSON, Digest, JSONObject, digest_fields
from traceforge.compare.compared_call import Call
from traceforge.replay.request_key import KeyFields, RequestKeyer
from traceforge.replay.unmatched import MISSING_WEIGHT, request_distance
from traceforge.snapshots.formats.raw_response import call_of_wire, write_wire
from traceforge.snapshots.formats.record_draft import Reason
from traceforge.snapshots.record.candidates import Candidate
from traceforge.snapshots.record.pending_changes import Kind, Pending
from traceforge.snapshots.record.run_scopes import Scopes
from traceforge.snapshots.tree.approved_calls import BEHAVIOUR, Approved, Turn, asked_of
from traceforge.wire.endpoints import find_endpoint

ID_TAG = "traceforge.snapshot-id/1"
NAME_LENGTH_MAX = 40
ID_DIGITS = 8
FAR = MISSING_WEIGHT  # Beyond this, two calls of one call site are two calls.


class Proposal(NamedTuple):
    """What a run proposes."""

    changes: list[Pending]
    unchanged: int  # calls that say what was approved, whether they were answered from it or live
    settled: list[str]  # ids of which nothing is pending any more: they say again what was approved


class _Group(Struct):
    """Calls that one snapshot speaks for."""

    first: Candidate
    turns: list[Turn]
    order: int
    answers: int = 1  # how many different ones there were
    calls: int = 1
    heir_of: Approved | None = None
    reasons: list[Reason] = field(default_factory=list)


def propose(
    candidates: Sequence[Candidate],
    approved: Sequence[Approved],
    keys: RequestKeyer,
    used: Mapping[tuple[str, str], int],
    scopes: Scopes,
) -> Proposal:
    """Say what changed. `used` counts, by scope and id, what the run was answered from; `scopes` are those it had."""
    known = _Known(approved, keys)
    groups = _gather(candidates, known, used)
    names = {name for _, name in used}
    _pair(groups, [one for one in approved if one.id not in names], known, scopes)
    taken = {one.id for one in approved}
    changes: list[Pending] = []
    settled: list[str] = []
    unchanged = sum(used.values())
    for group in groups:
        kind = _kind(group, known)
        if kind is None:
            assert group.heir_of is not None
            unchanged += group.calls
            settled.append(group.heir_of.id)
            continue
        name = group.heir_of.id if group.heir_of else _new_id(group.first, taken)
        taken.add(name)
        changes.append(_pending(name, kind, group, scopes))
    return Proposal(sorted(changes, key=lambda change: change.id), unchanged, settled)


class _Known:
    """What is approved, by key and as it is compared; made once."""

    def __init__(self, approved: Iterable[Approved], keys: RequestKeyer) -> None:
        self._keys = keys
        self._questions: dict[str, tuple[Digest | None, KeyFields | None]] = {}
        self._calls: dict[str, Call] = {}
        self.by_name = {one.id: one for one in approved}

    def key(self, one: Approved) -> Digest | None:
        """What it asks; None where it was written by hand, and has no wire answer."""
        return self._asked(one)[0]

    def question(self, one: Approved) -> KeyFields | None:
        return self._asked(one)[1]

    def call(self, one: Approved) -> Call:
        if one.id not in self._calls:
            self._calls[one.id] = call_of(one)
        return self._calls[one.id]

    def _asked(self, one: Approved) -> tuple[Digest | None, KeyFields | None]:
        if one.id not in self._questions:
            asked = asked_of(self._keys, one.wire) if one.wire is not None else None
            self._questions[one.id] = (asked.key, asked.key_fields) if asked else (None, None)
        return self._questions[one.id]


def call_of(one: Approved) -> Call:
    """An approved call as it is compared."""
    if one.record is not None:
        return Call.from_snapshot(one.record)
    assert one.wire is not None
    return call_of_wire(one.wire)


def _gather(candidates: Iterable[Candidate], known: _Known, used: Mapping[tuple[str, str], int]) -> list[_Group]:
    """Put calls together that one snapshot can speak for."""
    turns: Counter[tuple[str, Digest]] = Counter()
    for (scope, name), times in used.items():
        key = known.key(known.by_name[name])
        if key is not None:
            turns[scope, key] += times
    groups: list[_Group] = []
    alike: dict[Digest, list[_Group]] = {}
    for place, one in enumerate(candidates):
        turn = Turn(one.scope, turns[one.scope, one.key])
        turns[one.scope, one.key] += 1
        mates = alike.setdefault(one.key, [])
        group = _mate(one, mates)
        if group is None:
            group = _Group(one, [turn], place, reasons=list(one.reasons))
            mates.append(group)
            groups.append(group)
        else:
            group.calls += 1
            group.turns.append(turn)
    return groups


def _mate(one: Candidate, mates: Sequence[_Group]) -> _Group | None:
    """The group that a call belongs to: of the same answer; under the full gate, of any."""
    for group in mates:
        if not comparing.compare(group.first.call, one.call).answer_changes:
            return group
    if mates and one.gate == BEHAVIOUR and not one.failed:
        group = mates[0]
        group.answers += 1
        return group
    return None


def _pair(groups: Sequence[_Group], free: Sequence[Approved], known: _Known, scopes: Scopes) -> None:
    """Find for each call the approved one that it succeeds."""
    left = {one.id: one for one in free}

    def settle(pairs: Iterable[tuple[int, int, _Group, Approved]]) -> None:
        for _, _, group, one in sorted(pairs, key=lambda pair: pair[:2]):
            if group.heir_of is None and one.id in left:
                group.heir_of = left.pop(one.id)

    settle(
        (int(_scopes_of(group.turns).isdisjoint(_scopes_of(one.turns))), group.order, group, one)
        for group in groups
        for one in left.values()
        if known.key(one) == group.first.key
    )
    for scope in dict.fromkeys(turn.scope for group in groups for turn in group.turns):
        here = [group for group in groups if group.heir_of is None and any(t.scope == scope for t in group.turns)]
        there = [one for one in left.values() if any(turn.scope == scope for turn in one.turns)]
        there.sort(key=_recorded_at)
        settle(
            (_distance(group, one, known), abs(mine - yours), group, one)
            for mine, group in enumerate(here)
            for yours, one in enumerate(there)
            if _is_comparable(group, one)
        )
    settle(
        (far, 0, group, one)
        for group in groups
        if group.heir_of is None
        for one in left.values()
        if _is_comparable(group, one)
        and all(scopes.ran(turn.scope) or scopes.is_gone(turn.scope) for turn in one.turns)
        and _site(group.first.source) == _site(one.source)
        and (far := _distance(group, one, known)) < FAR
    )


def _scopes_of(turns: Iterable[Turn]) -> set[str]:
    return {turn.scope for turn in turns}


def _recorded_at(one: Approved) -> str:
    return str(one.record["timestamp"]) if one.record is not None else ""


def _site(source: JSONObject) -> tuple[JSON, JSON]:
    return source.get("file"), source.get("function")


def _is_comparable(group: _Group, one: Approved) -> bool:
    """The same provider and the same kind of call."""
    if one.wire is None:
        return one.provider == group.first.provider
    return find_endpoint(one.wire.method, one.wire.url)[:2] == group.first.asked.endpoint[:2]


def _distance(group: _Group, one: Approved, known: _Known) -> int:
    question = known.question(one)
    if question is None:
        return len(comparing.compare(known.call(one), group.first.call).request_changes) * 100
    return request_distance(question, group.first.asked.key_fields)


def _kind(group: _Group, known: _Known) -> Kind | None:
    """What became of a call; None where it says what was approved."""
    if group.answers > 1:
        group.reasons.append(
            Reason(
                "response",
                f"{group.answers} different answers to one question in {group.calls} calls",
                'Make the call repeatable, or declare the model with "gate": "request" in the configuration.',
            )
        )
    before = group.heir_of
    if before is None:
        return Kind.REFUSED if group.reasons else Kind.NEW
    found = comparing.compare(known.call(before), group.first.call)
    asked = known.key(before)
    request = asked != group.first.key if asked is not None else bool(found.request_changes)
    if not request and not found.answer_changes:
        return None
    if group.reasons:
        return Kind.REFUSED
    if request:
        return Kind.BOTH if found.answer_changes else Kind.REQUEST
    return Kind.ANSWER


def _new_id(one: Candidate, taken: Collection[str]) -> str:
    """A name that a person recognises, the same on every machine that records the same call."""
    function = str(one.source.get("function") or "")
    stem = str(one.source.get("file") or "").rpartition("/")[2].partition(".")[0]
    said = stem if not function or "<" in function else function  # `<module>`, `<lambda>` and such name nothing
    name = re.sub(r"[^a-z0-9_-]+", "-", said.lower()).strip("-_")[:NAME_LENGTH_MAX] or one.provider
    digest = digest_fields(ID_TAG, [("key", one.key)]).removeprefix("sha256:")[:ID_DIGITS]
    base = made = f"{name}-{digest}"
    number = 1
    while made in taken:
        number += 1
        made = f"{base}-{number}"
    return made


def _pending(name: str, kind: Kind, group: _Group, scopes: Scopes) -> Pending:
    one = group.first
    before = group.heir_of
    source: JSONObject = {**one.source, "scopes": list(_places(group, before, scopes))}
    wire = one.wire if one.has_record else one.wire._replace(source=source)
    return Pending(
        name,
        kind,
        before.provider if before is not None else one.provider,
        one.gate,
        before.hash if before is not None else None,
        one.trace_id,
        _record(name, one, source) if one.has_record else None,
        wire,
        write_wire(wire).decode(),
        one.redacted,
        tuple(group.reasons),
    )


def _places(group: _Group, before: Approved | None, scopes: Scopes) -> Iterator[JSON]:
    """Where it was asked now; and, for tests that are there and did not run, where it was asked before."""
    older = [
        turn
        for turn in (before.turns if before is not None else ())
        if not scopes.ran(turn.scope) and not scopes.is_gone(turn.scope)
    ]
    counts = group.first.gate != BEHAVIOUR
    told: set[Turn] = set()
    for turn in [*group.turns, *older]:
        place = turn if counts else Turn(turn.scope)
        if place not in told:
            told.add(place)
            yield {"scope": turn.scope, "turn": turn.turn} if counts else {"scope": turn.scope}


def _record(name: str, one: Candidate, source: JSONObject) -> JSONObject:
    said = dict(one.draft.response)
    response: JSONObject = {key: said.pop(key) for key in ("content", "tokens_used") if key in said}
    return {
        "id": name,
        "timestamp": one.timestamp,
        "source": source,
        "request": cast("JSON", one.draft.request),
        "response": {**response, "latency_ms": round(one.latency_ms), **said},
    }
