"""The results of checks as plain data for the page."""

from __future__ import annotations

from typing import Any

import pytest

from support.full_project import check_report
from traceforge.ui.views.check_view import list_check_histories, list_check_run, view_check_run


def test_a_run_counts_its_checks_and_answers() -> None:
    item = list_check_run("name", {"at": "2026-11-18T12:00:00.000Z", **check_report("", 2)})

    assert ("bad", "red") == item.result
    assert ("2 failed, 1 not checked, 1 passed, 1 finding in files", 4, 23) == (
        item.counts,
        item.checks,
        item.answers,
    )


def test_what_does_not_hold_comes_first_with_its_answers() -> None:
    view = view_check_run("name", check_report("", 1))

    assert ["failed", "not checked", "passed", "passed"] == [check.result.word for check in view.checks]
    (failure,) = view.checks[0].assertions[0].failures
    assert ("the text has 1881", '"It is on its way."', True) == (failure.expected, failure.actual, failure.is_trace)
    assert () == view.checks[0].assertions[1].failures
    assert (("HTTP 503", 1),) == view.checks[1].errors


def test_a_pass_rate_says_which_true_rates_fit() -> None:
    rated = view_check_run("name", check_report("", 0)).checks[-1]

    assert rated.rate
    assert "18 of 20 counted runs passed: a true rate of 68 % to 99 % fits" == rated.rate.sentence
    assert (18, 20) == (rated.assertions[0].passed, rated.assertions[0].answers)
    assert 2 == len(rated.assertions[0].failures)


def test_a_history_has_a_mark_for_each_run_oldest_first() -> None:
    reports: list[Any] = [(str(failing), {"at": "", **check_report("", failing)}) for failing in (2, 1, 0)]

    histories = list_check_histories(reports)

    assert ["order 0", "order 1", "the carrier", "a date is named"] == [history.title for history in histories]
    classes = [mark.split('"')[0] for mark in str(histories[1].strip).split('class="strip-')[1:]]
    assert ["good", "good", "bad"] == classes
    assert "Results of order 1: 2 passed, 1 failed" in histories[1].strip


@pytest.mark.parametrize("value", [None, 1, True, "x", [], {}, [[]], [{}], {"x": {}}])
def test_a_field_of_another_type_is_left_out(value: Any) -> None:
    """A report is a file that anything may have written."""
    report = check_report("", 2)
    reports = [{**report, name: value} for name in ("at", "exit_code", "mode", "checks", "findings")]
    checks = [check for check in report["checks"] for _ in range(1)]
    for name in checks[0]:
        reports.append({**report, "checks": [{**check, name: value} for check in checks]})
    for name in ("reference", "verdict", "error", "assertions"):
        runs = [{**checks[0]["runs"][0], name: value}]
        reports.append({**report, "checks": [{**checks[0], "runs": runs}]})

    for changed in reports:
        view_check_run("name", changed)
        list_check_histories([("name", changed)])
