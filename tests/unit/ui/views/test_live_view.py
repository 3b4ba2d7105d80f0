"""Live checks as plain data for the page."""

from __future__ import annotations

from typing import Any

import pytest

from support.proposals import approve_change, make_call, propose
from traceforge.canon import JSONObject
from traceforge.snapshots.live.live_answer import FailedRequest, LiveAnswer
from traceforge.snapshots.live.live_verdict import check_exit_code, checked_json, judge_answers
from traceforge.ui.views.live_view import list_check, list_histories, view_check


def make_report(*texts: str, failed: int = 0, at: str = "2026-11-18T12:00:00.000Z") -> JSONObject:
    """The report of a check of one call whose approved answer is `yes, it is`."""
    approved = approve_change(propose(make_call("Is it?", answer="yes, it is")).changes[0])
    answers = [
        LiveAnswer("sha256:0", approved.id, run, at, {"content": text, "tokens_used": 7, "finish_reason": "stop"},
                   True, 12.5, model="gpt-4o", tokens=7)
        for run, text in enumerate(texts, 1)
    ]  # fmt: skip
    failures = [FailedRequest("", approved.id, 90 + number, "HTTP status 500") for number in range(failed)]
    result = judge_answers(approved, len(texts) + failed, answers, failures)
    return {
        "at": at,
        "exit_code": int(check_exit_code([result], strict=False)),
        "snapshots": [checked_json(result, strict=False)],
    }


def test_distinct_answers_have_a_letter_a_share_and_their_first_difference() -> None:
    """In the words of the command line."""
    view = view_check("name", make_report("yes, it is", "no, it is not", "yes, it is", "yes, it was"))

    (call,) = view.calls
    assert ("bad", "red", "1 not deterministic") == (*view.verdict, view.counts)
    assert ("bad", "not deterministic", "2 of 4 runs differ") == (*call.verdict, call.sentence)
    assert [
        ("A", 2, 0.5, True, "the approved answer"),
        ("B", 1, 0.25, False, 'differs from word 1 on: "no" instead of "yes"'),
        ("C", 1, 0.25, False, 'differs from word 3 on: "was" instead of "is"'),
    ] == [answer[:5] for answer in call.answers]
    assert [(1, "A"), (2, "B"), (3, "A"), (4, "C")] == [(run.number, run.letter) for run in call.runs]
    assert ("gpt-4o", 7.0, 12.5) == (call.runs[0].model, call.runs[0].tokens, call.runs[0].latency_ms)


def test_the_difference_of_an_answer_is_shown_as_words() -> None:
    (call,) = view_check("name", make_report("yes, it was")).calls

    assert ("bad", "changed") == call.verdict
    (group,) = call.answers[0].groups
    (field,) = group.fields
    assert field.text is not None
    assert "was" in str(field.text.inline_lines[0].after)


def test_runs_without_an_answer_say_why() -> None:
    view = view_check("name", make_report("yes, it is", failed=2))

    assert ("warn", "not checked") == view.verdict
    assert ("HTTP status 500 (2×)",) == view.calls[0].problems


def test_a_history_counts_over_all_checks_and_has_the_verdict_of_the_newest() -> None:
    newest = make_report("yes, it was", "no")
    oldest = make_report("yes, it is", at="2026-11-01T12:00:00.000Z")

    (history,) = list_histories([("new", newest), ("old", oldest)])

    assert ("not deterministic", 2, 3, 1, "new") == (
        history.verdict.word,
        history.checks,
        history.runs,
        history.different,
        history.last_name,
    )
    assert ("1", "2") == tuple(row[1] for row in history.distinct.table.rows)


def test_a_row_of_the_list_names_the_models() -> None:
    item = list_check("name", make_report("yes, it is", "yes, it is"))

    assert ("good", "green", 1, 2, "1 the same", ("gpt-4o",)) == (*item.verdict, *item[3:])


@pytest.mark.parametrize("value", [None, 1, -1, 1e300, "text", [], {}, [[]], [1], True])
@pytest.mark.parametrize(
    "field", ["at", "exit_code", "snapshots", "clusters", "answers", "failed", "verdict", "runs", "first_difference",
              "answer", "cluster", "tokens", "different", "answered", "id"],
)  # fmt: skip
def test_a_field_of_another_type_breaks_no_page(field: str, value: Any) -> None:
    """A report is a file that anybody may have changed."""
    report = _replace(make_report("yes, it is", "no", failed=1), field, value)

    view_check("name", report)
    list_check("name", report)
    list_histories([("name", report)])


def _replace(node: Any, field: str, value: Any) -> Any:
    if isinstance(node, list):
        return [_replace(item, field, value) for item in node]
    if isinstance(node, dict):
        return {name: value if name == field else _replace(member, field, value) for name, member in node.items()}
    return node
