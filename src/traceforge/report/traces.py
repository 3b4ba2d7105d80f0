"""Traces for a person at a terminal: lists, one call in full, and the tree of a session.

In: summaries and traces. Out: text. Never: prints, or lets a character of a call move the cursor or start a line at
the margin: what a model said stands behind a bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.report.text import count, one_line
from traceforge.traces.format import Trace
from traceforge.traces.index import Hit, Session
from traceforge.traces.summary import Summary

ID_LENGTH = 8  # Of an id, as lists show it: enough to name one of many.
MODEL_LENGTH = 28
TEXT_LINES_MAX = 40  # Of one message; `--full` shows all of it.

_BAR = "    | "
_COLUMNS = ("TIME", "ID", "PROVIDER", "MODEL", "STATUS", "MS", "TOKENS", "SESSION", "ENDPOINT")
_RIGHT = frozenset({"MS", "TOKENS"})


def list_text(summaries: Sequence[Summary], *, header: bool = True) -> str:
    """A table, a line a trace."""
    rows: list[tuple[str, ...]] = [_COLUMNS] if header else []
    return "\n".join(_table(rows + [_cells(summary) for summary in summaries]))


def _cells(summary: Summary) -> tuple[str, ...]:
    step = f"#{summary.step_index}" if summary.step_index is not None else ""
    return (
        summary.timestamp[:19].replace("T", " "),
        summary.id[:ID_LENGTH],
        one_line(summary.provider) or "-",
        _short(summary.model, MODEL_LENGTH) or "-",
        summary.status + ("~" if summary.streamed else ""),
        f"{summary.duration_ms:.0f}",
        "-" if summary.tokens is None else f"{summary.tokens:g}",
        (_short(summary.session_id, ID_LENGTH) + step) or "-",
        _short(summary.endpoint, 60),
    )


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max((len(row[place]) for row in rows), default=0) for place in range(len(_COLUMNS))]
    for row in rows:
        cells = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(row, widths, _COLUMNS, strict=True)
        )
        yield "  ".join(cells).rstrip()


def hit_text(hit: Hit, *, colour: bool) -> str:
    """One find: the trace, and below it the words around what was found."""
    before, after = ("\x1b[1m", "\x1b[0m") if colour else ("", "")
    words = one_line(hit.snippet.replace("\x02", "\ue000").replace("\x03", "\ue001").replace("\n", " "))
    words = words.replace("\\ue000", before).replace("\\ue001", after)
    return f"{list_text([hit.summary], header=False)}\n{_BAR}{words}"


def trace_text(trace: Trace, chunks: int, *, full: bool) -> str:
    """One call: how it went, what was asked, what was said."""
    return "\n".join(_trace_lines(trace.body, chunks, full))


def _trace_lines(body: JSONObject, chunks: int, full: bool) -> Iterator[str]:
    metadata, request, wire = _object(body["metadata"]), _object(body["request"]), _object(body.get("wire"))
    yield f"trace {body['id']}"
    yield f"  time      {body['timestamp']}, {_number(metadata['duration_ms'])} ms"
    yield f"  call      {wire.get('method', 'POST')} {one_line(str(body['endpoint']))} ({body.get('provider', '?')})"
    yield f"  model     {one_line(str(metadata.get('model') or request.get('model')))}"
    status = f"{metadata['status']}" + (f", HTTP {wire['status']}" if wire.get("status") else "")
    yield f"  status    {status}" + (f": {one_line(str(metadata['error']))}" if "error" in metadata else "")
    yield from _more_lines(body, wire, chunks)
    parameters = {key: value for key, value in request.items() if key not in _SHOWN_APART}
    if parameters:
        yield f"  asked with {_short(json_bytes(parameters).decode(errors='replace'), 400 if not full else 1 << 20)}"
    yield ""
    yield from _request_lines(request, full)
    yield from _response_lines(body, full)


_SHOWN_APART = frozenset({"model", "messages", "prompt", "input"})


def _more_lines(body: JSONObject, wire: JSONObject, chunks: int) -> Iterator[str]:
    usage = _object(_object(body["response"]).get("usage"))
    if usage:
        yield f"  tokens    {_number(usage['prompt_tokens'])} in, {_number(usage['completion_tokens'])} out"
    if chunks:
        yield f"  stream    {count(chunks, 'chunk')}, first byte after {_number(wire.get('first_byte_ms'))} ms"
    if body.get("session_id"):
        step = f", step {body['step_index']}" if "step_index" in body else ""
        yield f"  session   {one_line(str(body['session_id']))}{step}"
    if body.get("parent_trace_id"):
        yield f"  parent    {one_line(str(body['parent_trace_id']))}"
    if body.get("source"):
        source = _object(body["source"])
        place = f"{source.get('file')}:{source.get('line')} {source.get('function')}"
        yield f"  source    {one_line(place)}"
    redacted = _object(body.get("redacted"))
    if redacted:
        told = [f"{len(_list(redacted.get(side)))} in the {side}" for side in ("request", "response")]
        yield f"  redacted  {', '.join(told)}"


def _request_lines(request: JSONObject, full: bool) -> Iterator[str]:
    for message in map(_object, _list(request.get("messages"))):
        name = f" ({one_line(str(message['name']))})" if message.get("name") else ""
        yield from _said(f"{message.get('role')}{name}", message, full)
    for field in ("prompt", "input"):
        if request.get(field) is not None:
            yield from _said(field, {"content": request[field]}, full)


def _response_lines(body: JSONObject, full: bool) -> Iterator[str]:
    response = body["response"]
    if response is None:
        yield "no answer"
        return
    choices = [_object(choice) for choice in _list(_object(response).get("choices"))]
    for choice in choices:
        number = f" {choice.get('index')}" if len(choices) > 1 else ""
        message = _object(choice.get("message")) or {"content": choice.get("text")}
        yield from _said(f"answer{number} ({choice.get('finish_reason')})", message, full)
    if not choices:
        yield from _said("answer", {"content": {k: v for k, v in _object(response).items() if k != "object"}}, full)


def _said(who: str, message: JSONObject, full: bool) -> Iterator[str]:
    yield one_line(who)
    for field in ("reasoning_content", "reasoning", "refusal"):
        if isinstance(message.get(field), str) and message[field]:
            yield f"  {field.partition('_')[0]}:"
            yield from _text(str(message[field]), full)
    content = message.get("content")
    if content:
        yield from _text(content if isinstance(content, str) else _parts(content), full)
    for call in map(_object, _list(message.get("tool_calls"))):
        function = _object(call.get("function"))
        yield f"  calls {one_line(str(function.get('name')))}"
        yield from _text(str(function.get("arguments")), full)
    yield ""


def _parts(content: JSON) -> str:
    """Parts of a message; what is no text is shown as the JSON it is."""
    parts = content if isinstance(content, list) else [content]
    texts = [_object(part).get("text") for part in parts]
    return "\n".join(
        text if isinstance(text, str) else json_bytes(part).decode(errors="replace")
        for part, text in zip(parts, texts, strict=True)
    )


def _text(text: str, full: bool) -> Iterator[str]:
    lines = text.split("\n")
    shown = lines if full else lines[:TEXT_LINES_MAX]
    for line in shown:
        yield f"{_BAR}{one_line(line if full else line[:2000])}"
    if len(lines) > len(shown):
        yield f"    … {count(len(lines) - len(shown), 'more line')} (--full)"


def sessions_text(sessions: Iterable[Session]) -> str:
    """A line a session."""
    return "\n".join(
        f"{session.last[:19].replace('T', ' ')}  {one_line(session.session_id)}  {count(session.steps, 'step')}"
        + (f", {count(session.errors, 'error')}" if session.errors else "")
        + (f", {session.tokens:g} tokens" if session.tokens else "")
        + (f"  {one_line(', '.join(session.models))}" if session.models else "")
        for session in sessions
    )


def session_tree(session_id: str, summaries: Sequence[Summary], notes: dict[str, str]) -> str:
    """The steps of a session; a call that names a parent stands below it. `notes` are said below a step."""
    ids = {summary.id for summary in summaries}
    children: dict[str, list[Summary]] = {}
    for summary in summaries:
        parent = summary.parent_trace_id if summary.parent_trace_id in ids else ""
        children.setdefault(parent, []).append(summary)
    roots = children.get("", [])
    lines = [f"session {one_line(session_id)}: {count(len(summaries), 'step')}"]
    seen: set[str] = set()
    lines += _branch(roots, children, notes, "", seen)
    circle = [summary for summary in summaries if summary.id not in seen]
    lines += _branch(circle, {}, notes, "", seen)  # Parents of each other: nobody is the root.
    return "\n".join(lines)


def _branch(
    nodes: Sequence[Summary],
    children: dict[str, list[Summary]],
    notes: dict[str, str],
    indent: str,
    seen: set[str],
) -> Iterator[str]:
    todo = [(node, indent, place == len(nodes) - 1) for place, node in enumerate(nodes)][::-1]
    while todo:
        node, before, last = todo.pop()
        seen.add(node.id)
        yield f"{before}{'└─' if last else '├─'} {_step(node)}"
        below = before + ("   " if last else "│  ")
        following = children.get(node.id, [])
        if node.id in notes:
            yield f"{below}{'│  ' if following else '   '}{notes[node.id]}"
        todo += [(child, below, place == len(following) - 1) for place, child in enumerate(following)][::-1]


def _step(node: Summary) -> str:
    step = f"#{node.step_index}" if node.step_index is not None else "#?"
    tokens = f", {node.tokens:g} tokens" if node.tokens is not None else ""
    failed = "" if node.status == "success" else f", {node.status}"
    model = one_line(node.model) or one_line(node.endpoint)
    source = f"  {one_line(node.source)}" if node.source else ""
    return f"{step} {node.id[:ID_LENGTH]} {model}, {node.duration_ms:.0f} ms{tokens}{failed}{source}"


def state_note(state: JSON) -> str:
    """The state at a step, on one line."""
    return f"state {_short(json_bytes(state).decode(errors='replace'), 100)}"


def _short(text: str, length: int) -> str:
    clean = one_line(text)
    return clean if len(clean) <= length else clean[: length - 1] + "…"


def _number(value: JSON) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else "?"


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
