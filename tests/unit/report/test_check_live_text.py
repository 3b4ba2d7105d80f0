"""What a live check says about the rate of the approved answer."""

from __future__ import annotations

from support.proposals import approve_change, make_call, propose
from traceforge.report.check_live_text import verdict_lines
from traceforge.snapshots.live.live_answer import LiveAnswer
from traceforge.snapshots.live.live_verdict import CheckedCall, judge_answers

APPROVED_TEXT = "yes, it is"


def _judge(*texts: str) -> CheckedCall:
    approved = approve_change(propose(make_call("Is it?", answer=APPROVED_TEXT)).changes[0])
    answers = [
        LiveAnswer("sha256:0", "is-it", run, "2026-11-15T12:00:00.000Z", {
            "content": text, "tokens_used": 1, "finish_reason": "stop",
        }, True, 1.0)
        for run, text in enumerate(texts, 1)
    ]  # fmt: skip
    return judge_answers(approved, len(texts), answers, [])


def test_runs_that_differ_show_the_rate_of_the_approved_answer() -> None:
    """The count, and the true rates that fit it; any difference still fails."""
    lines = list(verdict_lines([_judge(*[APPROVED_TEXT, "no"] * 5)], strict=False))

    assert "   the approved answer in 5 of 10 runs: a true rate of 22 % to 78 % fits" == lines[4]
    assert "   → CI fails" == lines[2]


def test_runs_that_agree_say_what_that_proves() -> None:
    """Ten equal answers do not prove that all answers are equal."""
    (rate, summary) = verdict_lines([_judge(*[APPROVED_TEXT] * 10)], strict=False)
    (of_two, _) = verdict_lines([_judge(*[APPROVED_TEXT] * 10)] * 2, strict=False)

    assert "all 10 runs gave the approved answer: a true rate of 74 % or more fits" == rate
    assert "all 10 runs of 2 snapshots gave the approved answer: a true rate of 74 % or more fits each" == of_two
    assert "GREEN: 1 snapshot checked live, 1 the same" == summary


def test_one_run_says_nothing_about_a_rate() -> None:
    """A single answer is compared, and that is all."""
    lines = [
        *verdict_lines([_judge(APPROVED_TEXT)], strict=False),
        *verdict_lines([_judge("no")], strict=False),
    ]

    assert [] == [line for line in lines if "rate" in line]


def test_runs_that_agree_on_another_answer_show_how_rare_the_approved_one_is() -> None:
    """None of ten runs gave it, so its true rate is 26 % or less."""
    lines = list(verdict_lines([_judge(*["no"] * 10)], strict=False))

    assert "   the approved answer in 0 of 10 runs: a true rate of 26 % or less fits" in lines
