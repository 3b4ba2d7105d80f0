"""Verdicts over answers."""

from __future__ import annotations

from typing import Any

import pytest

from support.gating import approved_of, asks, proposed
from traceforge.snapshots.live.live_answer import Answered, Failed
from traceforge.snapshots.live.live_verdict import Checked, Verdict, checked_json, first_divergence, judge
from traceforge.snapshots.tree.approved_calls import Approved

SAID = "yes, it is"


@pytest.fixture
def approved() -> Approved:
    """One call, approved."""
    return approved_of(proposed(asks("Is it?", answer=SAID)).changes[0])


def said(run: int, text: str, **more: Any) -> Answered:
    """An answer."""
    content = {"content": text, "tokens_used": 1, "finish_reason": "stop", **more}
    return Answered("sha256:0", "is-it", run, "2026-11-15T12:00:00.000Z", content, True, 1.0)


def judged(approved: Approved, *texts: str, runs: int = 0, failed: int = 0) -> Checked:
    """What these answers come to."""
    answers = [said(run, text) for run, text in enumerate(texts, 1)]
    return judge(approved, runs or len(texts) + failed, answers, [Failed("", "", 99, "no")] * failed)


@pytest.mark.parametrize(
    ("texts", "verdict", "different", "clusters"),
    [
        ([SAID], Verdict.SAME, 0, [[1]]),
        ([SAID] * 3, Verdict.SAME, 0, [[1, 2, 3]]),
        (["no"], Verdict.CHANGED, 1, [[1]]),
        (["no", "no"], Verdict.CHANGED, 2, [[1, 2]]),
        ([SAID, "no", SAID], Verdict.VARIES, 1, [[1, 3], [2]]),
        (["no", "no", SAID], Verdict.VARIES, 2, [[3], [1, 2]]),
        (["no", "maybe", "maybe"], Verdict.VARIES, 1, [[2, 3], [1]]),
    ],
)
def test_the_verdict(
    approved: Approved, texts: list[str], verdict: Verdict, different: int, clusters: list[list[int]]
) -> None:
    """Held against the approved answer where a run gave it, else against the most frequent."""
    found = judged(approved, *texts)

    assert (verdict, different) == (found.verdict, found.different)
    assert clusters == [one.runs for one in found.clusters]


def test_runs_that_failed_leave_nothing_certain_but_a_difference(approved: Approved) -> None:
    """Same so far is not the same; another answer is another answer."""
    assert Verdict.UNCHECKED is judged(approved, SAID, failed=1).verdict
    assert Verdict.CHANGED is judged(approved, "no", failed=1).verdict
    assert Verdict.UNCHECKED is judged(approved, failed=1).verdict


def test_under_the_request_gate_a_difference_is_no_failure_unless_strict(approved: Approved) -> None:
    """The project said so in its configuration."""
    found = judged(approved._replace(gate="request"), "no")

    assert (False, True) == (found.fails(strict=False), found.fails(strict=True))
    assert judged(approved, "no").fails(strict=False)


@pytest.mark.parametrize(
    ("text", "word", "before", "after"),
    [
        ("yes, it was", 3, "is", "was"),
        ("no, it is", 1, "yes", "no"),
        ("yes, it is not", 4, "", " "),
        ("yes", 2, ",", ""),
    ],
)
def test_the_first_word_that_differs(approved: Approved, text: str, word: int, before: str, after: str) -> None:
    """Counted from 1; a text that goes on or ends early differs at its end."""
    first = first_divergence(judged(approved, text).clusters[0].comparison)

    assert first is not None
    assert (word, before, after) == (first.word, first.before, first.after)


def test_a_difference_outside_of_the_text_names_its_place(approved: Approved) -> None:
    """The model stopped for another reason."""
    found = judge(approved, 1, [said(1, SAID, finish_reason="length")], [])
    first = first_divergence(found.clusters[0].comparison)

    assert first is not None
    assert (None, "$.response.choices[0]") == (first.word, first.path)


def test_json_has_everything(approved: Approved) -> None:
    """Clusters, runs and failures, for a program."""
    told = checked_json(judged(approved, SAID, "no", failed=1), strict=False)

    assert ("varies", True, 3, 2, 1) == tuple(
        told[name] for name in ("verdict", "fails", "runs", "answered", "different")
    )
    assert [{"run": 99, "message": "no"}] == told["failed"]
