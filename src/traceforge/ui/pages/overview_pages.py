"""The overview: what calls did over time, what waits for approval, and what has no check."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from traceforge.checks.runs.stored_reports import REPORTS
from traceforge.clock import days_ago, now
from traceforge.config import SNAPSHOTS_DIR, ModelRule
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON, TraceForgeError
from traceforge.snapshots.approve.pending_state import PendingState, load_pending_state
from traceforge.snapshots.formats.approval_format import load_approvals
from traceforge.snapshots.live.live_history import list_reports, read_report
from traceforge.traces.trace_index import CallGroup, TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.ui.page_context import Area, AreaPages, PageContext, PageRoute
from traceforge.ui.views.approval_view import ApprovalItem, view_approvals
from traceforge.ui.views.call_cost import CallCost, CostSum, find_call_cost, sum_costs
from traceforge.ui.views.check_view import CheckRunItem, list_check_run
from traceforge.ui.views.live_view import LiveCheckItem, list_check
from traceforge.ui.views.overview_view import (
    DAY_MS,
    choose_bucket_ms,
    list_buckets,
    view_activity,
    view_costs,
    view_coverage,
)

AREA = Area("overview", "Overview", "/", "o")
RANGES = {"1h": ("1 hour", 1 / 24), "24h": ("24 hours", 1.0), "7d": ("7 days", 7.0), "all": ("All", None)}
DEFAULT_RANGE = "24h"
SITES = "site"
COSTS_MAX = 5000  # Calls whose traces are read for their cost: about two seconds.


class CallSums(NamedTuple):
    """The calls of a span of time, by buckets of it."""

    groups: list[CallGroup]
    buckets: list[int]
    is_empty_project: bool
    unreadable: int  # Files that are no traces.


class LastDecisions(NamedTuple):
    """The newest approval, live check and run of checks; None where there is none that can be read."""

    approval: ApprovalItem | None
    live_check: LiveCheckItem | None
    check_run: CheckRunItem | None


async def show_overview(request: Request, context: PageContext) -> Response:
    """The page that the address of the server opens."""
    chosen = request.query_params.get("range", "")
    chosen = chosen if chosen in RANGES else DEFAULT_RANGE
    by_site = request.query_params.get("by") == SITES
    has_costs = request.query_params.get("cost") == "1"
    days, models = RANGES[chosen][1], context.loaded.config.models
    sums, state, last, costs = await asyncio.gather(
        context.read_traces(lambda store: read_sums(store, days)),
        context.in_thread(lambda: read_state(context)),
        context.in_thread(lambda: read_last_decisions(context.project)),
        context.read_traces(lambda store: read_costs(store, days, models) if has_costs else None),
    )

    def render() -> Response:
        problem = state if isinstance(state, TraceForgeError) else None
        coverage = (
            None
            if isinstance(state, TraceForgeError)
            else view_coverage(sums.groups, state.changes, state.approved.values())
        )
        activity = view_activity(sums.groups, sums.buckets, by_site=by_site)
        return context.render(
            request,
            "overview/overview.html",
            area=AREA.name,
            sums=sums,
            activity=activity,
            cost_plot=view_costs(costs, sums.buckets, activity.series, by_site=by_site) if costs else None,
            coverage=coverage,
            problem=problem,
            last=last,
            costs=costs,
            costs_max=COSTS_MAX,
            finding_count=0 if isinstance(state, TraceForgeError) else state.finding_count,
            ranges=RANGES,
            chosen=chosen,
            by_site=by_site,
        )

    return await context.in_thread(render)


def read_sums(store: TraceStore, days: float | None) -> CallSums:
    """The sums of the calls of the last `days`; None: of all calls."""
    time_range = store.find_time_range()
    last = int(now().timestamp() * 1000)
    first = last - int(days * DAY_MS) if days is not None else last
    if days is None and time_range is not None:
        first, last = time_range
    bucket = choose_bucket_ms(last - first)
    trace_filter = TraceFilter() if days is None else TraceFilter(since=days_ago(days))
    groups = store.sum_calls(trace_filter, bucket)
    return CallSums(groups, list_buckets(first, last, bucket), time_range is None, len(store.unreadable_files()))


def read_costs(store: TraceStore, days: float | None, models: Mapping[str, ModelRule]) -> CostSum:
    """The cost of the newest COSTS_MAX calls of the last `days`. The index has none, so their traces are read."""
    trace_filter = TraceFilter() if days is None else TraceFilter(since=days_ago(days))
    rows = store.list_rows(trace_filter, COSTS_MAX)
    return sum_costs((row.summary, read_cost(store, row, models)) for row in rows)


def read_cost(store: TraceStore, row: TraceRow, models: Mapping[str, ModelRule]) -> CallCost | None:
    """The cost of a call; None if it is not known, or if its trace was removed or damaged meanwhile."""
    try:
        return find_call_cost(store.load_trace(row).body, models)
    except (NotFound, NotJSON, InvalidFile, CannotRead):
        return None


def read_state(context: PageContext) -> PendingState | TraceForgeError:
    """What waits for approval; the error, if that cannot be read: the calls are shown anyway."""
    try:
        return load_pending_state(context.loaded)
    except TraceForgeError as exc:
        return exc


def read_last_decisions(project: str) -> LastDecisions:
    """The newest approval, live check and run of checks of a project."""
    approval, live_check, check_run = None, None, None
    with suppress(TraceForgeError):  # The page with the approvals says what is wrong with them.
        approvals = load_approvals(os.path.join(project, SNAPSHOTS_DIR))[-1:]
        approval = next(iter(view_approvals(approvals, (), has_signers=False)), None)
    with suppress(TraceForgeError):
        name = next(iter(list_reports(project)), "")
        live_check = list_check(name, read_report(project, name)) if name else None
    with suppress(TraceForgeError):
        name = next(iter(REPORTS.list_names(project)), "")
        check_run = list_check_run(name, REPORTS.read(project, name)) if name else None
    return LastDecisions(approval, live_check, check_run)


PAGES = AreaPages(AREA, (PageRoute("/", show_overview),))
