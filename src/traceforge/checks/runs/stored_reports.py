"""The reports of checks, so that runs can be compared later: what `check run --json` prints, without secrets."""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSONObject
from traceforge.checks.runs.check_results import CheckReport
from traceforge.files import STATE_DIR
from traceforge.redact.redactor import Redactor
from traceforge.report_folder import ReportFolder

REPORTS = ReportFolder(f"{STATE_DIR}/checks", 100, "run of checks", "traceforge check run")


def store_check_report(project: str, report: CheckReport, mode: str, redactor: Redactor) -> str:
    """Store a report; returns its name. A check file may quote a secret, so the report is redacted as a whole.

    Raises:
        CannotWrite: the disk is full, or we have no permission.
    """
    document = cast("JSONObject", redactor.redact_json({"mode": mode, **report.to_json()}).value)
    return REPORTS.store(project, document)
