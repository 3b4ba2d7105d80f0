"""One call as plain data for its page. Pure; a trace is hostile, so every field may have another type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from traceforge.canon import JSON, JSONObject
from traceforge.config import ModelRule
from traceforge.traces.trace_format import Trace
from traceforge.traces.view_repair import ViewProblem, read_view_problems
from traceforge.ui.views.call_cost import CallCost, find_call_cost
from traceforge.ui.views.editor_link import editor_link
from traceforge.ui.views.json_view import json_line
from traceforge.ui.views.redaction_names import redaction_name
from traceforge.ui.views.trace_list_view import session_label
from traceforge.wire.unified import as_object, as_text, is_number, list_objects

_NO_PARAMETERS = frozenset({"model", "messages", "prompt", "input", "tools", "functions", "client_frames"})
_USAGE = (("prompt_tokens", "input"), ("completion_tokens", "output"), ("total_tokens", "total"))
_USAGE_DETAILS = (
    ("prompt_tokens_details", "cached_tokens", "cached input"),
    ("completion_tokens_details", "reasoning_tokens", "reasoning"),
)


class CallSite(NamedTuple):
    """The place in the application that made a call."""

    location: str  # As `app/agent.py:12`.
    function: str
    link: str  # That opens it in an editor; "" if there is none.


class RedactionCount(NamedTuple):
    """What was taken out of one side of a call: the kind of secret, and how often."""

    side: str
    kind: str
    times: int

    @property
    def name(self) -> str:
        """The kind in words."""
        return redaction_name(self.kind)


class TraceView(NamedTuple):
    """The head of the page about a call: everything but its conversation."""

    id: str
    timestamp: str
    title: str
    provider: str
    method: str
    url: str
    is_error: bool
    http_status: int | None
    outcome: str
    error: str
    duration_ms: float | None
    first_byte_ms: float | None
    is_stream: bool
    session_id: str
    session_label: str
    step: int | None
    parent_id: str
    scope: str
    call_site: CallSite | None
    parameters: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    usage: tuple[tuple[str, float], ...]
    cost: CallCost | None
    redactions: tuple[RedactionCount, ...]
    problems: tuple[ViewProblem, ...]  # Fields of the provider that the conversation shows differently, or not.
    request_headers: tuple[str, ...]
    response_headers: tuple[str, ...]


def view_trace(
    trace: Trace,
    *,
    is_stream: bool,
    project: str = "",
    editor: str = "",
    models: Mapping[str, ModelRule] = MappingProxyType({}),
) -> TraceView:
    """The facts about a call; `is_stream`: it has chunks. `models` may declare prices."""
    body = trace.body
    request, metadata, wire = (as_object(body.get(name)) for name in ("request", "metadata", "wire"))
    usage = as_object(as_object(body.get("response")).get("usage"))
    model = as_text(metadata.get("model")) or as_text(request.get("model"))
    session_id = as_text(body.get("session_id"))
    outcome = as_text(wire.get("outcome"))
    ending = as_text(wire.get("ending"))
    return TraceView(
        id=trace.id,
        timestamp=trace.timestamp,
        title=trace.operation or model or as_text(body.get("endpoint")),
        provider=as_text(body.get("provider")),
        method=as_text(wire.get("method")),
        url=as_text(wire.get("url")) or as_text(body.get("endpoint")),
        is_error=metadata.get("status") != "success",
        http_status=_whole_number(wire.get("status")),
        outcome=", ".join(text for text in (outcome, ending) if text not in ("", "answered", "complete")),
        error=as_text(metadata.get("error")),
        duration_ms=_number(metadata.get("duration_ms")),
        first_byte_ms=_number(wire.get("first_byte_ms")),
        is_stream=is_stream,
        session_id=session_id,
        session_label=session_label(session_id),
        step=_whole_number(body.get("step_index")),
        parent_id=as_text(body.get("parent_trace_id")),
        scope=as_text(body.get("scope")),
        call_site=_view_call_site(as_object(body.get("source")), project, editor),
        parameters=tuple((name, json_line(value)) for name, value in request.items() if name not in _NO_PARAMETERS),
        tools=_tool_names(request),
        usage=_view_usage(usage),
        cost=find_call_cost(body, models),
        redactions=_view_redactions(as_object(body.get("redacted"))),
        problems=read_view_problems(body),
        request_headers=header_lines(wire.get("request_headers")),
        response_headers=header_lines(wire.get("response_headers")),
    )


def _view_call_site(source: JSONObject, project: str, editor: str) -> CallSite | None:
    file, line = as_text(source.get("file")), _whole_number(source.get("line")) or 0
    if not file:
        return None
    location = f"{file}:{line}" if line else file
    return CallSite(location, as_text(source.get("function")), editor_link(editor, project, file, line))


def _tool_names(request: JSONObject) -> tuple[str, ...]:
    tools = [tool for field in ("tools", "functions") for tool in list_objects(request.get(field))]
    names = (as_object(tool.get("function")).get("name") or tool.get("name") or tool.get("type") for tool in tools)
    return tuple(as_text(name) for name in names)


def _view_usage(usage: JSONObject) -> tuple[tuple[str, float], ...]:
    counts = [(label, _number(usage.get(name))) for name, label in _USAGE]
    counts += [(label, _number(as_object(usage.get(group)).get(name))) for group, name, label in _USAGE_DETAILS]
    return tuple((label, count) for label, count in counts if count is not None)


def _view_redactions(redacted: JSONObject) -> tuple[RedactionCount, ...]:
    counts = Counter(
        (side, as_text(item.get("type")))
        for side in ("request", "response")
        for item in list_objects(redacted.get(side))
    )
    return tuple(RedactionCount(side, kind, count) for (side, kind), count in sorted(counts.items()))


def header_lines(value: JSON) -> tuple[str, ...]:
    """The headers of a trace, one line each."""
    return tuple(line for line in value if isinstance(line, str)) if isinstance(value, list) else ()


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and is_number(value) else None


def _whole_number(value: JSON) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
