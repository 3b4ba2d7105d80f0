"""`traceforge.run_check(…)`: a check as a file has it, written in Python.

    run_check(name="a refund is offered", trace_id="0b9f1f0e", assertions=[{"type": "contains", "value": "refund"}])

In: the fields of a check file, and the recorded answers of the project around the current folder. Out: nothing, or an
`AssertionError` with each assertion that does not hold. Never: calls a model, or passes where something could not be
checked.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import cast

from traceforge.canon import JSON, JSONObject, ascii_json
from traceforge.checks.formats.check_file import read_check_file
from traceforge.checks.runs.check_plan import plan_checks
from traceforge.checks.runs.check_results import CheckOutcome, CheckReport
from traceforge.checks.runs.check_run import replay_checks
from traceforge.checks.runs.recorded_answers import RecordedAnswers
from traceforge.config import CHECKS_DIR, current_folder, load_config
from traceforge.redact.redactor import Redactor
from traceforge.snapshots.tree.tracked_state import refuse_tracked_state
from traceforge.traces.trace_store import TraceStore

FILE = "(run_check)"  # where a check file has its name


def run_check(*, name: str, assertions: list[dict[str, JSON]], **fields: JSON) -> None:
    """Run one check, with the fields of a [check file](format-check.md), on its recorded answers.

    A data set is beside the check files of the project, in `.ai-checks`.

    Raises:
        AssertionError: it does not hold for an answer, or could not be checked.
        InvalidFile: a field is wrong.
    """
    loaded = load_config(current_folder())
    refuse_tracked_state(loaded.project)
    file = os.path.join(os.path.relpath(loaded.project), CHECKS_DIR, FILE)
    value: JSONObject = {"name": name, "assertions": cast("list[JSON]", assertions), **fields}
    definitions = read_check_file(ascii_json(value).encode(), file)
    with closing(TraceStore(os.path.join(loaded.project, loaded.config.traces_dir))) as store:
        store.update_index()
        recorded = RecordedAnswers(loaded, store)
        checks = plan_checks(definitions, loaded.project, recorded.list_cases)
        report = replay_checks(checks, recorded, Redactor.from_config(loaded.config))
    if any(result.outcome is not CheckOutcome.PASSED for result in report.results):
        raise AssertionError(_describe(report))


def _describe(report: CheckReport) -> str:
    return "\n".join(finding.message.removeprefix(f"{finding.file}::") for finding in report.list_findings())
