"""How many calls each scope was approved with, and whether a run made as many.

In: the approved calls, how often each snapshot answered in each scope, and how the scopes ended. Out: the scopes that
made more or fewer calls of a request, and the calls that merely moved. Never: judges a scope that did not run whole
and pass, or whose number of calls is unknown.

The calls of one request are judged together: with a cache, or in another order, a call belongs to another test, and
another of the snapshots of this request may answer it. It has moved if the whole run makes as many calls as before.
A test that made none of them may make those of tests that did not run, and in each worker those of another worker.
Where workers recorded them, each in one test, a cache may save all but those of the first test (`per_worker`).
Scopes that tests share (fixtures, imports) are run by each worker: they make their calls as often as they were run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from math import inf
from typing import NamedTuple

from msgspec import Struct

from traceforge.config import Config
from traceforge.snapshots.formats.determinism_policy import find_model_rule
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.run_scopes import RunScopes, is_shared_scope, is_test_scope
from traceforge.wildcards import names_test

PASSED, FAILED = "passed", "failed"
MadeCalls = Mapping[tuple[str, str], int]  # by scope and snapshot id, in the last attempt of a test


def merge_worker_counts(worker_counts: Iterable[MadeCalls]) -> Counter[tuple[str, str]]:
    """The calls of all workers of a suite. A test that several of them run (`--dist each`) counts once: where it
    makes most calls.
    """
    merged: Counter[tuple[str, str]] = Counter()
    for counts in worker_counts:
        for (scope, name), times in counts.items():
            others = merged[scope, name]
            merged[scope, name] = max(others, times) if is_test_scope(scope) else others + times
    return merged


class ScopeState(StrEnum):
    """What a run tells about the calls of a scope."""

    COUNTED = "counted"  # it ran whole and passed
    REMOVED = "removed"  # it no longer exists, and makes no calls
    UNKNOWN = "unknown"  # it did not run, or not to its end


class CountRule(StrEnum):
    """How exactly the number of calls is judged."""

    EXACT = "exact"
    MAY_REPEAT = "may_repeat"  # more calls are allowed
    MAY_VARY = "may_vary"  # any number of calls is allowed
    ONCE = "once"  # repeated calls count as one: a client retries a failed call


class CountedRun(NamedTuple):
    """A run, as far as its calls are counted."""

    call_counts: MadeCalls
    outcomes: Mapping[str, str]  # of every scope that ran: "passed", "failed" or "skipped"
    scopes: RunScopes
    config: Config
    missed_scopes: Collection[str] = ()  # with a request that was not approved: later calls may not have been reached
    scope_starts: Mapping[str, int] = {}  # how often each shared scope was run
    workers: int = 1
    made_earlier: Mapping[tuple[str, str], int] = {}  # in earlier attempts of a test: what a cache saves the last one

    def find_state(self, scope: str) -> ScopeState:
        if scope in self.missed_scopes:
            return ScopeState.UNKNOWN
        if self.outcomes.get(scope) == PASSED:
            return ScopeState.COUNTED
        return ScopeState.REMOVED if self.scopes.is_removed(scope) else ScopeState.UNKNOWN


def find_count_rule(call: ApprovedCall, scope: str, config: Config) -> CountRule:
    """How exactly the calls of a snapshot are counted in a scope."""
    test, model_rule = config.test, find_model_rule(call.model, config.models)
    for rule, patterns in ((CountRule.MAY_VARY, test.may_vary), (CountRule.MAY_REPEAT, test.may_repeat)):
        if model_rule.calls == rule or names_test(patterns, scope):
            return rule
    raw = call.raw_response
    if raw is not None and raw.is_failure:
        return CountRule.ONCE
    return CountRule.MAY_REPEAT if raw is not None and raw.is_poll else CountRule.EXACT


class CountDifference(Struct, frozen=True):
    """A scope that makes more or fewer calls of a request than it was approved with."""

    call: ApprovedCall  # the first snapshot of the request in this scope, or at all
    scope: str
    approved: int
    actual: int
    is_gone: bool = False
    calls: tuple[ApprovedCall, ...] = ()  # all snapshots of the request


class CountReport(Struct, frozen=True):
    """The differences of a run, and those in which calls merely moved from one scope to another."""

    differences: list[CountDifference]
    moves: list[CountDifference]


def compare_counts(
    approved_calls: Iterable[ApprovedCall], request_keys: Mapping[str, str], run: CountedRun
) -> CountReport:
    """Compare the calls of a run with those that its scopes were approved with.

    `request_keys` are those of the snapshots by id; snapshots of one key answer the same request.
    """
    groups: dict[str, list[ApprovedCall]] = {}
    for call in approved_calls:
        groups.setdefault(request_keys.get(call.id, call.id), []).append(call)
    made_by_id: dict[str, Counter[str]] = {}
    for (scope, name), times in run.call_counts.items():
        made_by_id.setdefault(name, Counter())[scope] += times
    report = CountReport([], [])
    for calls in groups.values():
        _RequestCounts(calls, made_by_id, run).add_to(report)
    return report


class _RequestCounts:
    """The calls of one request, approved and made."""

    def __init__(self, calls: list[ApprovedCall], made_by_id: Mapping[str, Counter[str]], run: CountedRun) -> None:
        self._run = run
        self._calls = calls
        self.approved: dict[str, float] = {}  # infinite: unknown
        self.actual: Counter[str] = Counter()
        self.by_scope: dict[str, ApprovedCall] = {}
        per_worker_scopes = {turn.scope for call in calls for turn in call.turns if turn.per_worker}
        for call in calls:
            for scope, times in call.call_counts.items():
                self.approved[scope] = self.approved.get(scope, 0) + (times or inf)
                self.by_scope.setdefault(scope, call)
            self.actual.update(made_by_id.get(call.id, {}))
        # What a single process makes at least: all of them, unless a cache may save some.
        self._least = sum(times for scope, times in self.approved.items() if scope not in per_worker_scopes)
        self._least = max([self._least, *(self.approved[scope] for scope in per_worker_scopes)])
        self.is_unknown = any(not call.turns for call in calls) or inf in self.approved.values()

    def add_to(self, report: CountReport) -> None:
        differences = list(self._find_differences())
        if not differences:
            return
        more = sum(max(0, change) for _, change in differences)
        fewer = -sum(min(0, change) for _, change in differences)
        elsewhere = sum(times for scope, times in self.actual.items() if self._is_unjudged(scope))
        has_moved = more == fewer or (
            self._fits_elsewhere(differences)
            if more > fewer
            else fewer <= more + elsewhere or self._is_cached(differences)
        )
        target = report.moves if has_moved else report.differences
        target += [difference for difference, _ in differences]

    def _find_differences(self) -> Iterator[tuple[CountDifference, int]]:
        """The scopes with another number of calls, and by how many it differs."""
        for scope in {**self.approved, **self.actual}:
            approved = self.approved.get(scope, 0)
            state = self._run.find_state(scope)
            if state is ScopeState.UNKNOWN or approved == inf:
                continue
            actual = self.actual[scope] if state is ScopeState.COUNTED else 0
            if actual < approved:
                actual = min(int(approved), actual + self._count_earlier(scope))
            call = self.by_scope.get(scope, self._calls[0])
            change = self._count_change(call, scope, int(approved), actual)
            if change:
                is_gone = state is ScopeState.REMOVED
                yield CountDifference(call, scope, int(approved), actual, is_gone, tuple(self._calls)), change

    def _count_change(self, call: ApprovedCall, scope: str, approved: int, actual: int) -> int:
        rule = find_count_rule(call, scope, self._run.config)
        if rule is CountRule.MAY_VARY:
            return 0
        if rule is CountRule.ONCE:
            return bool(actual) - bool(approved)
        if rule is CountRule.MAY_REPEAT and approved:
            return min(0, actual - approved)
        if is_shared_scope(scope) and approved:
            runs = min(self._run.scope_starts.get(scope, 0), max(1, -(-actual // approved)))
            return actual - approved * max(1, runs)
        return actual - approved

    def _count_earlier(self, scope: str) -> int:
        return sum(self._run.made_earlier.get((scope, call.id), 0) for call in self._calls)

    def _is_unjudged(self, scope: str) -> bool:
        return self._run.find_state(scope) is ScopeState.UNKNOWN or self.approved.get(scope, 0) == inf

    def _fits_elsewhere(self, differences: Iterable[tuple[CountDifference, int]]) -> bool:
        """Whether scopes that were approved with no such call can have made those of others: of tests that did not
        run, or the same once more in another worker.
        """
        if any(difference.approved for difference, change in differences if change > 0):
            return False
        return self.is_unknown or self.actual.total() <= self._least * self._run.workers

    def _is_cached(self, differences: Iterable[tuple[CountDifference, int]]) -> bool:
        """Whether a cache can have saved what tests no longer make: all calls of a test, and each worker makes those
        of one.
        """
        if any(difference.approved for difference, change in differences if change > 0):
            return False
        if any(difference.actual or difference.is_gone for difference, change in differences if change < 0):
            return False
        return self._least <= self.actual.total() <= self._least * self._run.workers
