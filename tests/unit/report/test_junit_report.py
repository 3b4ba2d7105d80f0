"""A report as JUnit XML."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ci_reports import ci_report, reported_finding
from support.published_schemas import check_junit
from traceforge.report.junit_report import junit_bytes

NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)


def test_a_finding_and_a_test_are_a_case_each() -> None:
    """With the counts as properties of both suites."""
    root = check_junit(junit_bytes(ci_report(reported_finding(), reported_finding(2, "IO")), NOW))

    findings, tests = root
    assert ["traceforge.GT1", "traceforge.IO"] == [case.attrib["classname"] for case in findings.iter("testcase")]
    assert ("1", "1") == (findings.attrib["failures"], findings.attrib["errors"])
    assert [("test_a", "failure"), ("test_b", None), ("test_c", "skipped")] == [
        (case.attrib["name"], case[0].tag if len(case) else None) for case in tests.iter("testcase")
    ]
    assert "3" == next(
        element.attrib["value"] for element in tests.iter("property") if element.attrib["name"] == "replayed"
    )


def test_a_report_without_findings_is_a_document_too() -> None:
    """CI services treat a missing file as a broken step."""
    findings, _ = check_junit(junit_bytes(ci_report(), NOW))

    assert "0" == findings.attrib["tests"]


@given(st.text(max_size=60))
def test_any_text_is_valid(text: str) -> None:
    """In messages, in details, in names of tests."""
    report = ci_report(reported_finding(message=text, details=text))

    check_junit(junit_bytes(report._replace(cases=(report.cases[0]._replace(name=text, group=text),)), NOW))


@pytest.mark.parametrize("text", ["\x00", "\x1b[31m", "\ud800", "\ufffe", "<&>'\"]]>"])
def test_a_character_that_xml_cannot_represent_is_escaped(text: str) -> None:
    """Markup too."""
    failure = next(check_junit(junit_bytes(ci_report(reported_finding(details=text)), NOW)).iter("failure"))

    assert failure.text is not None
    assert failure.text.endswith(text if text.isascii() and text.isprintable() else "".join(map(_spelled, text)))


def _spelled(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]
