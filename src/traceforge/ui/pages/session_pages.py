"""The pages about sessions: the list, and one session as a tree over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from traceforge.config import ModelRule
from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.traces.trace_index import TraceRow, TraceSession
from traceforge.traces.trace_store import TraceStore
from traceforge.ui.page_context import Area, AreaPages, PageContext, PageRoute
from traceforge.ui.views.session_view import SessionView, StepContent, read_step, session_item, view_session

PAGE_SIZE = 50
LIMIT_MAX = 5000  # Sessions on one page.
STEPS_MAX = 200  # Of which the traces are read: an agent may make thousands of calls with long prompts.

AREA = Area("sessions", "Sessions", "/sessions", "s")


async def list_sessions(request: Request, context: PageContext) -> Response:
    """The sessions, newest call first, as `traceforge session list` has them."""
    text = request.query_params.get("limit", "")
    limit = min(max(int(text[:9]), 1), LIMIT_MAX) if text.isdecimal() and text.isascii() else PAGE_SIZE
    words = request.query_params.get("q", "").casefold().split()
    sessions = await context.read_traces(lambda store: find_sessions(store, words, limit + 1))
    return context.render(
        request,
        "sessions/list.html",
        area=AREA.name,
        items=[session_item(session) for session in sessions[:limit]],
        text=request.query_params.get("q", ""),
        has_more=len(sessions) > limit and limit < LIMIT_MAX,
        next_limit=limit * 2,
    )


def find_sessions(store: TraceStore, words: Sequence[str], limit: int) -> list[TraceSession]:
    """The newest sessions whose id or models contain every word."""
    if not words:
        return store.list_sessions(limit)
    texts = (
        (session, f"{session.session_id} {' '.join(session.models)}".casefold()) for session in store.list_sessions()
    )
    return list(islice((session for session, text in texts if all(word in text for word in words)), limit))


async def show_session(request: Request, context: PageContext) -> Response:
    """One session: its calls as a tree and in time, the state at each step, and its totals."""
    reference = request.path_params["session_id"]
    models = context.loaded.config.models
    view = await context.read_traces(lambda store: read_session(store, reference, models))
    return context.render(request, "sessions/session.html", area=AREA.name, view=view)


def read_session(store: TraceStore, reference: str, models: Mapping[str, ModelRule]) -> SessionView:
    """A session by its id or the beginning of it."""
    session_id, rows = store.load_session(reference)
    contents = {row.summary.id: read_content(store, row, models) for row in rows[:STEPS_MAX]}
    return view_session(session_id, [row.summary for row in rows], contents, STEPS_MAX)


def read_content(store: TraceStore, row: TraceRow, models: Mapping[str, ModelRule]) -> StepContent:
    """What the trace of a step holds; nothing if it was removed or damaged meanwhile."""
    try:
        return read_step(store.load_trace(row).body, models)
    except (NotFound, NotJSON, InvalidFile, CannotRead):
        return StepContent()


PAGES = AreaPages(
    AREA,
    (
        PageRoute("/sessions", list_sessions),
        PageRoute("/sessions/{session_id:path}", show_session, is_shareable=True),
    ),
)
