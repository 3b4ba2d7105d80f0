"""The report of a build as its page shows it."""

from __future__ import annotations

import json

import pytest

from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import compare
from traceforge.findings import Finding
from traceforge.snapshots.gate.gate_findings import GateFinding, findings_json
from traceforge.ui.views.build_view import FINDINGS_MAX, InvalidReport, view_build


def _report(*findings: GateFinding, **fields: object) -> bytes:
    return json.dumps({"exit_code": 1, "replayed": 3, "findings": findings_json(findings), **fields}).encode()


def _changed_prompt() -> GateFinding:
    before, after = (
        ComparedCall({"temperature": heat, "messages": [{"role": "user", "content": f"Be {word}. Go on."}]}, None)
        for heat, word in ((0, "brief"), (1, "kind"))
    )
    finding = Finding("desk.py:3:ask", "", "GT1", "the request of desk changed", "Undo the edit.")
    return GateFinding(finding, 1, ("test_a.py::test_a",), "desk", compare(before, after))


def test_a_finding_has_its_diff_back() -> None:
    """The report has the segments of both texts; the page shows both texts."""
    build = view_build(_report(_changed_prompt()))
    (finding,) = build.findings
    settings, message = finding.groups
    text = message.fields[0].text

    assert build.is_red
    assert build.can_record
    assert ("Settings", "Message", "user") == (settings.title, message.title, message.name)
    assert text is not None
    assert ("Be brief. Go on.", "Be kind. Go on.") == (text.diff.before, text.diff.after)
    assert ("GT1", ("test_a.py::test_a",), "Undo the edit.") == (finding.rule, finding.scopes, finding.hint)
    assert "request.prompt" in [rule.rule for rule in finding.rules]


def test_the_record_command_is_fresh_where_only_that_helps() -> None:
    finding = _changed_prompt()

    assert "traceforge record -- COMMAND" == view_build(_report(finding)).record_command
    assert (
        "traceforge record --fresh -- COMMAND"
        == view_build(_report(finding, finding._replace(needs_fresh=True))).record_command
    )


def test_what_was_not_checked_is_red() -> None:
    unchecked = [dict(Finding("(the run)", "", "IO", "a test was skipped", "Run it.").to_json())]

    assert view_build(_report(unchecked=unchecked, exit_code=0)).is_red
    assert not view_build(_report(exit_code=0)).is_red
    assert view_build(_report(exit_code=None)).is_red


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"findings": 1}', b"\xff"])
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidReport, match="not a report"):
        view_build(data)


BROKEN_REQUEST = {"messages": [{"rows": [{"text": {"stretches": [{"same": 1}]}}]}, {"kind": "added"}, 7]}


@pytest.mark.parametrize(
    "finding",
    [
        {},
        {"scopes": 1, "comparison": []},
        {"comparison": {"request": BROKEN_REQUEST, "changes": [1]}},
        {"rule": []},
    ],
)
def test_fields_of_another_type_are_left_out(finding: object) -> None:
    """Anybody may have written the file."""
    assert 1 == len(view_build(json.dumps({"findings": [finding]}).encode()).findings)


def test_a_long_report_is_cut_and_says_so() -> None:
    build = view_build(json.dumps({"findings": [{}] * (FINDINGS_MAX + 3)}).encode())

    assert (FINDINGS_MAX, 3) == (len(build.findings), build.omitted)
