"""The overview as plain data: what calls did over time, and what has no check. Pure.

In: sums from the index, pending changes, approved calls. Out: figures, plots and rows. Never: a percentile of
percentiles: the durations of all calls of a name are put together first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from traceforge.snapshots.formats.determinism_policy import REQUEST_GATE
from traceforge.snapshots.record.pending_changes import ChangeKind, PendingChange
from traceforge.snapshots.tree.approved_calls import ApprovedCall
from traceforge.traces.trace_index import CallGroup
from traceforge.ui.plots import SERIES_CLASSES, Plot, percentile_lines, sparkline, stacked_bars
from traceforge.ui.views.call_cost import CostSum
from traceforge.ui.views.text_view import NAME_CHARS_MAX, clip_text

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BUCKETS_MAX = 60  # Bars of a plot.
ROWS_MAX = 12  # Names in a table.
TENTHS = 10  # The index gives durations in tenths of a millisecond.

UNKNOWN_MODEL = "unknown model"
UNKNOWN_SITE = "unknown call site"

# Lengths that people read easily; a span of time is divided by the first that gives few enough buckets.
_BUCKET_LENGTHS = [60_000, 120_000, 300_000, 900_000, 1_800_000]
_BUCKET_LENGTHS += [HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS, DAY_MS, 7 * DAY_MS, 30 * DAY_MS, 365 * DAY_MS]

KIND_NAMES = {
    ChangeKind.NEW: "new",
    ChangeKind.REQUEST: "prompt changed",
    ChangeKind.ANSWER: "answer changed",
    ChangeKind.BOTH: "prompt and answer changed",
    ChangeKind.CALLS: "number of calls changed",
    ChangeKind.REFUSED: "cannot be approved",
}


class UsageRow(NamedTuple):
    """The calls of one model or one call site."""

    name: str
    pattern: str  # Finds its calls in the list of traces.
    calls: int
    errors: int
    tokens: float
    median_ms: float | None
    p95_ms: float | None
    trend: Plot


class Activity(NamedTuple):
    """What the calls of a span of time did."""

    calls: int
    errors: int
    tokens: float
    median_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    series: tuple[str, ...]  # The names of the parts of the plots.
    calls_plot: Plot
    tokens_plot: Plot
    errors_plot: Plot
    latency_plot: Plot
    series_latency_plot: Plot
    models: tuple[UsageRow, ...]
    sites: tuple[UsageRow, ...]
    model_count: int
    site_count: int


class GateCoverage(NamedTuple):
    """What waits for approval, and what is not checked."""

    approved: int
    pending: tuple[tuple[str, int], ...]  # The kind of change, and how many.
    pending_count: int
    varying: int  # Pending calls whose answers differed between the runs of `record --runs`.
    prompt_only: int  # Approved calls of which the answer is not checked.
    uncovered_sites: tuple[tuple[str, int], ...]  # Call sites that no snapshot names, with their calls.
    uncovered_calls: int
    unseen_sites: tuple[str, ...]  # Call sites of snapshots that made no call.
    unknown_site_calls: int  # Calls of which the call site is not known.


def choose_bucket_ms(span_ms: int) -> int:
    """How long each bar of a plot of this span is."""
    return next((length for length in _BUCKET_LENGTHS if span_ms <= length * BUCKETS_MAX), _BUCKET_LENGTHS[-1])


def list_buckets(first_ms: int, last_ms: int, bucket_ms: int) -> list[int]:
    """The starts of all buckets from the first to the last call; the newest ones, if there are too many."""
    first, last = first_ms // bucket_ms, last_ms // bucket_ms
    return [place * bucket_ms for place in range(max(first, last - 2 * BUCKETS_MAX), last + 1)]


def view_activity(groups: Sequence[CallGroup], buckets: Sequence[int], *, by_site: bool) -> Activity:
    """Figures, plots and tables of the calls; `by_site` divides the plots by call site instead of model."""
    labels = [_time_label(start, buckets) for start in buckets]
    models = _group_by(groups, lambda group: group.model or UNKNOWN_MODEL)
    sites = _group_by(groups, lambda group: group.source or UNKNOWN_SITE)
    series = _top_series(sites if by_site else models)
    durations = _durations(groups)
    return Activity(
        calls=sum(group.calls for group in groups),
        errors=sum(group.errors for group in groups),
        tokens=sum(group.tokens for group in groups),
        median_ms=percentile(durations, 50),
        p95_ms=percentile(durations, 95),
        p99_ms=percentile(durations, 99),
        series=tuple(map(clip_text, series)),
        calls_plot=stacked_bars(labels, _sums(series, buckets, "calls"), "Calls"),
        tokens_plot=stacked_bars(labels, _sums(series, buckets, "tokens"), "Tokens"),
        errors_plot=stacked_bars(labels, _sums(series, buckets, "errors"), "Errors"),
        latency_plot=percentile_lines(labels, _percentile_lines(groups, buckets), "Latency of all calls", " ms"),
        series_latency_plot=percentile_lines(
            labels,
            {name: _line(members, buckets, 95) for name, members in series.items()},
            "95th percentile of the latency",
            " ms",
        ),
        models=_usage_rows(models, buckets),
        sites=_usage_rows(sites, buckets),
        model_count=len(models),
        site_count=len(sites),
    )


def view_costs(costs: CostSum, buckets: Sequence[int], series: Sequence[str], *, by_site: bool) -> Plot:
    """The cost over time, divided as the other plots are: `series` are their names, the last for all others."""
    sums: dict[str, list[float]] = {name: [0.0] * len(buckets) for name in series}
    for cost in costs.calls:
        bucket = bisect_right(buckets, cost.start_ms) - 1
        name = clip_text((cost.source or UNKNOWN_SITE) if by_site else (cost.model or UNKNOWN_MODEL))
        if bucket >= 0 and series:
            sums[name if name in sums else series[-1]][bucket] += cost.amount
    return stacked_bars([_time_label(start, buckets) for start in buckets], sums, "Cost")


def view_coverage(
    groups: Iterable[CallGroup], changes: Sequence[PendingChange], approved: Iterable[ApprovedCall]
) -> GateCoverage:
    """What waits for approval, and which calls nothing checks. A call site is a file and a line."""
    approved = list(approved)
    covered = {f"{call.source['file']}:{call.source.get('line')}" for call in approved if call.source.get("file")}
    calls = Counter[str]()
    for group in groups:
        calls[group.source] += group.calls
    unknown = calls.pop("", 0)
    ranked = sorted(calls.items(), key=lambda item: (-item[1], item[0]))
    uncovered = [(clip_text(source), count) for source, count in ranked if source not in covered]
    kinds = Counter(change.kind for change in changes)
    return GateCoverage(
        approved=len(approved),
        pending=tuple((name, kinds[kind]) for kind, name in KIND_NAMES.items() if kinds[kind]),
        pending_count=len(changes),
        varying=sum(any(reason.field == "response" for reason in change.reasons) for change in changes),
        prompt_only=sum(call.gate == REQUEST_GATE for call in approved),
        uncovered_sites=tuple(uncovered),
        uncovered_calls=sum(count for _, count in uncovered),
        unseen_sites=tuple(clip_text(source) for source in sorted(covered - calls.keys())),
        unknown_site_calls=unknown,
    )


def percentile(durations: Sequence[int], share: int) -> float | None:
    """The duration in milliseconds that this percentage of sorted calls does not exceed; None without a call."""
    if not durations:
        return None
    place = -(-len(durations) * share // 100) - 1
    return durations[max(place, 0)] / TENTHS


def _durations(groups: Iterable[CallGroup]) -> list[int]:
    durations: list[int] = []
    for group in groups:
        durations += group.durations
    durations.sort()
    return durations


def _group_by(groups: Iterable[CallGroup], name_of: Callable[[CallGroup], str]) -> dict[str, list[CallGroup]]:
    """The groups of each name, the name with the most calls first."""
    named: dict[str, list[CallGroup]] = {}
    for group in groups:
        named.setdefault(name_of(group), []).append(group)
    return dict(sorted(named.items(), key=lambda item: (-sum(group.calls for group in item[1]), item[0])))


def _top_series(named: Mapping[str, list[CallGroup]]) -> dict[str, list[CallGroup]]:
    """As many names as there are colours; the last is all others, if there are more."""
    names = list(named)
    if len(names) <= SERIES_CLASSES:
        return dict(named)
    named_alone = names[: SERIES_CLASSES - 1]
    others = [group for name in names[SERIES_CLASSES - 1 :] for group in named[name]]
    return {**{name: named[name] for name in named_alone}, f"{len(names) - len(named_alone)} others": others}


def _sums(series: Mapping[str, list[CallGroup]], buckets: Sequence[int], field: str) -> dict[str, list[float]]:
    return {name: _sum_line(members, buckets, field) for name, members in series.items()}


def _sum_line(groups: Iterable[CallGroup], buckets: Sequence[int], field: str) -> list[float]:
    sums: Counter[int] = Counter()
    for group in groups:
        sums[group.start_ms] += getattr(group, field)
    return [float(sums[start]) for start in buckets]


def _percentile_lines(groups: Sequence[CallGroup], buckets: Sequence[int]) -> dict[str, list[float | None]]:
    return {f"p{share}": _line(groups, buckets, share) for share in (50, 95, 99)}


def _line(groups: Iterable[CallGroup], buckets: Sequence[int], share: int) -> list[float | None]:
    members: dict[int, list[CallGroup]] = {}
    for group in groups:
        members.setdefault(group.start_ms, []).append(group)
    return [percentile(_durations(members.get(start, ())), share) for start in buckets]


def _usage_rows(named: Mapping[str, list[CallGroup]], buckets: Sequence[int]) -> tuple[UsageRow, ...]:
    rows = []
    for name, members in list(named.items())[:ROWS_MAX]:
        durations = _durations(members)
        rows.append(
            UsageRow(
                clip_text(name),
                name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}*",
                sum(group.calls for group in members),
                sum(group.errors for group in members),
                sum(group.tokens for group in members),
                percentile(durations, 50),
                percentile(durations, 95),
                sparkline(_sum_line(members, buckets, "calls"), f"Calls of {name}"),
            )
        )
    return tuple(rows)


def _time_label(start_ms: int, buckets: Sequence[int]) -> str:
    """A time in UTC, as short as the span of the plot allows."""
    try:
        instant = datetime.fromtimestamp(start_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(start_ms)
    span = buckets[-1] - buckets[0]
    is_one_day = buckets[0] // DAY_MS == buckets[-1] // DAY_MS
    return instant.strftime("%H:%M" if is_one_day else "%b %d, %H:%M" if span <= 14 * DAY_MS else "%Y-%m-%d")
