"""A report for GitHub Actions: annotations on the lines of a change, and a summary of the step.

In: a report. Out: workflow commands, and Markdown. Never: more than GitHub takes: it drops errors beyond ten per
step, cuts long texts, and refuses a summary above one mebibyte as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from traceforge.report.ci_report import CIReport, ReportedFinding
from traceforge.report.text_format import count
from traceforge.terminal import escape_text, one_line

ERRORS_MAX = 10  # of a step; GitHub drops the others silently
MESSAGE_CHARS_MAX = 4000  # GitHub cuts longer messages, even inside an escape.
TITLE_CHARS_MAX = 200
SUMMARY_BYTES_MAX = 1 << 20  # of a step; GitHub refuses a longer summary as a whole
_ROOM = 4096  # of it, reserved for the note that findings were left out

_TICKS = re.compile("`+")


def annotation_lines(report: CIReport) -> Iterator[str]:
    """Workflow commands, one per line: an error for each finding, and a notice with the number of findings beyond
    the limit.
    """
    for finding in report.findings[:ERRORS_MAX]:
        yield _command(
            "error", _properties(finding), _cut(f"{finding.message}\n{finding.details}".rstrip(), MESSAGE_CHARS_MAX)
        )
    remaining = len(report.findings) - ERRORS_MAX
    if remaining > 0:
        message = f"{count(remaining, 'more finding')} of traceforge {report.command}: see the summary of this run."
        yield _command("notice", {"title": f"traceforge {report.command}"}, message)


def _properties(item: ReportedFinding) -> dict[str, str]:
    properties = {"title": _cut(f"TraceForge {item.finding.rule}", TITLE_CHARS_MAX)}
    if item.location.file:
        properties["file"] = item.location.file
    if item.location.line:
        properties["line"] = str(item.location.line)
    return properties


def _command(name: str, properties: dict[str, str], message: str) -> str:
    property_text = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{name} {property_text}::{_escape(message)}"


def _escape(text: str) -> str:
    """Escape a message: a line ending would end the command, and a percent sign starts an escape."""
    return escape_text(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def summary_markdown(report: CIReport, bytes_max: int = SUMMARY_BYTES_MAX) -> str:
    """The summary of the step. Findings beyond the size limit are left out, and their number is stated."""
    parts = list(_head(report))
    size = sum(len(part.encode()) for part in parts)
    for number, item in enumerate(report.findings):
        part = _section(item)
        size += len(part.encode())
        if size > bytes_max - _ROOM:
            parts.append(
                f"\n… and {count(len(report.findings) - number, 'more finding')}: see the log of this step.\n"
            )
            break
        parts.append(part)
    text = "".join(parts)
    return text if len(text.encode()) <= bytes_max else ""


def _head(report: CIReport) -> Iterator[str]:
    yield f"## traceforge {report.command}\n\n{_code(report.summary)}\n\n"
    if report.counts:
        yield "| | |\n|---|--:|\n"
        yield "".join(f"| {name.replace('_', ' ')} | {value} |\n" for name, value in report.counts.items())


def _section(item: ReportedFinding) -> str:
    finding, place = item.finding, item.location
    where = f"{place.file}:{place.line}" if place.line else place.file or finding.file
    heading = f"\n- {_code(where)} **{finding.rule}** {_code(item.message)}\n"
    return f"{heading}{_fenced(item.details)}" if item.details else heading


def _code(text: str) -> str:
    """Text as inline code, so that nothing in it is read as Markdown."""
    line = one_line(" ".join(text.split()))
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(line)), default=0))
    return f"{fence} {line} {fence}" if line[:1] == "`" or line[-1:] == "`" else f"{fence}{line}{fence}"


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    lines = "".join(f"  {line}\n" for line in escape_text(text).split("\n"))
    return f"\n  {fence}text\n{lines}  {fence}\n"
