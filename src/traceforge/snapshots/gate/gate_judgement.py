"""The gate: whether the calls of a run are the approved ones. `traceforge test` and the pytest plugin both use it.

In: what the processes of a run asked, and how its tests ended. Out: findings, and what could not be checked. Never:
passes an unapproved request because the application swallowed the error, or judges from one process of
several what only all of them know, such as a snapshot that no test asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, field, to_builtins

from traceforge.build_environment import build_environment
from traceforge.canon import JSONObject
from traceforge.capture.hook.library_answers import LibraryScope, merge_counts
from traceforge.capture.hook.pytest_scopes import START
from traceforge.capture.run.network_access import RefusedConnection
from traceforge.conversion import convert
from traceforge.findings import IO, Finding
from traceforge.match_key import NO_KEY_HINT, requires_comparison
from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE, advise_parameters
from traceforge.snapshots.gate.gate_findings import (
    NEW_HINT,
    NEW_RULE,
    GateFinding,
    describe_moved_calls,
    find_changed_counts,
    find_recorder_answers,
    find_refused_connections,
    find_skipped,
    find_unapproved_requests,
    find_unused,
)
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.snapshots.tree.call_counts import FAILED, PASSED, CountedRun, compare_counts, merge_worker_counts
from traceforge.snapshots.tree.project_snapshots import ProjectSnapshots, make_run_scopes
from traceforge.snapshots.tree.run_scopes import RunScopes, find_renamed_tests, is_test_scope

if TYPE_CHECKING:
    from traceforge.replay.unmatched import UnmatchedRequest

OUTSIDE_TESTS = "(outside of the tests)"


class RunObservations(Struct):
    """What one process of a run asked, and how it was answered. Plain values: a pytest-xdist worker sends them."""

    uses: list[tuple[str, str, int]] = field(default_factory=list)  # scope, snapshot id, times
    earlier_uses: list[tuple[str, str, int]] = field(default_factory=list)  # of those, in earlier attempts of a test
    missed_scopes: list[str] = field(default_factory=list)  # with a request that was not approved
    deviations: int = 0  # of those requests, approved ones that only `record --fresh` records again
    unreported_misses: list[str] = field(default_factory=list)  # messages that are in no test's report
    unreported_refusals: list[tuple[str, str, int]] = field(default_factory=list)  # address, why, times
    trace_ids: list[str] = field(default_factory=list)  # of calls that were recorded
    key_names: list[str] = field(default_factory=list)  # API key variables that were set
    base_urls: dict[str, str] = field(default_factory=dict)  # base-URL variables that were set
    skipped_modules: list[str] = field(default_factory=list)  # modules that were skipped as a whole
    unseen: list[tuple[str, str]] = field(default_factory=list)  # what could not be watched, and what to do
    gone_cases: list[str] = field(default_factory=list)  # approved cases of parametrised tests that are gone
    scope_starts: dict[str, int] = field(default_factory=dict)  # of scopes that tests share: how often each was run
    broken_scopes: list[str] = field(default_factory=list)  # of those, the ones that failed
    trace_workers: dict[str, str] = field(default_factory=dict)  # by trace id, in a worker of pytest-xdist
    workers: int = 0  # processes that ran tests
    moved_calls: list[str] = field(default_factory=list)  # by `judge_run`: calls that other scopes make than before
    ungated_calls: int = 0  # of tests that are marked as off
    library_answers: list[tuple[str, str, int]] = field(default_factory=list)  # library, scope, times
    prompt_only_ids: list[str] = field(default_factory=list)  # of snapshots that answered; gated on the prompt alone
    answer_parameters: list[str] = field(default_factory=list)  # what those could send to have their answers checked
    uncompared_calls: int = 0  # with redacted parts that could not be compared
    uncompared_parts: int = 0
    unknown_heads: int = 0  # calls whose snapshot does not say where they went, or which headers they had
    synthesised: int = 0  # answers made from snapshots without a raw response
    volatile: dict[str, int] = field(default_factory=dict)  # declarations of volatile parts, times used
    uncompared_fields: dict[str, int] = field(default_factory=dict)  # paths that are never compared, times met

    @property
    def use_counts(self) -> Counter[tuple[str, str]]:
        """How often each snapshot answered, by scope and id."""
        return _count_uses(self.uses)

    @property
    def last_use_counts(self) -> Counter[tuple[str, str]]:
        """The same without earlier attempts of tests that were run again."""
        return _count_uses(self.uses) - _count_uses(self.earlier_uses)

    def list_outcomes(self, tests: Mapping[str, str], command: str = "") -> dict[str, str]:
        """How each scope of the run ended; `command` is the scope of a command that passed."""
        shared = {**dict.fromkeys(self.scope_starts, PASSED), **dict.fromkeys(self.broken_scopes, FAILED)}
        return {**tests, **shared, **({command: PASSED} if command else {})}

    @property
    def snapshot_ids(self) -> set[str]:
        """The ids of the snapshots that answered a call."""
        return {name for _, name, _ in self.uses}

    @property
    def request_gated(self) -> int:
        """Calls of which only the prompt is compared."""
        return sum(times for _, name, times in self.uses if name in self.prompt_only_ids)

    @property
    def replayed(self) -> int:
        """Calls that were answered from snapshots."""
        return sum(times for _, _, times in self.uses)

    @property
    def library_counts(self) -> Counter[LibraryScope]:
        """Calls that recorders and mocks of the suite answered, by library and scope."""
        return merge_counts(self.library_answers)

    def to_builtins(self) -> dict[str, Any]:
        """Plain values, for another process."""
        return to_builtins(self)  # type: ignore[no-any-return]

    @classmethod
    def from_builtins(cls, value: object) -> RunObservations:
        """The observations that another process sent with `to_builtins`."""
        return convert(value, RunObservations)


def _count_uses(uses: Iterable[tuple[str, str, int]]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for scope, name, times in uses:
        counts[scope, name] += times
    return counts


class RunJudgement(Struct, frozen=True):
    """The judgement of a whole run. An item in either list makes it red."""

    findings: list[GateFinding]
    unchecked: list[Finding]


def observe_replay(snapshots: ProjectSnapshots) -> RunObservations:
    """What the player of this process was asked so far."""
    player = snapshots.player
    used_ids = {name for _, name in player.use_counts}
    prompt_only = [call for call in snapshots.approved_calls if call.gate == REQUEST_GATE and call.id in used_ids]
    unknown_ids = {call.id for call in snapshots.approved_calls if call.has_unknown_head}
    workers = player.worker_uses.values()
    return RunObservations(
        uses=_list_uses(merge_worker_counts(worker.counts for worker in workers)),
        workers=1,
        earlier_uses=_list_uses(merge_worker_counts(worker.earlier_counts for worker in workers)),
        missed_scopes=sorted({request.caller.scope for request in player.unmatched}),
        deviations=sum(request.needs_fresh for request in player.unmatched),
        prompt_only_ids=sorted(call.id for call in prompt_only),
        answer_parameters=_list_answer_parameters(prompt_only),
        uncompared_calls=player.uncompared_call_count,
        uncompared_parts=player.uncompared_part_count,
        unknown_heads=sum(times for (_, name), times in player.use_counts.items() if name in unknown_ids),
        synthesised=player.synthesised_count,
        volatile=dict(player.volatile_counts),
        uncompared_fields=dict(player.uncompared_field_counts),
    )


def merge_observations(observations: Iterable[RunObservations]) -> RunObservations:
    """The observations of all processes of a run as one."""
    observations = list(observations)
    merged = RunObservations(
        uses=_list_uses(merge_worker_counts(_count_uses(process.uses) for process in observations)),
        earlier_uses=_list_uses(merge_worker_counts(_count_uses(process.earlier_uses) for process in observations)),
    )
    volatile: Counter[str] = Counter()
    uncompared_fields: Counter[str] = Counter()
    scope_starts: Counter[str] = Counter()
    for process in observations:
        merged.gone_cases += process.gone_cases
        merged.broken_scopes += process.broken_scopes
        merged.trace_workers |= process.trace_workers
        merged.moved_calls += process.moved_calls
        merged.workers += process.workers
        scope_starts.update(process.scope_starts)
        merged.missed_scopes += process.missed_scopes
        merged.deviations += process.deviations
        merged.unreported_misses += process.unreported_misses
        merged.unreported_refusals += process.unreported_refusals
        merged.trace_ids += process.trace_ids
        merged.key_names += process.key_names
        merged.base_urls |= process.base_urls
        merged.skipped_modules += process.skipped_modules
        merged.unseen += process.unseen
        merged.ungated_calls += process.ungated_calls
        merged.library_answers += process.library_answers
        merged.uncompared_calls += process.uncompared_calls
        merged.uncompared_parts += process.uncompared_parts
        merged.unknown_heads += process.unknown_heads
        merged.synthesised += process.synthesised
        volatile.update(process.volatile)
        uncompared_fields.update(process.uncompared_fields)
    merged.key_names = sorted({*merged.key_names})
    merged.prompt_only_ids = sorted({name for process in observations for name in process.prompt_only_ids})
    merged.answer_parameters = sorted({text for process in observations for text in process.answer_parameters})
    merged.volatile = dict(volatile)
    merged.uncompared_fields = dict(uncompared_fields)
    merged.scope_starts = dict(scope_starts)
    return merged


def _list_answer_parameters(calls: Iterable[ApprovedCall]) -> list[str]:
    """What calls whose prompts alone are compared could send, to have their answers compared too."""
    requests = [(cast("JSONObject", call.record["request"]), call.provider) for call in calls if call.record]
    advice = {advise_parameters(str(request.get("gate_reason", "")), provider) for request, provider in requests}
    return sorted(text for text in advice if text is not None)


def _list_uses(counts: Mapping[tuple[str, str], int]) -> list[tuple[str, str, int]]:
    return [(scope, name, times) for (scope, name), times in counts.items()]


def judge_requests(
    snapshots: ProjectSnapshots,
    unmatched: Iterable[UnmatchedRequest],
    refused: Mapping[RefusedConnection, int],
    location: str,
) -> list[GateFinding]:
    """Unapproved requests, and connections that were refused: those of one test, or of a whole run."""
    findings = find_unapproved_requests(
        unmatched, snapshots.approved_calls, snapshots.player.use_counts, snapshots.keys
    )
    return findings + find_refused_connections(refused, snapshots.loaded.config.test.ignore_hosts, location)


def judge_run(
    snapshots: ProjectSnapshots,
    observations: RunObservations,
    tests: Mapping[str, str],
    *,
    command_passed: bool,
    allow_unused: bool = False,
) -> RunJudgement:
    """What only the whole run can tell; `judge_requests` has judged what each test asked.

    `tests` maps node ids of tests, and of modules that were skipped, to `passed`, `failed` or `skipped`.
    `command_passed`: a command ran whose own calls, outside of tests, were all made; False inside pytest, which is
    not the command that was recorded.
    """
    findings = _judge_unreported(observations, snapshots.loaded.config.test.ignore_hosts)
    config = snapshots.loaded.config
    command = snapshots.player.default_scope
    run_scopes = make_run_scopes(snapshots.loaded, {*tests, command}, observations.gone_cases)
    outcomes = observations.list_outcomes(tests, command if command_passed else "")
    renamed_tests = find_renamed_tests(
        {turn.scope for call in snapshots.approved_calls for turn in call.turns}, tests
    )
    if _is_partial(snapshots, {*tests, *renamed_tests}, run_scopes):  # Perhaps not every conftest.py was imported.
        outcomes.pop(START, None)
    counted_run = CountedRun(
        observations.last_use_counts,
        outcomes,
        run_scopes,
        config,
        {*observations.missed_scopes},
        observations.scope_starts,
        max(1, observations.workers),
        _count_uses(observations.earlier_uses),
    )
    unused = list(find_unused(snapshots.approved_calls, observations.use_counts, counted_run))
    unused_ids = {finding.nearest for finding in unused}
    if not allow_unused:
        findings += unused
    counted_calls = [call for call in snapshots.approved_calls if call.id not in unused_ids]
    counts = compare_counts(counted_calls, snapshots.player.request_keys, counted_run)
    findings += find_changed_counts(counts.differences)
    skipped = find_skipped(snapshots.approved_calls, tests, config.test.may_skip)
    observations.moved_calls = describe_moved_calls(counts.moves, renamed_tests)
    unseen = [Finding(OUTSIDE_TESTS, "", IO, message, hint) for message, hint in dict.fromkeys(observations.unseen)]
    unseen += find_recorder_answers(observations.library_counts, config.test.cassette_tests)
    return RunJudgement(findings, [*unseen, *_find_uncompared(snapshots, observations), *skipped])


def _judge_unreported(observations: RunObservations, ignored_hosts: Sequence[str]) -> list[GateFinding]:
    """The requests and refused connections that belong to no report of a test."""
    refused: Counter[RefusedConnection] = Counter()
    for address, why, times in observations.unreported_refusals:
        refused[RefusedConnection(address, why)] += times
    return [
        *(
            GateFinding(Finding(OUTSIDE_TESTS, "", NEW_RULE, message, NEW_HINT), 1)
            for message in observations.unreported_misses
        ),
        *find_refused_connections(refused, ignored_hosts, OUTSIDE_TESTS),
    ]


def _is_partial(snapshots: ProjectSnapshots, tests: Collection[str], run_scopes: RunScopes) -> bool:
    """Whether tests with approved calls did not run, although they exist."""
    scopes = {turn.scope for call in snapshots.approved_calls for turn in call.turns}
    return any(is_test_scope(scope) and scope not in tests and not run_scopes.is_removed(scope) for scope in scopes)


def _find_uncompared(snapshots: ProjectSnapshots, observations: RunObservations) -> list[Finding]:
    """Redacted parts that could not be compared, where the project demands that they are."""
    setting = snapshots.loaded.config.match.redacted
    if not observations.uncompared_calls or not requires_comparison(setting, build_environment()):
        return []
    calls = "1 call" if observations.uncompared_calls == 1 else f"{observations.uncompared_calls} calls"
    message = f"redacted parts of {calls} could not be compared"
    if snapshots.player.has_match_key:
        hint = "They were recorded without the match key: record them again, and approve them."
    else:
        message, hint = f"{message}: the match key is missing", NO_KEY_HINT
    return [Finding("(the run)", "", IO, message, hint)]
