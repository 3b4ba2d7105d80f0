"""Whether answers vary from run to run of a command."""

from __future__ import annotations

from typing import Any

from support.proposals import candidates_from, make_call
from traceforge.snapshots.record.answer_variance import measure_variance, refuse_varying_calls
from traceforge.snapshots.record.candidates import Candidate


def _run(*answers: str, **more: Any) -> list[Candidate]:
    """A run that makes one request with each of these answers."""
    return candidates_from(
        *[make_call("Draw.", answer, number=number, **more) for number, answer in enumerate(answers)]
    )


def test_runs_that_agree_do_not_vary() -> None:
    """Ids, times and token counts do not count."""
    (variance,) = measure_variance([_run("yes")] * 3)

    assert (3, 0, 0, False) == (variance.runs, variance.different, variance.missing, variance.varies)


def test_a_varying_answer_that_is_gated_is_refused() -> None:
    """The runs that did not give the most frequent answer are counted; the reason says what to do."""
    runs = [_run("yes"), _run("no"), _run("yes"), _run("perhaps")]
    variances = measure_variance(runs)
    (refused,) = refuse_varying_calls(runs[0], variances)

    assert [(4, 2, True)] == [(entry.runs, entry.different, entry.is_failure) for entry in variances]
    assert ["2/4 runs produced different outputs"] == [reason.message for reason in refused.reasons]
    assert all(reason.hint for reason in refused.reasons)


def test_the_rate_is_how_often_the_answer_of_the_first_run_came_again() -> None:
    """The first run is the one that is filed; it does not count, because it gave its own answer for certain."""
    runs = [_run("rare"), _run("often"), _run("often"), _run("rare"), _run("often")]
    (variance,) = measure_variance(runs)

    assert {"runs": 4, "same": 1} == {name: variance.to_json()["repeated"][name] for name in ("runs", "same")}
    assert 2 == variance.different


def test_where_only_the_prompt_is_gated_variance_is_reported_alone() -> None:
    """The call stays approvable."""
    runs = [_run("yes", seed=None), _run("no", seed=None)]
    variances = measure_variance(runs)

    assert [(1, True, False)] == [(entry.different, entry.varies, entry.is_failure) for entry in variances]
    assert runs[0] == list(refuse_varying_calls(runs[0], variances))


def test_the_answers_of_a_repeated_request_are_one_output_of_a_run() -> None:
    """In their order; another number of them is another output."""
    assert [0] == [entry.different for entry in measure_variance([_run("a", "b"), _run("a", "b")])]
    assert [1] == [entry.different for entry in measure_variance([_run("a", "b"), _run("b", "a")])]
    assert [1] == [entry.different for entry in measure_variance([_run("a", "b"), _run("a")])]


def test_a_request_that_a_later_run_does_not_make_is_counted_as_missing() -> None:
    """An agent's second request repeats its first answer."""
    (variance,) = measure_variance([_run("yes"), candidates_from(make_call("Something else."))])

    assert (1, 0, 1) == (variance.runs, variance.different, variance.missing)
