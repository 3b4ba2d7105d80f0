"""The stored reports of checks: `.ai-tests/checks`, and what `check run --json` prints.

In: the report of a run, or the bytes of a file. Out: a file without secrets, or a `StoredReport`. Never: keeps more
than the newest REPORTS_MAX reports, or reads a file that is not a report as an empty one.
"""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from msgspec import Struct

from traceforge.canon import JSONObject, parse_json
from traceforge.checks.runs.check_results import CheckReport
from traceforge.conversion import convert
from traceforge.errors import CannotRead, NotJSON
from traceforge.files import STATE_DIR
from traceforge.redact.redactor import Redactor
from traceforge.report_folder import ReportFolder
from traceforge.shape import find_problems

REPORTS_MAX = 100
REPORT_BYTES_MAX = 500_000_000
REPORTS = ReportFolder(f"{STATE_DIR}/checks", REPORTS_MAX, "run of checks", "traceforge check run")

_HINT = "Write it with: traceforge check run --json > FILE"
_TRACE_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")  # other references may name several answers


class StoredAssertion(Struct, frozen=True):
    """One assertion about one run, as a report has it."""

    name: str
    verdict: Literal["passed", "failed", "unchecked"]


class StoredRun(Struct, frozen=True):
    """One run of a report."""

    reference: str
    assertions: list[StoredAssertion]


class StoredCheck(Struct, frozen=True):
    """One check of a report."""

    file: str
    name: str
    case: str
    runs: list[StoredRun]
    rate: dict[str, Any] | None = None  # of a check with a pass rate, whose runs may have stopped early


class StoredReport(Struct, frozen=True):
    """What is read of a report; it has more fields."""

    checks: list[StoredCheck]

    @property
    def answers(self) -> frozenset[str]:
        """The traces that it looked at."""
        references = {run.reference for check in self.checks for run in check.runs}
        return frozenset(reference for reference in references if _TRACE_ID.match(reference))


def store_check_report(project: str, report: CheckReport, mode: str, redactor: Redactor) -> str:
    """Store a report; returns its name. A check file may quote a secret, so the report is redacted as a whole.

    Raises:
        CannotWrite: the disk is full, or we have no permission.
    """
    document = cast("JSONObject", redactor.redact_json({"mode": mode, **report.to_json()}).value)
    return REPORTS.store(project, document)


def read_report(data: bytes, path: str) -> StoredReport:
    """Read a report.

    Raises:
        CannotRead: it is not a report of `check run --json`.
    """
    try:
        value = parse_json(data)
    except NotJSON as exc:
        raise CannotRead(path, f"not a report of checks: {exc.message}", hint=_HINT) from None
    problems = find_problems(value, StoredReport)
    if problems:
        place = f"{problems[0].message} at {problems[0].path}"
        raise CannotRead(path, f"not a report of checks: {place}", hint=_HINT)
    return convert(value, StoredReport)
