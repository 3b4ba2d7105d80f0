"""Runs checks, on recorded answers or on new ones.

In: a plan, and where answers come from. Out: a report. Never: stops at the first failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import UNSET

from traceforge.checks.assertions.answer import FailedCall
from traceforge.checks.assertions.evaluation import evaluate
from traceforge.checks.assertions.judge_assertions import EvaluationTools
from traceforge.checks.runs.check_plan import CheckPlan, PlannedCheck
from traceforge.checks.runs.check_results import (
    CheckOutcome,
    CheckReport,
    CheckResult,
    RunResult,
    worst_outcome,
)
from traceforge.checks.runs.judgement import judge_runs
from traceforge.checks.runs.live_answers import LiveAnswers
from traceforge.checks.runs.recorded_answers import AnsweredRun, RecordedAnswers
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.redact.redactor import Redactor
from traceforge.terminal import ProgressReporter, no_progress

NO_ANSWER_REASON = "no recorded answer: record the call with `traceforge run`"
ELSEWHERE_ADVICE = (
    "Traces stay on the machine that recorded them. For CI and for colleagues, record and approve the call "
    '(`traceforge record -- COMMAND`, then `traceforge approve ID --reason "…"`), and name it in the check: '
    "`snapshot: ID`"
)


def replay_checks(
    plan: CheckPlan, recorded: RecordedAnswers, redactor: Redactor, progress: ProgressReporter = no_progress
) -> CheckReport:
    """Evaluate every check on its recorded answers.

    Raises:
        MissingExtra: an assertion needs a package that is not installed.
    """
    planned: Iterable[PlannedCheck] = progress(plan.checks, len(plan.checks), "checking")
    return CheckReport([replay_check(check, recorded, redactor) for check in planned], plan.findings)


def replay_check(planned: PlannedCheck, recorded: RecordedAnswers, redactor: Redactor) -> CheckResult:
    """Evaluate one check on its recorded answers.

    Raises:
        MissingExtra: an assertion needs a package that is not installed.
    """
    try:
        runs = recorded.find_runs(planned.check)
    except NotFound as exc:
        advice = "" if planned.check.snapshot is not UNSET else f". {ELSEWHERE_ADVICE}"
        return CheckResult(planned, CheckOutcome.UNCHECKED, reason=f"{exc}{advice}")
    except (CannotRead, InvalidFile, NotJSON) as exc:
        return CheckResult(planned, CheckOutcome.UNCHECKED, reason=str(exc))
    if not runs:
        return CheckResult(planned, CheckOutcome.UNCHECKED, reason=f"{NO_ANSWER_REASON}. {ELSEWHERE_ADVICE}")
    tools = EvaluationTools(redactor, recorded.find_reply)
    return judge_runs(planned, (evaluate_run(planned, run, tools) for run in runs), is_recorded=True)


def run_checks_live(
    plan: CheckPlan, live: LiveAnswers, redactor: Redactor, jobs: int, progress: ProgressReporter = no_progress
) -> CheckReport:
    """Evaluate every check on new answers of its model, `jobs` checks at a time; the runs of a check are in order.

    Raises:
        MissingExtra: an assertion needs a package that is not installed.
    """

    pool = ThreadPoolExecutor(jobs, "traceforge-check")
    try:
        results = pool.map(partial(_check_live, live, redactor), plan.checks)
        return CheckReport(list(progress(results, len(plan.checks), "asking")), plan.findings)
    finally:
        pool.shutdown(cancel_futures=True)  # After Ctrl-C, checks that have not begun ask nothing.


def _check_live(live: LiveAnswers, redactor: Redactor, planned: PlannedCheck) -> CheckResult:
    """One check between its fixtures. It ends as soon as it is decided, and the teardown runs in any case."""
    tools = EvaluationTools(redactor, partial(live.ask_judge, planned))
    failure = live.set_up(planned.check)
    try:
        runs = (evaluate_run(planned, run, tools) for run in live.ask_model(planned))
        if failure:
            result = CheckResult(planned, CheckOutcome.UNCHECKED, reason=failure)
        else:
            result = judge_runs(planned, runs, live.runs)
    finally:
        failure = live.tear_down(planned.check)
    if failure and result.outcome is not CheckOutcome.FAILED:
        return result._replace(outcome=CheckOutcome.UNCHECKED, reason=result.reason or failure)
    return result


def evaluate_run(planned: PlannedCheck, run: AnsweredRun, tools: EvaluationTools) -> RunResult:
    """Every assertion on one answer; with several choices, an assertion must hold for each."""
    answers = run.answers
    if isinstance(answers, FailedCall):
        return RunResult(run.reference, error=f"{run.reference}: {answers.reason}".removeprefix(": "))
    outcomes = [
        worst_outcome(evaluate(assertion, answer, tools) for answer in answers)
        for assertion in planned.check.assertions
    ]
    return RunResult(run.reference, outcomes)
