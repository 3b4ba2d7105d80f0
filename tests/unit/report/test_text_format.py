"""What a person reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceforge.findings import Finding
from traceforge.report.text_format import (
    answer_hint_lines,
    audit_summary,
    count,
    finding_lines,
    gate_counts,
    rate_range,
)
from traceforge.statistics.rate_interval import Interval
from traceforge.terminal import one_line


def test_a_finding_is_one_line_and_its_hint() -> None:
    """File, place, rule, message; the hint stands below, indented."""
    finding = Finding("a.json", "$.b", "SN1", "required field b is missing", "Add it.")

    assert "a.json: $.b: SN1 required field b is missing\n    hint: Add it." == finding_lines([finding])


def test_a_hint_is_shown_once_for_findings_of_one_file() -> None:
    """Another file, or another hint, has its own."""
    rows = [("a", "SN3", "Restore."), ("a", "SN9", "Restore."), ("a", "SN1", "Add it."), ("b", "SN1", "Add it.")]
    findings = [Finding(file, "", rule, "x", hint) for file, rule, hint in rows]

    restore, add = "    hint: Restore.", "    hint: Add it."
    assert ["a: SN3 x", "a: SN9 x", restore, "a: SN1 x", add, "b: SN1 x", add] == finding_lines(findings).splitlines()


@given(st.text())
def test_no_text_from_a_file_leaves_its_line(text: str) -> None:
    """Whatever a file name or value holds, it prints as printable characters on one line."""
    assert one_line(text).isprintable()


@pytest.mark.parametrize(
    ("snapshots", "prompt_only", "line"),
    [
        (9, 5, "9 snapshots: 4 prompt and answer, 5 prompt only"),
        (1, 0, "1 snapshot: 1 prompt and answer"),
        (2, 2, "2 snapshots: 2 prompt only"),
        (0, 0, "0 snapshots"),
    ],
)
def test_snapshots_are_counted_by_what_they_gate(snapshots: int, prompt_only: int, line: str) -> None:
    assert line == gate_counts(snapshots, prompt_only)


@pytest.mark.parametrize(
    ("checked", "rules", "gated", "line"),
    [
        ({"snapshot": 2, "pack": 1}, [], 0, "checked 1 pack, 2 snapshots: all valid"),
        ({"snapshot": 1}, ["SN1", "IO"], 0, "checked 1 snapshot: 1 finding, 1 could not be checked"),
        ({}, ["IO"], 0, "checked nothing: 1 could not be checked"),
        ({"modelio": 3}, [], 0, "checked 3 modelio: all valid"),
        (
            {"snapshot": 9, "trace": 1},
            [],
            5,
            "checked 9 snapshots (4 prompt and answer, 5 prompt only), 1 trace: all valid",
        ),
    ],
)
def test_the_summary_counts_checked_wrong_unchecked_and_partly_gated(
    checked: dict[str, int], rules: list[str], gated: int, line: str
) -> None:
    assert line == audit_summary(checked, [Finding("f", "", rule, "m") for rule in rules], gated)


def test_a_count_of_one_has_a_singular_noun() -> None:
    assert ("1 file", "2 files", "0 files") == (count(1, "file"), count(2, "file"), count(0, "file"))


@pytest.mark.parametrize(
    ("advice", "way"),
    [
        (["temperature 0 and a seed", ""], "send temperature 0 and, where the API has one, a seed; or "),
        (["temperature 0", "", None], "send temperature 0, or "),
        (["", None], ""),
    ],
)
def test_the_advice_about_answers_names_what_the_apis_take(advice: list[str | None], way: str) -> None:
    expected = f'to check answers too, {way}declare "gate": "behaviour" for the model'

    assert [expected] == list(answer_hint_lines(advice))


def test_there_is_no_advice_about_answers_where_the_project_has_chosen() -> None:
    assert [] == list(answer_hint_lines([None]))


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.0, 0.9500000000000001), "95 % or less"),
        (Interval(0.0499999999999999, 1.0), "5 % or more"),
        (Interval(0.741, 1.0), "74 % or more"),
        (Interval(0.222, 0.778), "22 % to 78 %"),
    ],
)
def test_a_range_of_rates_is_rounded_to_the_outside(interval: Interval, text: str) -> None:
    """But not for the last digit of a float."""
    assert text == rate_range(interval)
