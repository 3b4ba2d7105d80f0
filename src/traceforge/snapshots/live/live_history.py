"""The reports of live checks, so that it can be seen how answers vary over time: what `check-live --json` prints."""

from __future__ import annotations

from traceforge.report_folder import ReportFolder
from traceforge.snapshots.live.live_journal import FOLDER

REPORTS_FOLDER = f"{FOLDER}/reports"
REPORTS_MAX = 100

_REPORTS = ReportFolder(REPORTS_FOLDER, REPORTS_MAX, "live check", "traceforge check-live")

store_report = _REPORTS.store
list_reports = _REPORTS.list_names
read_report = _REPORTS.read
read_newest_reports = _REPORTS.read_newest
