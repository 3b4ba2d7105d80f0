"""Traces for a terminal: lists, one call in full, and the tree of a session.

In: summaries and traces. Out: text. Never: prints, or lets a character of a call move the cursor or start a line at
the margin: prompts and answers stand after a bar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.clock import find_instant
from traceforge.compare.conversation_frames import SpokenFrame, list_spoken_frames
from traceforge.report.text_format import bytes_text, count, table
from traceforge.terminal import one_line
from traceforge.traces.trace_format import Trace
from traceforge.traces.trace_index import SearchHit, TraceSession
from traceforge.traces.trace_summary import TraceSummary
from traceforge.traces.view_repair import read_view_problems

ID_LENGTH = 8  # Of an id in a list: enough to be unique.
TEST_LENGTH = 28
MODEL_LENGTH = 28
ENDPOINT_LENGTH = 60
TEXT_LINES_MAX = 40  # Of one message; `--full` shows all of it.
LINE_LENGTH_MAX = 2000  # Of one line of a message; `--full` shows all of it.
SETTINGS_LENGTH_MAX = 400
PROBLEMS_MAX = 8  # Fields that do not fit the view.

_BAR = "    | "
_COLUMNS = ("TIME (UTC)", "ID", "PROVIDER", "MODEL", "STATUS", "MS", "TOKENS", "SESSION", "ENDPOINT")
_TAIL_WIDTHS = (19, ID_LENGTH, 9, 20, 8, 6, 6, 11, 0)  # Fixed: later lines are not known yet.
_SESSION_COLUMNS = ("LAST CALL (UTC)", "SESSION", "STEPS", "ERRORS", "TOKENS", "MODELS")
_SPACE = re.compile(r"\s+")
_HIT_MARK = re.compile(r"\x02([^\x02\x03]*)\x03")  # The match in a search snippet.


def trace_list_text(summaries: Sequence[TraceSummary]) -> str:
    """A table with one line per trace."""
    return "\n".join(table(_COLUMNS, [_cells(summary) for summary in summaries]))


def trace_tail_line(summary: TraceSummary | None) -> str:
    """One line of a table of fixed widths; its head for None."""
    head, *lines = table(_COLUMNS, [_cells(summary)] if summary else [], _TAIL_WIDTHS)
    return lines[0] if lines else head


def search_hits_text(hits: Sequence[SearchHit], *, colour: bool) -> str:
    """A table of the traces that match, each with the words around the match below it."""
    head, *lines = table(_COLUMNS, [_cells(hit.summary) for hit in hits])
    return "\n".join([head, *(f"{line}\n{_snippet(hit, colour)}" for line, hit in zip(lines, hits, strict=True))])


def _snippet(hit: SearchHit, colour: bool) -> str:
    before, after = ("\x1b[1m", "\x1b[0m") if colour else ("", "")
    pieces = [one_line(_SPACE.sub(" ", piece)) for piece in _HIT_MARK.split(hit.snippet.strip())]
    return _BAR + "".join(f"{before}{piece}{after}" if place % 2 else piece for place, piece in enumerate(pieces))


def _cells(summary: TraceSummary) -> tuple[str, ...]:
    step = f"#{summary.step_index}" if summary.step_index is not None else ""
    return (
        time_text(summary.timestamp),
        one_line(summary.id[:ID_LENGTH]),
        one_line(summary.provider) or "-",
        _short(summary.model, MODEL_LENGTH) or "-",
        one_line(summary.status) + ("~" if summary.streamed else ""),
        _number(round(summary.duration_ms)),
        "-" if summary.tokens is None else _number(summary.tokens),
        (_short_session(summary.session_id) + step) or "-",
        _short(f"{summary.operation}  {summary.endpoint}".strip(), ENDPOINT_LENGTH),
    )


def _short_session(session_id: str) -> str:
    """The beginning of an id; of a test, whose session is its node id, the name without its file."""
    node, bracket, parameters = session_id.partition("[")
    path, _, test = node.rpartition("::")
    return _short(f"{test}{bracket}{parameters}", TEST_LENGTH) if path else _short(session_id, ID_LENGTH)


def time_text(timestamp: str) -> str:
    """A time to the second, in UTC."""
    instant = find_instant(timestamp)
    return instant[0].strftime("%Y-%m-%d %H:%M:%S") if instant else one_line(timestamp)


def trace_text(trace: Trace, chunks: int, *, full: bool) -> str:
    """One call: facts, request and answer."""
    return "\n".join(_trace_lines(trace, chunks, full)).rstrip("\n")


def _trace_lines(trace: Trace, chunks: int, full: bool) -> Iterator[str]:
    body = trace.body
    request = _object(body["request"])
    yield f"trace {body['id']}"
    for name, text in _facts(body, trace.operation, chunks):
        yield f"  {name:<9} {one_line(text)}"
    spoken = list_spoken_frames(body.get("provider_request"), body.get("provider_response"))
    separate_fields = _SEPARATE_FIELDS if spoken is None else {*_SEPARATE_FIELDS, "client_frames"}
    settings = {key: value for key, value in request.items() if key not in separate_fields}
    if settings:
        text = json_bytes(settings).decode(errors="replace")
        yield f"  {'settings':<9} {one_line(text) if full else _short(text, SETTINGS_LENGTH_MAX)}"
    yield ""
    if spoken is not None:
        yield from _spoken_lines(spoken, full)
    yield from _request_lines(request, full)
    if spoken is None or _object(body["response"]).keys() - {"object", "server_frames"}:
        yield from _response_lines(body, full)


def _spoken_lines(spoken: Sequence[SpokenFrame], full: bool) -> Iterator[str]:
    """The conversation of a WebSocket, one side after the other."""
    for side, frames in groupby(spoken, key=lambda frame: frame.side):
        yield side
        yield from _text_lines("\n".join(one_line(frame.text) for frame in frames), full)


_SEPARATE_FIELDS = frozenset({"model", "messages", "prompt", "input"})


def _facts(body: JSONObject, operation: str, chunks: int) -> Iterator[tuple[str, str]]:
    """The facts about a call as pairs of a name and a text; not the messages."""
    metadata, request, wire = _object(body["metadata"]), _object(body["request"]), _object(body.get("wire"))
    provider = f"({body['provider']})" if body.get("provider") else ""
    yield "time", f"{body['timestamp']}, {_number(metadata['duration_ms'])} ms"
    yield "call", " ".join(str(part) for part in (wire.get("method"), body["endpoint"], provider) if part)
    if operation:
        yield "operation", operation
    if metadata.get("model") or request.get("model") or not operation:
        yield "model", str(metadata.get("model") or request.get("model") or "-")
    status = f"{metadata['status']}" + (f", HTTP {_number(wire['status'])}" if wire.get("status") else "")
    yield "status", status + (f": {metadata['error']}" if "error" in metadata else "")
    usage = _object(_object(body["response"]).get("usage"))
    if usage:
        yield "tokens", f"{_number(usage['prompt_tokens'])} in, {_number(usage['completion_tokens'])} out"
    if chunks:
        first = f", first byte after {_number(wire['first_byte_ms'])} ms" if "first_byte_ms" in wire else ""
        yield "stream", f"{count(chunks, 'chunk')}{first}"
    yield from _origin(body)
    redacted = _object(body.get("redacted"))
    if redacted:
        yield "redacted", "; ".join(_redaction_summary(redacted, side) for side in ("request", "response"))
    problems = read_view_problems(body)
    for problem in problems[:PROBLEMS_MAX]:
        yield "unusual", _short(f"{problem.path} {problem.sentence}", SETTINGS_LENGTH_MAX)
    if len(problems) > PROBLEMS_MAX:
        yield "unusual", f"and {count(len(problems) - PROBLEMS_MAX, 'more field')}: `trace show --json` has them"


def _origin(body: JSONObject) -> Iterator[tuple[str, str]]:
    if body.get("session_id"):
        step = f", step {_number(body['step_index'])}" if "step_index" in body else ""
        yield "session", f"{body['session_id']}{step}"
    if body.get("parent_trace_id"):
        yield "parent", str(body["parent_trace_id"])
    source = _object(body.get("source"))
    if source:
        yield "source", f"{source.get('file')}:{_number(source.get('line'))} {source.get('function') or ''}".rstrip()
    if body.get("scope"):
        yield "scope", str(body["scope"])


def _redaction_summary(redacted: JSONObject, side: str) -> str:
    items = [_object(item) for item in _list(redacted.get(side))]
    types = ", ".join(sorted({str(item.get("type")) for item in items}))
    return f"{len(items)} in the {side}" + (f" ({types})" if types else "")


def _request_lines(request: JSONObject, full: bool) -> Iterator[str]:
    for message in map(_object, _list(request.get("messages"))):
        name = f" ({message['name']})" if message.get("name") else ""
        yield from _message_lines(f"{message.get('role')}{name}", message, full)
    for field in ("prompt", "input"):
        if request.get(field) is not None:
            yield from _message_lines(field, {"content": request[field]}, full)


def _response_lines(body: JSONObject, full: bool) -> Iterator[str]:
    response = body["response"]
    if response is None:
        yield "no answer"
        return
    choices = [_object(choice) for choice in _list(_object(response).get("choices"))]
    for choice in choices:
        number = f" {_number(choice.get('index'))}" if len(choices) > 1 else ""
        reason = f" ({choice['finish_reason']})" if choice.get("finish_reason") else ""
        message = _object(choice.get("message")) or {"content": choice.get("text")}
        yield from _message_lines(f"answer{number}{reason}", message, full)
    if not choices:
        fields: JSON = {name: value for name, value in _object(response).items() if name != "object"}
        yield from _message_lines("answer", {"content": fields or _raw_text(body)}, full)


def _raw_text(body: JSONObject) -> str:
    """An answer that no dialect knows, such as a stream of events; of bytes, such as sound, what they are."""
    answer = body.get("provider_response")
    encoded = _object(answer).get("b64")
    if not isinstance(encoded, str):
        return answer if isinstance(answer, str) else ""
    headers = [str(line) for line in _list(_object(body.get("wire")).get("response_headers"))]
    kinds = [
        value.strip()
        for name, _, value in (line.partition(":") for line in headers)
        if name.lower() == "content-type"
    ]
    size = bytes_text(len(encoded) * 3 // 4 - encoded[-2:].count("="))
    return f"{size} of {kinds[0]}" if kinds else size


def _message_lines(title: str, message: JSONObject, full: bool) -> Iterator[str]:
    yield one_line(title)
    for field in ("reasoning_content", "reasoning", "refusal"):
        if isinstance(message.get(field), str) and message[field]:
            yield f"  {field.partition('_')[0]}:"
            yield from _text_lines(str(message[field]), full)
    content = message.get("content")
    if content:
        yield from _text_lines(content if isinstance(content, str) else _parts_text(content), full)
    for call in map(_object, _list(message.get("tool_calls"))):
        function = _object(call.get("function"))
        yield f"  calls {one_line(str(function.get('name')))}"
        yield from _text_lines(str(function.get("arguments")), full)
    yield ""


def _parts_text(content: JSON) -> str:
    """The parts of a message, one per line; a part without a text as JSON."""
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else _object(part).get("text") for part in parts]
    return "\n".join(
        text if isinstance(text, str) else json_bytes(part).decode(errors="replace")
        for part, text in zip(parts, texts, strict=True)
    )


def _text_lines(text: str, full: bool) -> Iterator[str]:
    lines = text.split("\n")
    visible = lines if full else lines[:TEXT_LINES_MAX]
    for line in visible:
        yield f"{_BAR}{one_line(line) if full else _short(line, LINE_LENGTH_MAX)}"
    if len(lines) > len(visible):
        yield f"    … {count(len(lines) - len(visible), 'more line')} (--full)"


def session_list_text(sessions: Iterable[TraceSession]) -> str:
    """A table with one line per session."""
    return "\n".join(
        table(
            _SESSION_COLUMNS,
            [
                (
                    time_text(session.last),
                    one_line(session.session_id),
                    str(session.steps),
                    str(session.errors) if session.errors else "-",
                    _number(session.tokens) if session.tokens else "-",
                    one_line(", ".join(session.models)) or "-",
                )
                for session in sessions
            ],
        )
    )


def session_tree_text(session_id: str, summaries: Sequence[TraceSummary], notes: Mapping[str, str]) -> str:
    """The steps of a session as a tree; `notes` are printed below their step."""
    parents = find_parents(summaries)
    children: dict[str, list[TraceSummary]] = {}
    for summary in summaries:
        children.setdefault(parents[summary.id], []).append(summary)
    lines = [f"session {one_line(session_id)}: {count(len(summaries), 'step')}"]
    todo = [(node, "", node is children[""][-1]) for node in reversed(children.get("", []))]
    while todo:
        node, before, is_last = todo.pop()
        note = parent_note(node, parents)
        lines.append(f"{before}{'└─' if is_last else '├─'} {_step(node)}{f'  ({note})' if note else ''}")
        below = before + ("   " if is_last else "│  ")
        following = children.get(node.id, [])
        if node.id in notes:
            lines.append(f"{below}{'│  ' if following else '   '}{one_line(notes[node.id])}")
        todo += [(child, below, child is following[-1]) for child in reversed(following)]
    return "\n".join(lines)


def find_parents(summaries: Sequence[TraceSummary]) -> dict[str, str]:
    """The parent of each step; "" for a root: it names no parent, or one outside the session.

    Where calls name each other in a circle, the first of them is a root.
    """
    order = {summary.id: place for place, summary in enumerate(summaries)}
    parents = {
        summary.id: summary.parent_trace_id if summary.parent_trace_id in order else "" for summary in summaries
    }
    rooted = {""}
    for first in parents:
        path: list[str] = []
        step = first
        while step not in rooted:
            rooted.add(step)
            path.append(step)
            step = parents[step]
        if step in path:  # The parents form a circle.
            parents[min(path[path.index(step) :], key=order.__getitem__)] = ""
    return parents


def parent_note(node: TraceSummary, parents: Mapping[str, str]) -> str:
    """Why a call that names a parent does not stand below it; "" if it does."""
    if not node.parent_trace_id or parents[node.id]:
        return ""
    if node.parent_trace_id in parents:
        return "its parents go round in a circle"
    return f"its parent {_short(node.parent_trace_id, ID_LENGTH + 1)} is not in this session"


def _step(node: TraceSummary) -> str:
    step = f"#{node.step_index}" if node.step_index is not None else "#?"
    tokens = f", {_number(node.tokens)} tokens" if node.tokens is not None else ""
    failed = "" if node.status == "success" else f", {one_line(node.status)}"
    model = one_line(node.model) or one_line(node.endpoint)
    source = f"  {one_line(node.source)}" if node.source else ""
    return f"{step} {node.id[:ID_LENGTH]} {model}, {_number(round(node.duration_ms))} ms{tokens}{failed}{source}"


def state_note(state: JSON) -> str:
    """The state at a step, on one line."""
    return f"state {_short(json_bytes(state).decode(errors='replace'), 100)}"


def _short(text: str, length: int) -> str:
    clean = one_line(text if len(text) <= length else text[:length])
    return clean if len(clean) <= length and len(text) <= length else clean[: length - 1] + "…"


def _number(value: JSON) -> str:
    """A number without an exponent below 10**15, with at most three decimals."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "?"
    if abs(value) >= 1e15:
        return f"{value:g}"
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
