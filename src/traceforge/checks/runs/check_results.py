"""The results of checks: each assertion of each run, and what follows for the check and the exit code.

In: outcomes. Out: the same with a verdict. Never: counts a run without an answer as one that failed or passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple, cast

from traceforge.canon import JSON, JSONObject
from traceforge.checks.assertions.outcome import Outcome, Verdict
from traceforge.checks.formats.assertion_types import assertion_label, assertion_tag
from traceforge.checks.runs.check_plan import PlannedCheck
from traceforge.findings import NO_ANSWER, ExitCode, Finding, exit_code

ASSERTION_RULE = "CK3"  # An assertion holds.


class CheckOutcome(StrEnum):
    """How a check ended. `UNCHECKED`: there was nothing to look at, or not enough to decide."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"


class RunResult(NamedTuple):
    """One answer: the outcome of each assertion, or why there was no answer."""

    reference: str  # the id of the trace, session or snapshot
    outcomes: Sequence[Outcome] = ()
    error: str = ""

    @property
    def verdict(self) -> Verdict:
        """Failed if an assertion failed, unchecked if one could not be checked or there was no answer."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        if Verdict.FAILED in verdicts:
            return Verdict.FAILED
        return Verdict.UNCHECKED if self.error or Verdict.UNCHECKED in verdicts else Verdict.PASSED


class PassRate(NamedTuple):
    """How many of the counted runs passed, and the true rates that fit them."""

    passed: int
    runs: int
    low: float
    high: float


class CheckResult(NamedTuple):
    """One check with its runs. `reason`: why it could not be checked. `rate`: of a check with a pass rate."""

    planned: PlannedCheck
    outcome: CheckOutcome
    runs: Sequence[RunResult] = ()
    reason: str = ""
    rate: PassRate | None = None

    def list_findings(self) -> list[Finding]:
        """A finding for each assertion that does not hold, and for what could not be checked; once for equal ones."""
        definition, check = self.planned.definition, self.planned.check
        findings: dict[tuple[int, Verdict], Finding] = {}
        runs = () if self.outcome is CheckOutcome.PASSED else self.runs  # With a pass rate, a run may fail.
        for run in runs:
            for place, outcome in enumerate(run.outcomes):
                if outcome.verdict is Verdict.PASSED or (place, outcome.verdict) in findings:
                    continue
                mark = definition.find_assertion_mark(place)
                label = assertion_label(check.assertions[place])
                message = f"{self.planned.id}: {label}: expected {outcome.expected}; got {outcome.actual}"
                rule = ASSERTION_RULE if outcome.verdict is Verdict.FAILED else NO_ANSWER
                findings[place, outcome.verdict] = Finding(
                    definition.file,
                    mark.text,
                    rule,
                    message,
                    f"Where: {outcome.where}.",
                )
        if self.reason:
            reason = Finding(definition.file, definition.mark.text, NO_ANSWER, f"{self.planned.id}: {self.reason}")
            return [*findings.values(), reason]
        return [*findings.values()]

    def to_json(self) -> JSONObject:
        outcome: JSONObject = {
            "outcome": self.outcome.value,
            "reason": self.reason,
            "rate": dict(self.rate._asdict()) if self.rate is not None else None,
        }
        return {**self.planned.to_json(), **outcome, "runs": [self._run_json(run) for run in self.runs]}

    def _run_json(self, run: RunResult) -> JSONObject:
        assertions = [
            {
                "type": assertion_tag(assertion),
                "name": assertion_label(assertion),
                "line": self.planned.definition.find_assertion_mark(place).line,
                **outcome.to_json(),
            }
            for place, (assertion, outcome) in enumerate(
                zip(self.planned.check.assertions, run.outcomes, strict=False)
            )
        ]
        return {
            "reference": run.reference,
            "verdict": run.verdict.value,
            "error": run.error,
            "assertions": cast("list[JSON]", assertions),
        }


class CheckReport(NamedTuple):
    """The results of all checks, and what was wrong with files."""

    results: Sequence[CheckResult]
    findings: Sequence[Finding] = ()

    @property
    def counts(self) -> Counter[str]:
        """How many checks ended in which way."""
        return Counter(result.outcome.value for result in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """1 if a check failed or a file breaks a rule, else 3 if something could not be checked, else 0."""
        codes = {exit_code(self.findings), *(_CODES[result.outcome] for result in self.results)}
        return next((code for code in (ExitCode.FINDINGS, ExitCode.UNCHECKED) if code in codes), ExitCode.OK)

    def list_findings(self) -> list[Finding]:
        """The findings of files, and those of checks."""
        return [*self.findings, *(finding for result in self.results for finding in result.list_findings())]

    def to_json(self) -> JSONObject:
        return {
            "exit_code": int(self.exit_code),
            "counts": {outcome.value: self.counts[outcome.value] for outcome in CheckOutcome},
            "checks": [result.to_json() for result in self.results],
            "findings": [dict(finding.to_json()) for finding in self.findings],
        }


_CODES = {
    CheckOutcome.PASSED: ExitCode.OK,
    CheckOutcome.FAILED: ExitCode.FINDINGS,
    CheckOutcome.UNCHECKED: ExitCode.UNCHECKED,
}


def worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """Of the outcomes of one assertion for several choices: the one that decides."""
    order = (Verdict.FAILED, Verdict.UNCHECKED, Verdict.PASSED)
    return min(outcomes, key=lambda outcome: order.index(outcome.verdict))
