"""The overview's figures, plots and rows."""

from __future__ import annotations

import pytest

from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.traces.trace_index import CallGroup
from traceforge.ui.plots import SERIES_CLASSES
from traceforge.ui.views.call_cost import CostSum, PricedCall
from traceforge.ui.views.overview_view import (
    BUCKETS_MAX,
    DAY_MS,
    HOUR_MS,
    choose_bucket_ms,
    list_buckets,
    percentile,
    view_activity,
    view_costs,
    view_coverage,
)
from traceforge.ui.views.text_view import NAME_CHARS_MAX

START = 20_000 * DAY_MS


def group(place: int, durations: list[int], model: str = "m", source: str = "a.py:1", errors: int = 0) -> CallGroup:
    """Calls in the hour with this number; ten tokens each."""
    calls = len(durations)
    return CallGroup(START + place * HOUR_MS, model, source, calls, errors, 10.0 * calls, durations)


def hours(count: int) -> list[int]:
    return [START + place * HOUR_MS for place in range(count)]


@pytest.mark.parametrize(("share", "expected"), [(50, 5.0), (95, 10.0), (99, 10.0), (0, 1.0), (100, 10.0)])
def test_a_percentile_is_the_duration_of_a_call(share: int, expected: float) -> None:
    """The smallest that so many calls do not exceed."""
    assert expected == percentile(list(range(10, 110, 10)), share)


def test_no_call_has_no_percentile() -> None:
    assert percentile([], 50) is None


def test_percentiles_are_of_all_calls_of_a_name_together() -> None:
    """Not of the percentiles of its parts: ten fast calls and one slow one."""
    groups = [group(0, [10] * 10), group(1, [9000], source="b.py:1")]

    activity = view_activity(groups, hours(2), by_site=False)

    assert (1.0, 900.0) == (activity.median_ms, activity.p95_ms)
    assert (1.0, 900.0) == (activity.models[0].median_ms, activity.models[0].p95_ms)
    assert [1.0, 900.0] == [row.p95_ms for row in activity.sites]


def test_plots_have_the_sums_of_each_stretch() -> None:
    """By model or by call site; a bucket without a call is empty, and its percentiles are a gap."""
    groups = [group(0, [10, 20]), group(2, [30], "n", "b.py:2", errors=1)]

    by_model = view_activity(groups, hours(3), by_site=False)
    by_site = view_activity(groups, hours(3), by_site=True)

    assert ("00:00", "01:00", "02:00") == tuple(row[0] for row in by_model.calls_plot.table.rows)
    assert [("2", "0"), ("0", "0"), ("0", "1")] == [row[1:] for row in by_model.calls_plot.table.rows]
    assert [("20", "0"), ("0", "0"), ("0", "10")] == [row[1:] for row in by_model.tokens_plot.table.rows]
    assert [("0", "0"), ("0", "0"), ("0", "1")] == [row[1:] for row in by_model.errors_plot.table.rows]
    assert [("1", "2", "2"), ("–",) * 3, ("3",) * 3] == [row[1:] for row in by_model.latency_plot.table.rows]
    assert [("2", "–"), ("–", "–"), ("–", "3")] == [row[1:] for row in by_model.series_latency_plot.table.rows]
    assert (("m", "n"), ("a.py:1", "b.py:2")) == (by_model.series, by_site.series)


def test_more_names_than_colours_share_the_last_one() -> None:
    groups = [group(0, [10] * (20 - number), f"model-{number:02}") for number in range(SERIES_CLASSES + 2)]

    activity = view_activity(groups, hours(1), by_site=False)

    assert (SERIES_CLASSES, "3 others") == (len(activity.series), activity.series[-1])
    assert activity.calls == sum(int(cell) for cell in activity.calls_plot.table.rows[0][1:])


def test_no_calls_are_figures_of_nothing() -> None:
    activity = view_activity([], hours(2), by_site=False)

    assert (0, 0, 0, None) == (activity.calls, activity.errors, activity.tokens, activity.p99_ms)


@pytest.mark.parametrize("span", [0, HOUR_MS, DAY_MS, 7 * DAY_MS, 400 * DAY_MS, 20 * 365 * DAY_MS])
def test_a_plot_has_no_more_bars_than_fit(span: int) -> None:
    bucket = choose_bucket_ms(span)

    assert len(list_buckets(START, START + span, bucket)) <= BUCKETS_MAX + 1


def test_a_call_from_another_century_does_not_make_the_plot_endless() -> None:
    """A clock that was wrong: the newest buckets are shown."""
    buckets = list_buckets(-(2**42), 2**42, choose_bucket_ms(2**43))

    assert len(buckets) <= 2 * BUCKETS_MAX + 1
    assert view_activity([], buckets, by_site=False).calls_plot.svg


def test_a_call_site_without_a_snapshot_is_not_guarded() -> None:
    """By its file and its line; a call site that is not known is neither."""
    groups = [group(0, [1, 2]), group(1, [3]), group(0, [4], source="b.py:2"), group(0, [5], source="")]

    coverage = view_coverage(groups, [], [approved("a.py", 2, "request"), approved("b.py", 2, "behaviour")])

    assert ((("a.py:1", 3),), 3, 1) == (
        coverage.uncovered_sites,
        coverage.uncovered_calls,
        coverage.unknown_site_calls,
    )
    assert (2, 1) == (coverage.approved, coverage.prompt_only)


def approved(file: str, line: int, gate: str) -> ApprovedCall:
    record = {"source": {"file": file, "line": line}}
    return ApprovedCall("id", "openai", "f.json", "sha256:0", record, None, gate)  # type: ignore[arg-type]


def test_a_name_of_any_length_is_a_short_row_that_finds_its_calls() -> None:
    """The names of models and call sites come from the application."""
    name = "m" * 100_000

    activity = view_activity([group(0, [10], name, name)], hours(1), by_site=False)
    coverage = view_coverage([group(0, [10], name, name)], [], [])

    assert NAME_CHARS_MAX == len(activity.models[0].name) == len(activity.series[0])
    assert f"{name[:NAME_CHARS_MAX]}*" == activity.models[0].pattern
    assert NAME_CHARS_MAX == len(coverage.uncovered_sites[0][0])


def test_an_approved_call_site_that_made_no_call_is_unseen() -> None:
    coverage = view_coverage([group(0, [1])], [], [approved("a.py", 1, "request"), approved("b.py", 2, "request")])

    assert ("b.py:2",) == coverage.unseen_sites


def test_costs_are_divided_as_calls_are() -> None:
    """A call before the first bucket is in none, and a name without a colour of its own is with the others."""
    calls = (
        PricedCall(START - 1, "m", "a.py:1", 8.0),
        PricedCall(START, "m", "a.py:1", 0.5),
        PricedCall(START + 1, "m", "a.py:1", 0.25),
        PricedCall(START + HOUR_MS, "x", "b.py:2", 2.0),
    )
    costs = CostSum(10.75, 4, 4, {}, {}, calls)

    by_model = view_costs(costs, hours(2), ["m", "2 others"], by_site=False)
    by_site = view_costs(costs, hours(2), ["a.py:1", "b.py:2"], by_site=True)

    assert [("0.75", "0"), ("0", "2")] == [row[1:] for row in by_model.table.rows]
    assert [("0.75", "0"), ("0", "2")] == [row[1:] for row in by_site.table.rows]


def test_times_of_two_days_have_the_day() -> None:
    """Otherwise the first and the last of 24 hours would look the same."""
    rows = view_activity([], hours(25), by_site=False).calls_plot.table.rows

    assert ("Oct 04, 00:00", "Oct 05, 00:00") == (rows[0][0], rows[-1][0])
