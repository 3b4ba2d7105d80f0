"""Check files as tests of pytest: `pytest .ai-checks` runs each check, or each of its cases, as an item.

In: a check file that pytest collects. Out: items that pass, or fail with what was expected and what there is. Never:
calls a model; passes where something could not be checked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from traceforge.checks.runs.check_plan import PlannedCheck, make_plan
from traceforge.checks.runs.check_results import CheckOutcome, CheckReport, CheckResult
from traceforge.checks.runs.check_run import replay_check
from traceforge.checks.runs.recorded_answers import RecordedAnswers
from traceforge.config import load_config
from traceforge.errors import TraceForgeError
from traceforge.redact.redactor import Redactor
from traceforge.report.check_text import check_lines
from traceforge.report.text_format import finding_lines
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.terminal import escape_text, one_line
from traceforge.traces.trace_store import TraceStore


class CheckFailed(Exception):
    """A check does not hold, or could not be checked."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.reason or result.outcome.value)
        self.result = result


class CheckFile(pytest.File):
    """A check file, whose checks pytest runs as tests."""

    def collect(self) -> Iterator[pytest.Item]:
        """An item for each check, or for each case.

        Raises:
            CollectError: the file breaks a rule, or cannot be read.
        """
        try:
            loaded = load_config(os.path.dirname(self.path))
            refuse_tracked_state(loaded.project)
            store = TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))
            self.config.add_cleanup(store.close)
            store.update_index()
            self.recorded = RecordedAnswers(loaded, store)
            self.redactor = Redactor.from_config(loaded.config)
            path = os.path.relpath(self.path)
            plan = make_plan(loaded.project, [path], set(), self.recorded.list_cases)
        except TraceForgeError as exc:
            raise self.CollectError(escape_text(f"{exc}\n    hint: {exc.hint}")) from None
        if plan.findings:
            raise self.CollectError(escape_text(finding_lines(plan.findings)))
        for planned in plan.checks:
            yield CheckItem.from_parent(self, name=planned.title, planned=planned)


class CheckItem(pytest.Item):
    """One check, or one case of it."""

    def __init__(self, *, planned: PlannedCheck, **options: Any) -> None:  # noqa: ANN401 (of pytest)
        super().__init__(**options)
        self.planned = planned

    def runtest(self) -> None:
        """Evaluate it on its recorded answers.

        Raises:
            CheckFailed: it does not hold, or could not be checked.
        """
        file = self.parent
        assert isinstance(file, CheckFile)
        result = replay_check(self.planned, file.recorded, file.redactor)
        if result.outcome is not CheckOutcome.PASSED:
            raise CheckFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401
        """What was expected and what there is; the traceback of any other error. Pytest repeats the first line."""
        if isinstance(excinfo.value, CheckFailed):
            result = excinfo.value.result
            finding = next(iter(result.list_findings()), None)
            message = finding.message.removeprefix(f"{self.planned.id}: ") if finding else result.outcome.value
            return escape_text("\n".join([one_line(message), "", *check_lines(CheckReport([result]))]))
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """The line of the check, from 0."""
        return self.path, self.planned.definition.mark.line - 1, self.name
