"""`findings.py`: one broken rule at one place, and what a command's exit code says."""

from __future__ import annotations

from itertools import permutations

import pytest

from traceforge.findings import IO, PARSE, ExitCode, Finding, exit_code

WRONG = Finding("a.json", "$.hash", "SN3", "hash mismatch")
UNREAD = Finding("b.json", "", IO, "no such file")
UNPARSED = Finding("c.json", "", PARSE, "not JSON")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], ExitCode.OK),
        ([WRONG], ExitCode.FINDINGS),
        ([UNREAD], ExitCode.UNCHECKED),
        ([UNPARSED], ExitCode.UNCHECKED),
        ([UNREAD, UNPARSED], ExitCode.UNCHECKED),
        ([WRONG, UNREAD], ExitCode.FINDINGS),
        ([WRONG, UNREAD, UNPARSED], ExitCode.FINDINGS),
    ],
)
def test_something_wrong_outranks_something_unchecked(findings: list[Finding], expected: ExitCode) -> None:
    """1 before 3 before 0, in whatever order the findings come, and from any iterable."""
    for order in permutations(findings):
        assert expected is exit_code(iter(order))


def test_the_exit_codes_are_the_contract_of_every_command() -> None:
    """STYLE.md 8: 0 unchanged, 1 found, 2 wrong usage, 3 could not be checked."""
    assert {"OK": 0, "FINDINGS": 1, "USAGE": 2, "UNCHECKED": 3} == {code.name: code.value for code in ExitCode}


def test_only_io_parse_and_no_answer_mean_unchecked() -> None:
    """Every other rule says that something is wrong."""
    from traceforge.audit.rule_catalogue import RULES

    unchecked = {rule for rule in RULES if Finding("f", "", rule, "m").is_unchecked}

    assert {"CK4", "IO", "PARSE"} == unchecked


def test_findings_order_by_file_then_place_then_rule() -> None:
    """A report is read file by file; within a file, place by place."""
    ordered = [
        Finding("a", "$.a", "SN3", "z"),
        Finding("a", "$.b", "SN1", "a"),
        Finding("a", "$.b", "SN2", "a"),
        Finding("a", "$.b", "SN2", "b"),
        Finding("b", "", "IO", "a"),
    ]

    assert ordered == sorted(set(ordered))


def test_a_finding_prints_all_its_fields_as_json() -> None:
    """`--json` has the same five names for every finding, the hint also where it is empty."""
    assert {
        "file": "a.json",
        "path": "$.hash",
        "rule": "SN3",
        "message": "hash mismatch",
        "hint": "",
    } == WRONG.to_json()
