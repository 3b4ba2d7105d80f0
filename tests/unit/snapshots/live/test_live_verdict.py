"""Verdicts over answers."""

from __future__ import annotations

from typing import Any

import pytest

from support.proposals import approve_change, make_call, propose
from traceforge.findings import ExitCode
from traceforge.snapshots.live.live_answer import FailedRequest, LiveAnswer
from traceforge.snapshots.live.live_verdict import (
    CheckedCall,
    LiveVerdict,
    check_exit_code,
    checked_json,
    first_divergence,
    judge_answers,
)
from traceforge.snapshots.tree.approved_calls import ApprovedCall

APPROVED_TEXT = "yes, it is"


@pytest.fixture
def approved() -> ApprovedCall:
    """One call, approved."""
    return approve_change(propose(make_call("Is it?", answer=APPROVED_TEXT)).changes[0])


def live_answer(run: int, text: str, **more: Any) -> LiveAnswer:
    """An answer."""
    content = {"content": text, "tokens_used": 1, "finish_reason": "stop", **more}
    return LiveAnswer("sha256:0", "is-it", run, "2026-11-15T12:00:00.000Z", content, True, 1.0)


def judged(approved: ApprovedCall, *texts: str, runs: int = 0, failed: int = 0) -> CheckedCall:
    """What these answers come to."""
    answers = [live_answer(run, text) for run, text in enumerate(texts, 1)]
    return judge_answers(approved, runs or len(texts) + failed, answers, [FailedRequest("", "", 99, "no")] * failed)


@pytest.mark.parametrize(
    ("texts", "verdict", "different", "clusters"),
    [
        ([APPROVED_TEXT], LiveVerdict.SAME, 0, [[1]]),
        ([APPROVED_TEXT] * 3, LiveVerdict.SAME, 0, [[1, 2, 3]]),
        (["no"], LiveVerdict.CHANGED, 1, [[1]]),
        (["no", "no"], LiveVerdict.CHANGED, 2, [[1, 2]]),
        ([APPROVED_TEXT, "no", APPROVED_TEXT], LiveVerdict.VARIES, 1, [[1, 3], [2]]),
        (["no", "no", APPROVED_TEXT], LiveVerdict.VARIES, 2, [[3], [1, 2]]),
        (["no", "maybe", "maybe"], LiveVerdict.VARIES, 1, [[2, 3], [1]]),
    ],
)
def test_the_verdict(
    approved: ApprovedCall, texts: list[str], verdict: LiveVerdict, different: int, clusters: list[list[int]]
) -> None:
    """Held against the approved answer where a run gave it, else against the most frequent."""
    checked = judged(approved, *texts)

    assert (verdict, different) == (checked.verdict, checked.different_runs)
    assert clusters == [cluster.runs for cluster in checked.clusters]


def test_runs_that_failed_leave_nothing_certain_but_a_difference(approved: ApprovedCall) -> None:
    """Same so far is not the same; another answer is another answer."""
    assert LiveVerdict.UNCHECKED is judged(approved, APPROVED_TEXT, failed=1).verdict
    assert LiveVerdict.CHANGED is judged(approved, "no", failed=1).verdict
    assert LiveVerdict.UNCHECKED is judged(approved, failed=1).verdict


def test_under_the_request_gate_a_difference_is_no_failure_unless_strict(approved: ApprovedCall) -> None:
    """The project said so in its configuration."""
    checked = judged(approved._replace(gate="request"), "no")

    assert (False, True) == (checked.is_failure(strict=False), checked.is_failure(strict=True))
    assert judged(approved, "no").is_failure(strict=False)


@pytest.mark.parametrize(
    ("text", "word", "before", "after"),
    [
        ("yes, it was", 3, "is", "was"),
        ("no, it is", 1, "yes", "no"),
        ("yes, it is not", 4, "", " "),
        ("yes", 2, ",", ""),
    ],
)
def test_the_first_word_that_differs(approved: ApprovedCall, text: str, word: int, before: str, after: str) -> None:
    """Counted from 1; a text that goes on or ends early differs at its end."""
    first = first_divergence(judged(approved, text).clusters[0].comparison)

    assert first is not None
    assert (word, before, after) == (first.word, first.before, first.after)


def test_a_difference_outside_of_the_text_names_its_place(approved: ApprovedCall) -> None:
    """The model stopped for another reason."""
    checked = judge_answers(approved, 1, [live_answer(1, APPROVED_TEXT, finish_reason="length")], [])
    first = first_divergence(checked.clusters[0].comparison)

    assert first is not None
    assert (None, "$.response.choices[0]") == (first.word, first.path)


def test_json_has_everything(approved: ApprovedCall) -> None:
    """Clusters, runs and failures, for a program."""
    report = checked_json(judged(approved, APPROVED_TEXT, "no", failed=1), strict=False)

    assert ("varies", True, 3, 2, 1) == tuple(
        report[name] for name in ("verdict", "fails", "runs", "answered", "different")
    )
    assert [{"run": 99, "message": "no"}] == report["failed"]


@pytest.mark.parametrize(
    ("texts", "rate"),
    [
        # Runs that gave the approved answer, runs with an answer, and the limits of Clopper and Pearson (scipy).
        (["no"] * 10, (0, 10, 0.0, 0.258866)),
        ([APPROVED_TEXT] * 5 + ["no", "maybe", "no", "no", "no"], (5, 10, 0.222441, 0.777559)),
        ([APPROVED_TEXT] * 10, (10, 10, 0.741134, 1.0)),
        ([], (0, 0, 0.0, 1.0)),
    ],
)
def test_the_rate_of_the_approved_answer(approved: ApprovedCall, texts: list[str], rate: tuple[float, ...]) -> None:
    """JSON says how often the approved answer came, and which true rates fit; failed runs do not count."""
    report = checked_json(judged(approved, *texts, failed=2), strict=False)

    assert rate == pytest.approx(tuple(report["rate"].values()), abs=1e-6)


def test_the_exit_code_names_a_failure_before_what_was_not_checked(approved: ApprovedCall) -> None:
    """0 where every answer is the approved one."""
    same, changed = judged(approved, APPROVED_TEXT), judged(approved, "no")
    unchecked = judged(approved, failed=1)

    assert ExitCode.OK == check_exit_code([same], strict=True)
    assert ExitCode.UNCHECKED == check_exit_code([same, unchecked], strict=True)
    assert ExitCode.FINDINGS == check_exit_code([unchecked, changed], strict=True)
