"""Hostile text in the reports for CI services: annotations, JUnit, SARIF and the step summary."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from support.ci_reports import ci_report, reported_finding
from support.hostile_text import each_hostile_text, list_harm
from traceforge.clock import now
from traceforge.report.ci_report import CaseOutcome, CaseResult
from traceforge.report.github_report import annotation_lines, summary_markdown
from traceforge.report.junit_report import junit_bytes
from traceforge.report.sarif_report import sarif_bytes
from traceforge.terminal import print_workflow_command


def _hostile_report(text: str) -> Any:
    finding = reported_finding(message=text, details=text)
    finding = finding._replace(
        location=finding.location._replace(file=text),
        scopes=(text,),
        finding=finding.finding._replace(path=f"$.{text}"),
    )
    cases = (CaseResult(text, text, CaseOutcome.FAILED, text), CaseResult(text, text, CaseOutcome.SKIPPED))
    return ci_report(finding)._replace(summary=text, cases=cases)


@each_hostile_text(percent="%0A::error::forged")
def test_an_annotation_is_one_harmless_command(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """GitHub runs what begins a line; a message cannot begin one, and keeps no control character."""
    for line in annotation_lines(_hostile_report(text)):
        print_workflow_command(line)

    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("::error title=TraceForge GT1,file=")
    assert [] == list_harm(line.removeprefix("::error"))


@each_hostile_text(end="]]>", cdata="<![CDATA[", element="</failure><script/>", entity="&lt;&xxe;")
def test_junit_is_xml_without_harmful_text(text: str) -> None:
    """Readable by a strict parser; a page that shows it shows what is there."""
    root = ET.fromstring(junit_bytes(_hostile_report(text), now()))

    shown = [value for element in root.iter() for value in (element.text or "", *element.attrib.values())]
    assert [] == [harm for value in shown for harm in list_harm(value) if harm.startswith("U+")]


@each_hostile_text(link="[click](http://evil)")
def test_sarif_is_json_without_harmful_text_and_links(text: str) -> None:
    """Hosts show messages, and turn `[text](address)` into links."""
    data = sarif_bytes(_hostile_report(text))

    [result] = json.loads(data)["runs"][0]["results"]
    assert [] == list_harm(data.decode())
    assert [] == list_harm(result["message"]["text"])
    assert "](" not in result["message"]["text"]


MARKUP = {
    "html": "<img src=x onerror=alert(1)>",
    "image": "![a](http://evil/x.png)",
    "link": "[click](javascript:alert(1))",
    "cell": "a | b\n| c | d |",
    "fence": "```\n# heading\n~~~\n<b>bold</b>",
    "ticks": "`` ` ``` <script>alert(1)</script>",
    "return": "a\r# heading\r<b>bold</b>",
    "list": "a\n\n- item\n<details open>",
}


@each_hostile_text(**MARKUP)
def test_a_step_summary_shows_text_as_code(text: str) -> None:
    """Without its code spans and fenced blocks, a summary has only text of ours."""
    summary = summary_markdown(_hostile_report(f"a{text}"))

    assert "" == _text_outside_of_code(summary).translate(str.maketrans("", "", " -|\n")).replace(
        "##traceforgetest", ""
    ).replace("**GT1**", "").replace(":replayed3findings1unchecked0exitcode1", "")
    assert [] == [harm for harm in list_harm(summary) if harm.startswith("U+")]


def _text_outside_of_code(markdown: str) -> str:
    """What CommonMark does not take for code: fences of a list item first, then spans of a line."""
    lines, fence = [], ""
    for line in markdown.split("\n"):
        ticks = line.strip()
        if fence:
            assert line.startswith("  "), line  # Otherwise, the list item and its block end here.
            fence = "" if ticks == fence else fence
        elif line.startswith("  ```"):
            fence = ticks.removesuffix("text")
        else:
            lines.append(_without_spans(line))
    return "\n".join(lines)


def _without_spans(line: str) -> str:
    plain = ""
    while "`" in line:
        before, _, rest = line.partition("`")
        run = 1 + len(rest) - len(rest.lstrip("`"))
        end = _find_run(rest[run - 1 :], run)
        assert end >= 0, line
        plain, line = plain + before, rest[run - 1 :][end + run :]
    return plain + line


def _find_run(text: str, length: int) -> int:
    """Where a run of exactly this many backticks begins."""
    place = 0
    while (place := text.find("`", place)) >= 0:
        run = len(text[place:]) - len(text[place:].lstrip("`"))
        if run == length:
            return place
        place += run
    return -1
