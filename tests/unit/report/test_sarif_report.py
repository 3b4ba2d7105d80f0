"""A report as SARIF."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.ci_reports import ci_report, reported_finding
from support.published_schemas import SARIF, problems
from traceforge.audit.rule_catalogue import RULES
from traceforge.findings import Finding
from traceforge.report.ci_report import CIReport, ReportedFinding
from traceforge.report.finding_locations import SourceLocation
from traceforge.report.sarif_report import fingerprint, sarif_bytes


def run_of(report: CIReport) -> Any:
    """The only run of a valid document."""
    document = json.loads(sarif_bytes(report))
    assert [] == problems(SARIF, document)
    [run] = document["runs"]
    return run


def test_a_finding_is_a_result_on_its_line() -> None:
    """With its rule, its file from the root of the repository, and the test."""
    [result] = run_of(ci_report(reported_finding(7)))["results"]

    place = result["locations"][0]["physicalLocation"]
    assert ("GT1", "error") == (result["ruleId"], result["level"])
    assert {"uri": "app/ask.py", "uriBaseId": "%SRCROOT%"} == place["artifactLocation"]
    assert {"startLine": 7} == place["region"]
    assert "tests/test_a.py::test_a" == result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]


def test_every_rule_is_listed_with_its_sentence_and_its_help() -> None:
    """In a stable order: an index names the same rule as the id."""
    run = run_of(ci_report(*(reported_finding(rule=rule) for rule in RULES)))

    rules = run["tool"]["driver"]["rules"]
    assert RULES == {rule["id"]: rule["shortDescription"]["text"] for rule in rules}
    assert all(rule["help"]["text"].endswith(f"traceforge help {rule['id']}") for rule in rules)
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_an_unchecked_finding_without_a_file_is_a_notification() -> None:
    """Any other finding without a file is at the manifest: hosts refuse a result without a file."""
    unchecked = ReportedFinding(Finding("(the command)", "", "IO", "no call was replayed at all"), SourceLocation())
    nowhere = ReportedFinding(Finding("(unknown)", "", "GT2", "a request that nobody approved"), SourceLocation())

    run = run_of(ci_report(unchecked, nowhere))

    [result] = run["results"]
    [notification] = run["invocations"][0]["toolExecutionNotifications"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert ("GT2", ".ai-snapshots/manifest.json") == (result["ruleId"], uri)
    assert ("IO", "no call was replayed at all") == (
        notification["descriptor"]["id"],
        notification["message"]["text"],
    )
    assert run["invocations"][0]["executionSuccessful"] is False


def test_a_fingerprint_survives_a_moved_line_and_another_count() -> None:
    """And differs between two snapshots, two rules and two files."""
    finding = reported_finding(1)
    moved = finding._replace(
        location=SourceLocation("app/ask.py", 99), finding=finding.finding._replace(message="and 3 more")
    )

    assert fingerprint(finding) == fingerprint(moved)
    others = [
        finding._replace(snapshot_id="b"),
        reported_finding(1, "GT2"),
        finding._replace(location=SourceLocation("b.py", 1)),
    ]
    assert 4 == len({fingerprint(each) for each in (finding, *others)})


@settings(max_examples=30)
@given(st.text(max_size=40), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20))
def test_any_text_is_valid(text: str, file: str) -> None:
    """In messages and in file names."""
    run_of(ci_report(reported_finding(message=text, details=text)._replace(location=SourceLocation(file, 1))))
