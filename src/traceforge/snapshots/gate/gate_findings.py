"""The gate: what a run asked, held against what was approved.

In: the player that answered a run in strict replay, the run, and the approved calls. Out: findings: requests that
nobody approved, snapshots that nobody asks for any more, changes that wait for approval. Never: lets a miss pass that
the application swallowed, or judges a snapshot whose test did not run, or did not pass.

One edit that repeats in many calls is one finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from traceforge import compare as comparing
from traceforge.canon import JSON, JSONObject
from traceforge.capture.run.network_access import RefusedConnection
from traceforge.compare.json_diff import same
from traceforge.config import ModelRule
from traceforge.findings import Finding
from traceforge.snapshots.record.run_scopes import Scopes, is_test
from traceforge.snapshots.tree.approved_calls import Approved
from traceforge.tuples import NamedTuple

if TYPE_CHECKING:
    from traceforge.replay.unmatched import UnmatchedRequest
    from traceforge.snapshots.record.pending_changes import Pending

CHANGED_RULE = "GT1"
NEW_RULE = "GT2"
UNUSED_RULE = "GT3"
PENDING_RULE = "GT4"
REFUSED_RULE = "GT5"

PASSED = "passed"
_CHANGED_HINT = "Undo the edit, or record and approve it."
_NEW_HINT = "Record and approve it, or do not ask it."
_UNUSED_HINT = "Remove it: traceforge snapshot rm {id} --reason TEXT; or allow it: --allow-unused."
_REFUSED_HINTS = {
    "remote": "Stand in for it on loopback, or switch it off in tests; if it does not matter: test.ignore_hosts.",
    "port": 'Allow the port in test.allow_ports; for servers that take any free port, "32768-60999".',
    "model": "Ask the model through an SDK or its base-URL variable, so that the answer is replayed.",
}
_PENDING_HINT = "See it: traceforge diff {id}; then approve or reject it."


Uses = Mapping[tuple[str, str], int]  # scope and snapshot: how often


class Shown(NamedTuple):
    """A finding, and what a person needs to judge it."""

    finding: Finding
    calls: int = 1
    scopes: tuple[str, ...] = ()
    nearest: str = ""
    comparison: comparing.Comparison | None = None  # of what was approved and what was asked
    places: str = ""  # where a comparison of what a model sees shows nothing

    def to_json(self) -> JSONObject:
        """The finding as `--json` prints it."""
        return {
            **self.finding.to_json(),
            "calls": self.calls,
            "scopes": list(self.scopes),
            "nearest": self.nearest,
            "comparison": self.comparison.to_json() if self.comparison is not None else None,
        }


def judge_misses(
    misses: Iterable[UnmatchedRequest], approved: Sequence[Approved], used: Uses, models: Mapping[str, ModelRule]
) -> list[Shown]:
    """One finding for each edit; calls in which it repeats are counted, one that is tried again only once."""
    by_name = {one.id: one for one in approved}
    groups: dict[tuple[str, str], list[Shown]] = {}
    asked: set[tuple[str, str]] = set()
    for miss in misses:
        if miss.request is not None:
            again = (miss.caller.scope, miss.request.key)
            if again in asked:
                continue
            asked.add(again)
        one = _judge(miss, by_name.get(miss.nearest), used, models)
        edit = comparing.edit_key(one.comparison) if one.comparison is not None else None
        groups.setdefault((one.finding.rule, edit or one.finding.message), []).append(one)
    return [_together(group) for group in groups.values()]


def judge_refused(
    refused: Mapping[RefusedConnection, int], ignored: Sequence[str], who: str = "(the command)"
) -> list[Shown]:
    """One finding for each place to which somebody wanted to connect, but for hosts that do not matter."""
    return [
        Shown(
            Finding(
                who, "", REFUSED_RULE, f"a connection to {one.address} was refused: {one.reason}",
                _REFUSED_HINTS.get(one.why, ""),
            ),
            0,
        )
        for one in sorted(refused)
        if not any(fnmatchcase(name, pattern) for pattern in ignored for name in (one.host, one.address))
    ]  # fmt: skip


def _judge(miss: UnmatchedRequest, nearest: Approved | None, used: Uses, models: Mapping[str, ModelRule]) -> Shown:
    scopes = (miss.caller.scope,)
    file = miss.caller.source or miss.caller.scope or "(unknown)"
    if miss.request is None or nearest is None or miss.reason:
        return Shown(Finding(file, "", NEW_RULE, miss.message, _NEW_HINT), 1, scopes, miss.nearest)
    from traceforge.snapshots.formats.record_draft import (
        draft_request,  # Most runs have nothing to compare, and need none of it.
    )
    from traceforge.snapshots.record.proposal import call_of
    from traceforge.wire.dialects import decode_request

    before = call_of(nearest)
    asked = miss.request.key_fields.body
    request = decode_request(miss.request.endpoint, asked) if isinstance(asked, dict) else {}
    if nearest.record is not None:
        request = draft_request(request, models)
    comparison = comparing.compare(before, comparing.Call(request, before.answer))
    shown = comparison if comparison.request_changes else None
    places = "" if shown else miss.message
    if _is_asked_by_another(nearest, miss.caller.scope, used):
        message = f"a request that nobody approved; the nearest is {nearest.id}"
        return Shown(Finding(file, "", NEW_RULE, message, _NEW_HINT), 1, scopes, nearest.id, shown, places)
    message = f"the request of {nearest.id} changed"
    return Shown(Finding(file, "", CHANGED_RULE, message, _CHANGED_HINT), 1, scopes, nearest.id, shown, places)


def _is_asked_by_another(nearest: Approved, scope: str, used: Uses) -> bool:
    """Whether a snapshot belongs to another call than the one that missed, which is then new and no edit of it.

    A test is judged by what it asked itself: the processes of a suite see different tests, and must say the same.
    """
    places = {turn.scope for turn in nearest.turns}
    if scope in places:
        return (scope, nearest.id) in used
    if places and is_test(scope):
        return True
    return any(name == nearest.id for _, name in used)


def _together(group: Sequence[Shown]) -> Shown:
    first = group[0]
    calls = sum(one.calls for one in group)
    scopes = tuple(dict.fromkeys(scope for one in group for scope in one.scopes))
    if calls == 1:
        return first._replace(scopes=scopes)
    finding = first.finding._replace(message=f"{first.finding.message}, and the same edit in {calls - 1} more")
    return first._replace(finding=finding, calls=calls, scopes=scopes)


def find_unused(
    approved: Iterable[Approved],
    used: Uses,
    missed: Collection[str],
    tests: Mapping[str, str],
    exit_code: int,
    scopes: Scopes,
) -> Iterator[Shown]:
    """Snapshots that no call asked for, of scopes that ran and passed and in which everything was answered.

    `missed` are scopes with a miss: what comes after it was not reached. A command that ran has passed if it ended
    with 0. A test that is gone asks for nothing. A snapshot that names no scope is judged only where there were no
    tests. What a fixture asks once in a process belongs to whichever test came first: where another test asked the
    same, and those of the snapshot did not, it is in use.
    """
    approved = list(approved)
    names = {name for _, name in used}

    def asked_elsewhere(one: Approved, places: Collection[str]) -> bool:
        alike = {other.id for other in approved if other.id in names and _same_request(one, other)}
        asking = {scope for scope, name in used if name in alike}
        return bool(asking) and asking.isdisjoint(places)

    def passed(scope: str) -> bool:
        if scope in missed:
            return False
        if is_test(scope):
            return tests.get(scope) == PASSED or scopes.is_gone(scope)
        return exit_code == 0 and scopes.ran(scope)

    for one in approved:
        places = [turn.scope for turn in one.turns]
        judged = all(map(passed, places)) if places else not tests and exit_code == 0 and not missed
        if one.id not in names and judged and not asked_elsewhere(one, places):
            finding = Finding(
                one.file, "", UNUSED_RULE, "no call asks for this any more", _UNUSED_HINT.format(id=one.id)
            )
            yield Shown(finding, 0, tuple(dict.fromkeys(places)), one.id)


def _same_request(one: Approved, other: Approved) -> bool:
    mine, theirs = one.wire, other.wire
    return (
        mine is not None
        and theirs is not None
        and (mine.method, mine.url, mine.request_headers) == (theirs.method, theirs.url, theirs.request_headers)
        and same(mine.body, theirs.body)
    )


def judge_pending(changes: Iterable[Pending]) -> Iterator[Shown]:
    """Changes that were recorded and that nobody approved."""
    from traceforge.snapshots.record.pending_changes import Kind

    told = {Kind.NEW: "is new", Kind.REQUEST: "has another request", Kind.ANSWER: "has another answer",
            Kind.BOTH: "has another request and another answer", Kind.REFUSED: "cannot be approved"}  # fmt: skip
    for change in changes:
        message = f"{change.id} {told[change.kind]}, and waits for approval"
        if change.kind is Kind.REFUSED:
            message = f"{change.id} {told[change.kind]}: {change.reasons[0].message}"
        finding = Finding(change.place, "", PENDING_RULE, message, _PENDING_HINT.format(id=change.id))
        yield Shown(finding, 0, tuple(dict.fromkeys(turn.scope for turn in change.turns)), change.id)


def failed_scopes(shown: Iterable[Shown]) -> list[str]:
    """The tests in which something was found; empty where something was found outside of tests."""
    scopes = list(dict.fromkeys(scope for one in shown if one.calls for scope in one.scopes))
    return scopes if all(map(is_test, scopes)) else []


def as_json(shown: Iterable[Shown]) -> list[JSON]:
    """Every finding with what belongs to it."""
    return [one.to_json() for one in shown]
