"""The pages about traces: the live list, one call, its raw form, and its removal."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from traceforge.canon import json_bytes
from traceforge.errors import NotFound
from traceforge.terminal import escape_json
from traceforge.traces.retention import remove_trace
from traceforge.traces.trace_format import Trace
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_query import STATUSES, TraceQuery, read_query
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.call_previews import CallPreviews
from traceforge.ui.event_hub import TRACES
from traceforge.ui.page_context import Action, Area, AreaPages, PageContext, PageRoute
from traceforge.ui.page_renderer import number_text
from traceforge.ui.views.call_copy import LANGUAGES, copy_call
from traceforge.ui.views.conversation_view import view_conversation
from traceforge.ui.views.json_view import json_html
from traceforge.ui.views.trace_list_view import TraceListItem, list_item, search_item
from traceforge.ui.views.trace_view import view_trace
from traceforge.wire.dialects import list_dialects

PAGE_SIZE = 50  # About three screens; the next page is one click away.
CHILDREN_MAX = 12  # Calls that name this one as their parent.
SAME_TIME_MAX = 64  # Calls that began in the same millisecond; among more, the newer neighbour may be missing.
FILTER_FIELDS = ("provider", "model", "status", "session", "since", "until", "endpoint")
SINCE_CHOICES = (("15m", "15 minutes"), ("1h", "1 hour"), ("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"))

TOTAL_HEADER = "X-TraceForge-Total"  # For the script of the live list, which asks for the rows alone.

AREA = Area("traces", "Traces", "/traces", "t")


class TraceListPage(NamedTuple):
    """One page of the list, and what is needed for the next one."""

    items: list[TraceListItem]
    has_more: bool
    total: int | None  # None: not counted, for a search.
    is_empty_project: bool


async def list_traces(request: Request, context: PageContext) -> Response:
    """The newest traces that match the query; with `before`, those older than this trace."""
    parameters = request.query_params
    fields = {name: parameters.get(name, "") for name in FILTER_FIELDS}
    text = parameters.get("q", "")
    query = read_query(text, fields)
    before = parameters.get("before", "")
    page = await context.read_traces(lambda store: read_page(store, query, before, context.previews))
    template = "traces/rows.html" if parameters.get("part") == "rows" else "traces/list.html"
    response = context.render(
        request,
        template,
        area=AREA.name,
        page=page,
        text=text,
        fields=fields,
        before=before,
        is_filtered=query != TraceQuery(TraceFilter()),
        providers=list_dialects(),
        statuses=STATUSES,
        since_choices=SINCE_CHOICES,
    )
    if page.total is not None:
        response.headers[TOTAL_HEADER] = number_text(page.total)
    return response


def read_page(store: TraceStore, query: TraceQuery, before: str, known_previews: CallPreviews) -> TraceListPage:
    """One page of the list, from the index, and the previews of its calls as far as they can be read in time."""
    trace_filter = query.filter
    if before:
        trace_filter = msgspec.structs.replace(trace_filter, before=store.load_row(before).summary.file_name)
    if query.words:
        items = [search_item(hit) for hit in store.search(query.words, trace_filter, PAGE_SIZE + 1)]
        total = None
    else:
        rows = store.list_rows(trace_filter, PAGE_SIZE + 1)
        previews = known_previews.find(store, rows[:PAGE_SIZE])
        items = [list_item(row.summary, preview=previews.get(row.summary.id)) for row in rows]
        total = store.count_traces(query.filter)
    is_empty = not items and not store.count_traces(TraceFilter())
    return TraceListPage(items[:PAGE_SIZE], len(items) > PAGE_SIZE, total, is_empty)


class OpenedTrace(NamedTuple):
    """One call, and its neighbours in the list."""

    trace: Trace
    row: TraceRow
    newer_id: str
    older_id: str
    children: tuple[TraceSummary, ...]
    has_more_children: bool


async def show_trace(request: Request, context: PageContext) -> Response:
    """One call: its facts, its conversation, and the bodies as they were sent."""
    reference = request.path_params["trace_id"]
    opened = await context.read_traces(lambda store: open_trace(store, reference))

    body, summary = opened.trace.body, opened.row.summary

    def render() -> Response:
        view = view_trace(
            opened.trace,
            is_stream=summary.streamed,
            project=context.project,
            editor=context.options.editor,
            models=context.loaded.config.models,
        )
        return context.render(
            request,
            "traces/trace.html",
            area=AREA.name,
            opened=opened,
            view=view,
            conversation=view_conversation(body),
            request_html=json_html(body.get("provider_request", body.get("request"))),
            response_html=json_html(body.get("provider_response", body.get("response"))),
            languages=LANGUAGES,
        )

    return await context.in_thread(render)  # A large call takes a while.


def open_trace(store: TraceStore, reference: str) -> OpenedTrace:
    """A trace by its id or the beginning of it, and its neighbours in time."""
    row = store.load_row(reference)
    older = store.list_rows(TraceFilter(before=row.summary.file_name), 1)
    later = store.list_rows(TraceFilter(since=row.summary.timestamp), SAME_TIME_MAX, oldest_first=True)
    places = [place for place, other in enumerate(later) if other.summary.id == row.summary.id]
    newer = later[places[0] + 1 : places[0] + 2] if places else []
    newer_id, older_id = ("".join(other.summary.id for other in rows) for rows in (newer, older))
    children = store.list_rows(TraceFilter(parent_id=row.summary.id, since=row.summary.timestamp), CHILDREN_MAX + 1)
    summaries = tuple(child.summary for child in children)
    return OpenedTrace(
        store.load_trace(row), row, newer_id, older_id, summaries[:CHILDREN_MAX], len(summaries) > CHILDREN_MAX
    )


async def show_raw_trace(request: Request, context: PageContext) -> Response:
    """The whole trace as JSON, however large it is."""
    reference = request.path_params["trace_id"]
    trace = await context.read_traces(lambda store: store.load_trace(store.load_row(reference)))
    text = await context.in_thread(lambda: escape_json(json_bytes(trace.body, indent=True)))
    headers = {"Content-Disposition": f'attachment; filename="trace-{re.sub(r"[^0-9A-Za-z-]", "", trace.id)}.json"'}
    return Response(text, headers=headers, media_type="application/json")


async def show_copy(request: Request, context: PageContext) -> Response:
    """The call as a curl command, a Python program or a test."""
    reference, language = request.path_params["trace_id"], request.path_params["language"]
    if language not in LANGUAGES:
        raise HTTPException(404)
    trace = await context.read_traces(lambda store: store.load_trace(store.load_row(reference)))
    text = await context.in_thread(lambda: copy_call(trace, language))
    if text is None:
        hint = "Its raw form has everything that was stored."
        raise NotFound("this trace does not hold the call as it was sent", hint=hint)
    return PlainTextResponse(text)


async def ask_to_delete(request: Request, context: PageContext) -> Response:
    """The question before a trace is removed."""
    reference = request.path_params["trace_id"]
    row = await context.read_traces(lambda store: store.load_row(reference))
    return context.render(request, "traces/delete.html", area=AREA.name, item=list_item(row.summary))


async def delete_trace(request: Request, context: PageContext) -> Response:
    """Remove a trace with its chunks, as `traceforge trace prune` does."""
    reference = request.path_params["trace_id"]
    await context.read_traces(lambda store: remove_trace(store, store.load_row(reference)))
    context.events.publish(TRACES)
    return RedirectResponse("/traces", 303)


PAGES = AreaPages(
    AREA,
    (
        PageRoute("/traces", list_traces),
        PageRoute("/traces/{trace_id}", show_trace, is_shareable=True),
        PageRoute("/traces/{trace_id}/raw", show_raw_trace),
        PageRoute("/traces/{trace_id}/copy/{language}", show_copy),
        PageRoute("/traces/{trace_id}/delete", ask_to_delete),
        Action("/traces/{trace_id}/delete", delete_trace),
    ),
)
