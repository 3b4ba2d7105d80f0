"""Snapshots for a terminal: a list, and one in full.

In: snapshots. Out: text. Never: prints, or lets a character of a call move the cursor or start a line at the margin:
prompts and answers stand after a bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from traceforge.canon import JSON, JSONObject, json_bytes, parse_json
from traceforge.compare.conversation_frames import list_spoken_frames
from traceforge.errors import NotJSON
from traceforge.report.text_format import bytes_text, count, table
from traceforge.snapshots.formats.approval_format import StoredApproval
from traceforge.snapshots.formats.determinism_policy import ModelPolicy
from traceforge.snapshots.formats.raw_response import CANCEL_CAUSES, RawResponse
from traceforge.snapshots.tree.tree_listing import ListedSnapshot
from traceforge.terminal import one_line

TEXT_LINES_MAX = 40  # Of one message or answer; `--full` shows all of it.
_BAR = "    | "
_COLUMNS = ("ID", "PROVIDER", "MODEL", "GATE", "APPROVALS", "SOURCE")
_REQUEST_FIELDS = frozenset({"model", "messages", "prompt", "gate", "gate_reason"})  # shown in lines of their own
_ANSWER_FIELDS = frozenset({"content", "tool_calls", "wire"})


def snapshot_list_text(snapshots: Sequence[ListedSnapshot], policy: ModelPolicy) -> str:
    """A table with one line per snapshot."""
    return "\n".join(table(_COLUMNS, [_cells(snapshot, policy) for snapshot in snapshots]))


def _cells(snapshot: ListedSnapshot, policy: ModelPolicy) -> tuple[str, ...]:
    return (
        snapshot.id,
        one_line(snapshot.provider) or "(raw response)",
        one_line(" ".join(filter(None, (snapshot.operation, snapshot.model)))) or "-",
        snapshot.gate(policy),
        str(len(snapshot.approvals)),
        _call_site(snapshot.source) or "-",
    )


def _call_site(source: JSONObject) -> str:
    if not source:
        return ""
    line = source.get("line")
    at = f":{line:.0f}" if isinstance(line, int | float) and line else ""
    function = f" {source['function']}" if source.get("function") else ""
    return one_line(f"{source.get('file')}{at}{function}")


def snapshot_text(snapshot: ListedSnapshot, policy: ModelPolicy, *, full: bool) -> str:
    """One snapshot: source, request, answer, raw response and approvals."""
    return "\n".join(_snapshot_lines(snapshot, policy, full))


def _snapshot_lines(snapshot: ListedSnapshot, policy: ModelPolicy, full: bool) -> Iterator[str]:
    yield f"snapshot {snapshot.id}"
    for name, text in _facts(snapshot, policy):
        yield f"  {name:<9} {one_line(text)}"
    for scope in _list(snapshot.source.get("scopes")):
        if isinstance(scope, dict):
            turn = scope.get("turn")
            yield f"  {'scope':<9} {_scope(scope)}" + (
                f" (call {turn + 1:.0f})" if isinstance(turn, int | float) else ""
            )
    if snapshot.record is not None:
        yield from _record_lines(snapshot.record, full)
    if snapshot.raw_response is not None:
        yield from _wire_lines(snapshot.raw_response, full, with_bodies=snapshot.record is None)
    yield ""
    yield "approvals" if snapshot.approvals else "approvals: none"
    for approval in snapshot.approvals:
        yield from _approval_lines(snapshot, approval)


def _facts(snapshot: ListedSnapshot, policy: ModelPolicy) -> Iterator[tuple[str, str]]:
    yield "file", snapshot.file
    yield "hash", snapshot.hash
    if snapshot.operation:
        yield "operation", snapshot.operation
    yield "gate", f"{snapshot.gate(policy)}{f' ({snapshot.gate_reason})' if snapshot.gate_reason else ''}"
    if snapshot.record is not None:
        yield "recorded", str(snapshot.record["timestamp"])
    if snapshot.source:
        yield "source", _call_site(snapshot.source)


def _scope(scope: JSONObject) -> str:
    return one_line(str(scope["scope"])) if scope.get("scope") else "(the run, outside tests)"


def _record_lines(record: JSONObject, full: bool) -> Iterator[str]:
    request, response = _object(record["request"]), _object(record["response"])
    yield ""
    yield f"request {one_line(str(request.get('model')))}"
    yield from _settings(request, _REQUEST_FIELDS)
    for message in _list(request.get("messages")):
        if isinstance(message, dict):
            yield f"  {one_line(str(message.get('role')))}"
            other_fields = {name: value for name, value in message.items() if name != "role"}
            yield from _text_lines(
                other_fields.get("content") if set(other_fields) == {"content"} else other_fields, full
            )
    if "prompt" in request:
        yield "  prompt"
        yield from _text_lines(request["prompt"], full)
    yield ""
    yield "answer"
    yield from _settings(response, _ANSWER_FIELDS)
    yield from _text_lines(response.get("content"), full)
    for call in _list(response.get("tool_calls")):
        yield "  tool call"
        yield from _text_lines(call, full)


def _settings(values: JSONObject, apart: frozenset[str]) -> Iterator[str]:
    for name, value in values.items():
        if name not in apart:
            yield f"  {one_line(name):<13} {one_line(json_bytes(value).decode(errors='replace'))}"


def _wire_lines(wire: RawResponse, full: bool, *, with_bodies: bool) -> Iterator[str]:
    size = sum(len(chunk.data) for chunk in wire.chunks)
    yield ""
    yield f"wire {one_line(wire.method)} {one_line(wire.url)}"
    if wire.cancellation is not None:
        cause, after_ms = wire.cancellation
        yield f"  {'cancelled':<13} by {CANCEL_CAUSES[cause]}, after {after_ms:.0f} ms, before a response came"
    else:
        yield f"  {'status':<13} {wire.status}"
    yield f"  {'answer':<13} {count(len(wire.chunks), 'chunk')}, {bytes_text(size)}"
    for name, value in wire.request_headers:
        yield f"  {'header':<13} {one_line(name)}: {one_line(value)}"
    answer = b"".join(chunk.data for chunk in wire.chunks).decode(errors="replace")
    spoken = list_spoken_frames(wire.request_body, _read_json(answer)) if with_bodies else None
    if spoken is not None:
        yield "  frames"
        yield from _text_lines("\n".join(f"{frame.side}: {one_line(frame.text)}" for frame in spoken), full)
    elif with_bodies:
        yield "  request"
        yield from _text_lines(wire.request_body, full)
        yield "  answer"
        yield from _text_lines(answer, full)


def _read_json(text: str) -> JSON:
    """The value of a JSON text; None: it is none."""
    try:
        return parse_json(text.encode(errors="surrogatepass"))
    except NotJSON:
        return None


def _approval_lines(snapshot: ListedSnapshot, approval_file: StoredApproval) -> Iterator[str]:
    approval = approval_file.approval
    approver = f"{approval.approved_by.name} <{approval.approved_by.email}>".removesuffix(" <>")
    signed = " (signed)" if isinstance(approval.signature, str) else ""
    tag = f" [{approval.tag}]" if isinstance(approval.tag, str) else ""
    yield one_line(f"  {approval.approved_at}  {approver}{signed}{tag}: {approval.reason}")
    for change in approval.changes:
        if change.id == snapshot.id:
            yield f"    {change.before or 'nothing'} -> {change.after or 'nothing'}"


def _text_lines(value: JSON, full: bool) -> Iterator[str]:
    text = value if isinstance(value, str) else json_bytes(value, indent=True).decode(errors="replace")
    lines = text.split("\n")
    for line in lines if full else lines[:TEXT_LINES_MAX]:
        yield f"{_BAR}{one_line(line)}"
    if not full and len(lines) > TEXT_LINES_MAX:
        yield f"{_BAR}… {count(len(lines) - TEXT_LINES_MAX, 'more line')}: --full"


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
