"""The list of traces as plain data for its template. Pure."""

from __future__ import annotations

from typing import NamedTuple

from traceforge.traces.trace_index import SearchHit
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.views.call_preview import CallPreview
from traceforge.ui.views.text_view import clip_text


class TraceListItem(NamedTuple):
    """One trace in the list."""

    id: str
    timestamp: str
    provider: str
    model: str
    is_error: bool
    is_stream: bool
    duration_ms: float
    tokens: float | None
    session_id: str
    session_label: str
    step: int | None
    source: str
    endpoint: str
    operation: str  # of a call without an answer of a model; "" for any other
    snippet: tuple[tuple[bool, str], ...] = ()  # Whether a part matches the search, and the part.
    preview: CallPreview | None = None  # None: not read yet.


def list_item(summary: TraceSummary, snippet: str = "", preview: CallPreview | None = None) -> TraceListItem:
    """A trace in the list; `snippet` is the text around the match of a search."""
    return TraceListItem(
        id=summary.id,
        timestamp=summary.timestamp,
        provider=clip_text(summary.provider),
        model=clip_text(summary.model),
        is_error=summary.status != "success",
        is_stream=summary.streamed,
        duration_ms=summary.duration_ms,
        tokens=summary.tokens,
        session_id=summary.session_id,
        session_label=clip_text(session_label(summary.session_id)),
        step=summary.step_index,
        source=clip_text(summary.source),
        endpoint=clip_text(summary.operation or summary.endpoint),
        operation=clip_text(summary.operation),
        snippet=split_snippet(snippet),
        preview=preview,
    )


def search_item(hit: SearchHit) -> TraceListItem:
    """A trace that a search found."""
    return list_item(hit.summary, hit.snippet)


def session_label(session_id: str) -> str:
    """A session as a list names it: of a test, whose session is its node id, the name without its file."""
    node, bracket, parameters = session_id.partition("[")
    path, _, test = node.rpartition("::")
    return f"{test}{bracket}{parameters}" if path else session_id


def split_snippet(snippet: str) -> tuple[tuple[bool, str], ...]:
    """The parts of a snippet; the index marks matches with the control characters 2 and 3."""
    parts: list[tuple[bool, str]] = []
    remaining = " ".join(snippet.split())
    while remaining:
        before, mark, after = remaining.partition("\x02")
        if before:
            parts.append((False, before))
        matched, _, remaining = after.partition("\x03") if mark else ("", "", "")
        if matched:
            parts.append((True, matched))
    return tuple(parts)
