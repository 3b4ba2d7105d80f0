"""The report of `traceforge audit vcr` for CI services.

A module of its own: `traceforge test` and the plugin load `ci_report`, and would load the whole audit with it.
"""

from __future__ import annotations

from traceforge.drift.drift_audit import DriftReport
from traceforge.report.ci_report import CIReport, build_report, list_test_cases, report_finding
from traceforge.report.drift_text import cause_finding, drift_summary
from traceforge.report.finding_locations import FindingLocator


def build_drift_report(drift: DriftReport, locations: FindingLocator) -> CIReport:
    """The report of `traceforge audit vcr`: one finding for each cause."""
    findings = [
        report_finding(cause_finding(cause), locations)._replace(scopes=cause.tests) for cause in drift.causes
    ]
    findings += [report_finding(finding, locations) for finding in drift.unchecked]
    counts = {
        "cassette_tests": len(drift.compared),
        "drifted_tests": len(drift.drifted_tests),
        "calls": sum(drift.compared.values()),
        "drifted_calls": len(drift.drifted),
        "unplayed": len(drift.unplayed),
    }
    cases = list_test_cases(drift.tests, findings)
    return build_report("audit vcr", findings, cases, counts, drift_summary(drift), int(drift.exit_code))
