"""What GitHub Actions shows, within its limits."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from support.ci_reports import ci_report, reported_finding
from traceforge.report.github_report import ERRORS_MAX, SUMMARY_BYTES_MAX, annotation_lines, summary_markdown

# As the runner reads a command: a name, properties, and the rest of the line.
_COMMAND = re.compile(r"::(?P<name>error|notice) (?P<properties>[^:]*)::(?P<message>.*)")
LONG = 64 << 10


def parse_command(line: str) -> tuple[str, dict[str, str], str]:
    """A command as the runner reads it."""
    match = _COMMAND.fullmatch(line)
    assert match, line
    pairs = (pair.partition("=") for pair in match["properties"].split(","))
    return match["name"], {name: _plain(value) for name, _, value in pairs}, _plain(match["message"])


def _plain(text: str) -> str:
    for escape, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, char)
    return text


def test_a_finding_is_an_error_on_its_line() -> None:
    """With the rule as its title and the diff below the message."""
    [line] = annotation_lines(ci_report(reported_finding(7, details="    [-river-]{+lake+}")))

    assert (
        "error",
        {"title": "TraceForge GT1", "file": "app/ask.py", "line": "7"},
        "the request of a changed\n    [-river-]{+lake+}",
    ) == parse_command(line)


@given(st.text(), st.text(min_size=1))
def test_no_text_ends_its_command_or_starts_another(text: str, file: str) -> None:
    """Whatever a prompt or a file name holds."""
    finding = reported_finding(message=text, details=text)

    [line] = annotation_lines(ci_report(finding._replace(location=finding.location._replace(file=file))))

    name, properties, _ = parse_command(line)
    assert ("error", {"title", "file", "line"}) == (name, properties.keys())
    assert not {"\n", "\r"} & {*line}


def test_a_thousand_findings_stay_within_every_limit() -> None:
    """Ten errors and a notice that counts the others; the summary is cut after a complete finding, and says so."""
    many = ci_report(*(reported_finding(number, details="    | " + "x" * 3000) for number in range(1, 1001)))

    lines = list(annotation_lines(many))
    summary = summary_markdown(many)

    names = [parse_command(line)[0] for line in lines]
    assert ["error"] * ERRORS_MAX + ["notice"] == names
    assert "990 more findings of traceforge test: see the summary of this run." == parse_command(lines[-1])[2]
    assert SUMMARY_BYTES_MAX - 8192 < len(summary.encode()) <= SUMMARY_BYTES_MAX
    shown_count = summary.count("**GT1**")
    assert summary.endswith(f"… and {1000 - shown_count} more findings: see the log of this step.\n")
    assert 0 == summary.count("```") % 2


def test_a_thousand_short_findings_are_all_in_the_summary() -> None:
    summary = summary_markdown(ci_report(*(reported_finding(number) for number in range(1, 1001))))

    assert (1000, False) == (summary.count("**GT1**"), "more finding" in summary)


def test_a_huge_finding_is_cut() -> None:
    """In its message, and in a summary that other commands have already filled."""
    huge = ci_report(reported_finding(details="%\n" * LONG))

    [line] = annotation_lines(huge)

    assert len(line) < LONG
    assert "" == summary_markdown(huge, 100)
    assert len(summary_markdown(huge, 20_000).encode()) <= 20_000
    assert "… and 1 more finding: see the log" in summary_markdown(huge, 20_000)


def test_no_text_of_a_finding_is_read_as_markdown() -> None:
    """Backticks in a prompt end neither a span nor a fence."""
    summary = summary_markdown(
        ci_report(reported_finding(message="``<img>`` **b**", details="```\n# no title\n````"))
    )

    assert "``` ``<img>`` **b** ```" in summary
    assert "\n  `````text\n  ```\n  # no title\n  ````\n  `````\n" in summary
