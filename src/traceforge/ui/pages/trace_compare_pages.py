"""Compare one call with another: choose the other, and see what differs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import Comparison, compare
from traceforge.errors import NotFound
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_query import TraceQuery, read_query
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.call_previews import CallPreviews
from traceforge.ui.page_context import AreaPages, PageContext, PageRoute
from traceforge.ui.page_renderer import quote_path
from traceforge.ui.views.call_preview import CallPreview
from traceforge.ui.views.diff_view import view_comparison
from traceforge.ui.views.trace_list_view import list_item

CANDIDATES_SEARCHED = 500  # The newest traces, in which calls of the same place are looked for.
CANDIDATES_MAX = 30
_TRACE_ID = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{3,35}\Z")
LAYOUTS = ("side", "inline")


async def choose_other(request: Request, context: PageContext) -> Response:
    """Calls that are worth a comparison; `with` is the id of another one, or a query that finds some."""
    reference, text = request.path_params["trace_id"], request.query_params.get("with", "").strip()
    is_id = await context.read_traces(lambda store: has_trace(store, text))
    if is_id:
        return RedirectResponse(f"/traces/{quote_path(reference)}/compare/{quote_path(text)}", 303)
    query = read_query(text)
    summary, candidates = await context.read_traces(lambda store: find_candidates(store, reference, query))
    previews = await context.read_traces(lambda store: find_previews(store, candidates, context.previews))
    return context.render(
        request,
        "traces/choose.html",
        area="traces",
        item=list_item(summary),
        items=[list_item(candidate, preview=previews.get(candidate.id)) for candidate in candidates],
        text=text,
    )


def find_previews(
    store: TraceStore, summaries: Sequence[TraceSummary], previews: CallPreviews
) -> Mapping[str, CallPreview]:
    """What these calls asked and got; none if one of them was removed meanwhile."""
    try:
        return previews.find(store, [store.load_row(summary.id) for summary in summaries])
    except NotFound:
        return {}


def has_trace(store: TraceStore, reference: str) -> bool:
    """Whether one trace has this id, or an id that begins with it; a word of a search may look like one."""
    if not _TRACE_ID.match(reference):
        return False
    try:
        store.load_row(reference)
    except NotFound:
        return False
    return True


def find_candidates(store: TraceStore, reference: str, query: TraceQuery) -> tuple[TraceSummary, list[TraceSummary]]:
    """A trace, and others to compare it with: those that match a query. Without one, those of the same request come
    first, then those of the same place, then the newest of its endpoint.
    """
    summary = store.load_row(reference).summary
    if query.words:
        hits = store.search(query.words, query.filter, CANDIDATES_MAX + 1)
        return summary, [hit.summary for hit in hits if hit.summary.id != summary.id][:CANDIDATES_MAX]
    if query.filter != TraceFilter():
        rows = store.list_rows(query.filter, CANDIDATES_MAX + 1)
        return summary, [row.summary for row in rows if row.summary.id != summary.id][:CANDIDATES_MAX]
    rows = store.list_rows(TraceFilter(endpoint=summary.endpoint), CANDIDATES_SEARCHED)
    others = [row.summary for row in rows if row.summary.id != summary.id]
    # `sorted` keeps the order of those that are alike: the newest first.
    ranked = sorted(others, key=lambda other: (other.digest != summary.digest, other.source != summary.source))
    return summary, ranked[:CANDIDATES_MAX]


async def show_comparison(request: Request, context: PageContext) -> Response:
    """What differs between two calls, as `traceforge trace diff` finds it."""
    references = request.path_params["trace_id"], request.path_params["other_id"]
    before, after, comparison = await context.read_traces(lambda store: compare_traces(store, *references))
    layout = request.query_params.get("layout", "")

    def render() -> Response:
        return context.render(
            request,
            "traces/compare.html",
            area="traces",
            before=list_item(before),
            after=list_item(after),
            view=view_comparison(comparison),
            has_changed=comparison.has_changed,
            layout=layout if layout in LAYOUTS else LAYOUTS[0],
        )

    return await context.in_thread(render)


def compare_traces(store: TraceStore, before: str, after: str) -> tuple[TraceSummary, TraceSummary, Comparison]:
    """Two traces by their ids, and their comparison."""
    rows = [store.load_row(before), store.load_row(after)]
    calls = [ComparedCall.from_trace(store.load_trace(row).body) for row in rows]
    return rows[0].summary, rows[1].summary, compare(*calls)


PAGES = AreaPages(
    None,
    (
        PageRoute("/traces/{trace_id}/compare", choose_other),
        PageRoute("/traces/{trace_id}/compare/{other_id}", show_comparison, is_shareable=True),
    ),
)
