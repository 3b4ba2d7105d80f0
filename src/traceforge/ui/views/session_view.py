"""A session as plain data for its page: its calls as a tree, each with its place in time. Pure.

In: the summaries of a session, and what its traces hold. Out: rows of the tree, totals, and where time and tokens
went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from markupsafe import Markup

from traceforge.canon import JSON, JSONObject
from traceforge.clock import find_instant
from traceforge.config import ModelRule
from traceforge.report.trace_text import find_parents, parent_note
from traceforge.traces.trace_composer import OTHER_PROVIDER
from traceforge.traces.trace_index import TraceSession
from traceforge.traces.trace_summary import TraceSummary
from traceforge.ui.plots import Span, span_bar
from traceforge.ui.views.call_cost import find_call_cost
from traceforge.ui.views.call_preview import CallPreview, preview_call
from traceforge.ui.views.json_view import json_html, json_line
from traceforge.ui.views.text_view import PageBudget, clip_text
from traceforge.ui.views.trace_list_view import session_label
from traceforge.wire.unified import as_object, as_text, list_objects

DEPTH_MAX = 8  # Deeper calls are indented as far as this.
MODELS_MAX = 10  # Of a session in the list.
STATE_CHANGES_MAX = 6  # Fields of the state that a row names; the whole state is behind it.
VALUE_CHARS = 60  # Of a value in such a note.


class SessionItem(NamedTuple):
    """One session in the list."""

    id: str
    label: str
    file: str  # Of a test; "" for others.
    steps: int
    errors: int
    tokens: float
    models: tuple[str, ...]
    first: str
    last: str
    elapsed_ms: float


class StepContent(NamedTuple):
    """What the trace of a step holds beyond its summary."""

    tools: tuple[str, ...] = ()  # The tools that its answer calls.
    cost: float | None = None  # As the provider states it, or by the prices of the configuration.
    state: JSONObject | None = None
    preview: CallPreview = CallPreview()


class StateChange(NamedTuple):
    """A field of the state that differs from the step before."""

    name: str
    before: str  # "": the field is new.
    after: str  # "": the field is gone.


class SessionStep(NamedTuple):
    """One call in the tree."""

    id: str
    depth: int
    step: int | None
    title: str
    is_error: bool
    tools: tuple[str, ...]
    tokens: float | None
    cost: float | None
    start_ms: float
    duration_ms: float
    source: str
    note: str  # Why it does not stand below the parent that it names.
    bar: Markup
    state_html: Markup | None
    state_changes: tuple[StateChange, ...]
    preview: CallPreview


class Share(NamedTuple):
    """What one model, one call site or one tool had of a session."""

    name: str
    calls: int
    errors: int
    tokens: float
    duration_ms: float


class SessionView(NamedTuple):
    """A session and its totals."""

    id: str
    label: str
    steps: tuple[SessionStep, ...]
    omitted: int  # Steps that are not shown.
    calls: int
    errors: int
    tokens: float
    cost: float | None  # Of the calls whose contents were read; None: of no call is it known.
    first: str
    elapsed_ms: float
    model_ms: float  # While at least one call of a model was under way.
    own_ms: float  # While none was: the time of the application and its tools.
    models: tuple[Share, ...]
    sites: tuple[Share, ...]
    tools: tuple[tuple[str, int], ...]


def session_item(session: TraceSession) -> SessionItem:
    """A session in the list."""
    label = session_label(session.session_id)
    file = session.session_id.partition("::")[0] if label != session.session_id else ""
    elapsed = milliseconds(session.last) - milliseconds(session.first)
    return SessionItem(
        session.session_id,
        clip_text(label),
        clip_text(file),
        session.steps,
        session.errors,
        session.tokens,
        tuple(map(clip_text, session.models[:MODELS_MAX])),
        session.first,
        session.last,
        elapsed,
    )


def read_step(body: JSONObject, models: Mapping[str, ModelRule] = MappingProxyType({})) -> StepContent:
    """What a trace holds that the page of its session shows."""
    response = as_object(body.get("response"))
    messages = [as_object(choice.get("message")) for choice in list_objects(response.get("choices"))]
    calls = [call for message in messages for call in list_objects(message.get("tool_calls"))]
    names = (as_text(as_object(call.get("function")).get("name")) or as_text(call.get("name")) for call in calls)
    cost = find_call_cost(body, models)
    state = body.get("state_snapshot")
    return StepContent(
        tuple(name for name in names if name),
        None if cost is None else cost.amount,
        state if isinstance(state, dict) else None,
        preview_call(body),
    )


def view_session(
    session_id: str, summaries: Sequence[TraceSummary], contents: Mapping[str, StepContent], steps_max: int
) -> SessionView:
    """A session with the first `steps_max` calls of its tree; the totals are of all calls."""
    parents = find_parents(summaries)
    begin = min((milliseconds(summary.timestamp) for summary in summaries), default=0.0)
    spans = {
        summary.id: Span(summary.id, start, start + summary.duration_ms, is_error=summary.status != "success")
        for summary in summaries
        for start in (milliseconds(summary.timestamp) - begin,)
    }
    total = max((span.end_ms for span in spans.values()), default=0.0)
    changes = _find_state_changes(summaries, contents)
    tree = _walk_tree(summaries, parents)
    budget = PageBudget()
    steps = tuple(
        _view_step(
            summary, depth, spans[summary.id], total, contents.get(summary.id, StepContent()), budget
        )._replace(note=parent_note(summary, parents), state_changes=changes.get(summary.id, ()))
        for summary, depth in tree[:steps_max]
    )
    costs = [content.cost for content in contents.values() if content.cost is not None]
    model_ms = _covered(spans[summary.id] for summary in summaries if _may_be_of_model(summary))
    return SessionView(
        id=session_id,
        label=session_label(session_id),
        steps=steps,
        omitted=len(tree) - len(steps),
        calls=len(summaries),
        errors=sum(summary.status != "success" for summary in summaries),
        tokens=sum(summary.tokens or 0.0 for summary in summaries),
        cost=sum(costs) if costs else None,
        first=min((summary.timestamp for summary in summaries), default=""),
        elapsed_ms=total,
        model_ms=model_ms,
        own_ms=max(total - model_ms, 0.0),
        models=_share((summary.model or summary.operation or summary.endpoint, summary) for summary in summaries),
        sites=_share((summary.source, summary) for summary in summaries if summary.source),
        tools=tuple(Counter(name for content in contents.values() for name in content.tools).most_common()),
    )


def _may_be_of_model(summary: TraceSummary) -> bool:
    """Calls of tools have no provider that is known, and no model."""
    return bool(summary.model) or summary.provider != OTHER_PROVIDER


def _view_step(
    summary: TraceSummary, depth: int, span: Span, total: float, content: StepContent, budget: PageBudget
) -> SessionStep:
    return SessionStep(
        id=summary.id,
        depth=min(depth, DEPTH_MAX),
        step=summary.step_index,
        title=clip_text(summary.operation or summary.model or summary.endpoint),
        is_error=span.is_error,
        tools=tuple(map(clip_text, content.tools)),
        tokens=summary.tokens,
        cost=content.cost,
        start_ms=span.start_ms,
        duration_ms=summary.duration_ms,
        source=clip_text(summary.source),
        note="",
        bar=span_bar(span, total),
        state_html=json_html(content.state, budget) if content.state is not None else None,
        state_changes=(),
        preview=content.preview,
    )


def _walk_tree(summaries: Sequence[TraceSummary], parents: Mapping[str, str]) -> list[tuple[TraceSummary, int]]:
    """Every call with its depth: parents before their children, siblings in the order of their steps."""
    children: dict[str, list[TraceSummary]] = {}
    for summary in summaries:
        children.setdefault(parents[summary.id], []).append(summary)
    tree: list[tuple[TraceSummary, int]] = []
    waiting = [(summary, 0) for summary in reversed(children.get("", []))]
    while waiting:
        summary, depth = waiting.pop()
        tree.append((summary, depth))
        waiting += [(child, depth + 1) for child in reversed(children.get(summary.id, []))]
    return tree


def _find_state_changes(
    summaries: Sequence[TraceSummary], contents: Mapping[str, StepContent]
) -> dict[str, tuple[StateChange, ...]]:
    """What each step that has a state changed, compared with the last one before it."""
    changes: dict[str, tuple[StateChange, ...]] = {}
    before: JSONObject = {}
    for summary in summaries:
        state = contents.get(summary.id, StepContent()).state
        if state is None:
            continue
        names = [name for name in {**before, **state} if before.get(name, _ABSENT) != state.get(name, _ABSENT)]
        changes[summary.id] = tuple(
            StateChange(clip_text(name), _value_text(before, name), _value_text(state, name))
            for name in names[:STATE_CHANGES_MAX]
        )
        before = state
    return changes


_ABSENT = object()


def _value_text(state: JSONObject, name: str) -> str:
    if name not in state:
        return ""
    value: JSON = state[name]
    text = json_line(value)
    return text if len(text) <= VALUE_CHARS else f"{text[: VALUE_CHARS - 1]}…"


def _covered(spans: Iterable[Span]) -> float:
    """How long at least one span was open."""
    covered = end = 0.0
    for span in sorted(spans, key=lambda span: span.start_ms):
        covered += max(span.end_ms - max(span.start_ms, end), 0.0)
        end = max(end, span.end_ms)
    return covered


def _share(named: Iterable[tuple[str, TraceSummary]]) -> tuple[Share, ...]:
    """The sums of each name, the one that took longest first."""
    groups: dict[str, list[TraceSummary]] = {}
    for name, summary in named:
        groups.setdefault(name, []).append(summary)
    shares = [
        Share(
            name,
            len(group),
            sum(summary.status != "success" for summary in group),
            sum(summary.tokens or 0.0 for summary in group),
            sum(summary.duration_ms for summary in group),
        )
        for name, group in groups.items()
    ]
    return tuple(sorted(shares, key=lambda share: (-share.duration_ms, share.name)))


def milliseconds(timestamp: str) -> float:
    """A timestamp in milliseconds since 1970; 0 if it is none."""
    instant = find_instant(timestamp)
    return instant[0].timestamp() * 1000 + instant[1] / 1_000_000 if instant else 0.0
