"""The verdict about a check while its runs come in.

In: the results of runs, one after the other. Out: the result of the check, as soon as it is sure. Never: counts a run
without an answer as one that passed or failed, or takes what is undecided for a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from msgspec import UNSET

from traceforge.checks.assertions.outcome import Verdict
from traceforge.checks.formats.check_types import Check, make_pass_rate_test
from traceforge.checks.runs.check_plan import PlannedCheck
from traceforge.checks.runs.check_results import CheckOutcome, CheckResult, PassRate, RunResult
from traceforge.statistics.pass_rate import RUNS_MAX, PassRateState, PassRateTest, PassRateVerdict

UNANSWERED_MAX = 3  # live calls in a row without an answer, after which a check gives up


def runs_limit(check: Check) -> int:
    """How many runs a check may take: its `runs`; else one, or what decides nearly every test of its pass rate."""
    if check.runs is not UNSET:
        return int(check.runs)
    return 1 if check.pass_rate is UNSET else _runs_advised(make_pass_rate_test(check))


def judge_runs(
    planned: PlannedCheck, runs: Iterator[RunResult], runs_max: int = 0, *, is_recorded: bool = False
) -> CheckResult:
    """Take runs until the check is decided; `runs_max` is the cap of a pass rate, if not that of the check.

    A recorded call that failed at the provider does not count: its client has tried it again, or given up.
    """
    if planned.check.pass_rate is UNSET:
        results = list(runs) if is_recorded else list(_take_until_given_up(runs))
        return _judge_every_run(planned, results, is_recorded=is_recorded)
    unanswered_max = RUNS_MAX if is_recorded else UNANSWERED_MAX
    return _judge_pass_rate(planned, runs, runs_max or runs_limit(planned.check), unanswered_max)


def _take_until_given_up(runs: Iterator[RunResult]) -> Iterator[RunResult]:
    """The runs up to the last of too many in a row without an answer: the provider is asked no more."""
    unanswered = 0
    for run in runs:
        yield run
        unanswered = unanswered + 1 if run.error else 0
        if unanswered >= UNANSWERED_MAX:
            return


def _judge_every_run(planned: PlannedCheck, runs: Sequence[RunResult], *, is_recorded: bool) -> CheckResult:
    """The result of a check that must hold in every run."""
    answered = [run for run in runs if not run.error]
    verdicts = [run.verdict for run in (answered or runs if is_recorded else runs)]
    if Verdict.FAILED in verdicts:
        return CheckResult(planned, CheckOutcome.FAILED, runs)
    if Verdict.UNCHECKED in verdicts or not runs:
        return CheckResult(planned, CheckOutcome.UNCHECKED, runs, _list_errors(runs))
    return CheckResult(planned, CheckOutcome.PASSED, runs)


def _judge_pass_rate(
    planned: PlannedCheck, runs: Iterator[RunResult], runs_max: int, unanswered_max: int
) -> CheckResult:
    test = make_pass_rate_test(planned.check, runs_max)
    state, results, unanswered = test.start(), list[RunResult](), 0
    for run in runs:
        results.append(run)
        unanswered = unanswered + 1 if run.verdict is Verdict.UNCHECKED else 0
        if run.verdict is not Verdict.UNCHECKED:
            state = state.add(run.verdict is Verdict.PASSED)
        if state.verdict is not PassRateVerdict.RUNNING or unanswered >= unanswered_max:
            break
    rate = PassRate(state.passed, state.runs, state.interval.low, state.interval.high)
    decided = {PassRateVerdict.PASSED: CheckOutcome.PASSED, PassRateVerdict.FAILED: CheckOutcome.FAILED}
    outcome = decided.get(state.verdict, CheckOutcome.UNCHECKED)
    reason = _describe_undecided(state, results) if outcome is CheckOutcome.UNCHECKED else ""
    return CheckResult(planned, outcome, results, reason, rate)


def _describe_undecided(state: PassRateState, runs: Sequence[RunResult]) -> str:
    decided_at = f"a pass rate of {state.test.pass_rate:g} with a margin of {state.test.margin:g}"
    plan = replace(state.test, runs_max=_runs_advised(state.test)).plan()
    needed = f"{plan.runs_to_pass} runs at least, and about {plan.at_pass_rate.mean_runs:.0f} on average"
    text = f"undecided after {state.runs} runs, of which {state.passed} passed: {decided_at} needs {needed}"
    errors = _list_errors(runs)
    return f"{text}; {errors}" if errors else text


def _list_errors(runs: Sequence[RunResult]) -> str:
    return "; ".join(dict.fromkeys(run.error for run in runs if run.error))


@lru_cache(maxsize=64)
def _runs_advised(test: PassRateTest) -> int:
    return test.plan().runs_advised or RUNS_MAX
