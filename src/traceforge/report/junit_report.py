"""A report as JUnit XML, which every CI service shows as tests.

Two suites: one test case per finding, and one per test that ran or snapshot that was checked. A finding is a
`failure`; a file that could not be checked is an `error`. Both suites carry the counts as properties.

In: a report. Out: bytes. Never: an element or attribute that the schemas of Apache Ant or Jenkins refuse, or a
character that XML cannot hold or a page does not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from xml.etree.ElementTree import Element, SubElement, tostring

from traceforge.audit.rule_catalogue import RULES
from traceforge.report.ci_report import CaseOutcome, CaseResult, CIReport, ReportedFinding
from traceforge.terminal import escape_text

TEST_COMMANDS = ("test", "audit vcr", "check run")  # whose cases are tests, and not files
HOST = "localhost"  # Required by the schema, which suggests this value.


def junit_bytes(report: CIReport, instant: datetime) -> bytes:
    """Write the report as one XML document."""
    root = Element("testsuites")
    suites = [("findings", [_finding_case(item) for item in report.findings])]
    suites.append(("tests" if report.command in TEST_COMMANDS else "files", [_case(case) for case in report.cases]))
    for number, (name, cases) in enumerate(suites):
        root.append(_suite(f"traceforge {report.command}: {name}", number, report, cases, instant))
    text: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _suite(name: str, number: int, report: CIReport, cases: Sequence[Element], instant: datetime) -> Element:
    def times(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    suite = Element(
        "testsuite", name=name, id=str(number), package="traceforge", hostname=HOST, tests=str(len(cases)),
        failures=times("failure"), errors=times("error"), skipped=times("skipped"), time="0",
        timestamp=instant.strftime("%Y-%m-%dT%H:%M:%S"),
    )  # fmt: skip
    properties = SubElement(suite, "properties")
    for key, value in report.counts.items():
        SubElement(properties, "property", name=key, value=str(value))
    suite.extend(cases)
    SubElement(suite, "system-out").text = escape_text(report.summary)
    SubElement(suite, "system-err")
    return suite


def _finding_case(item: ReportedFinding) -> Element:
    finding = item.finding
    where = f"{item.location.file}:{item.location.line}" if item.location.line else item.location.file or finding.file
    name = " ".join(filter(None, (where, finding.path, item.message)))
    text = f"{name}\n{item.details}"
    kind = "error" if finding.is_unchecked else "failure"
    return _element(f"traceforge.{finding.rule}", name, kind, finding.rule, item.message, text)


def _case(case: CaseResult) -> Element:
    if case.outcome is CaseOutcome.PASSED:
        return _element(case.group, case.name)
    if case.outcome is CaseOutcome.SKIPPED:
        return _element(case.group, case.name, "skipped")
    rule, message = case.reason.partition(" ")[0], case.reason.partition("\n")[0]
    return _element(case.group, case.name, "failure", rule if rule in RULES else "failed", message, case.reason)


def _element(group: str, name: str, tag: str = "", kind: str = "", message: str = "", text: str = "") -> Element:
    case = Element("testcase", classname=_token(group) or "traceforge", name=_token(name) or "(run)", time="0")
    if tag == "skipped":
        SubElement(case, tag)
    elif tag:
        SubElement(case, tag, type=_token(kind), message=_token(message)).text = escape_text(text)
    return case


def _token(text: str) -> str:
    return " ".join(escape_text(text).split())
