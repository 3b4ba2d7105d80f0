"""Any text, in any place that others fill, is harmless where a report prints it.

Each property renders what a command prints for one kind of object, with hostile text in every member that a
repository, a model, a client or a Git author can fill, and prints it as the command does. `make soak` repeats them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from support.ci_reports import ci_report, reported_finding
from support.exchanges import COMPOSER, parse_object
from support.hostile_text import HOSTILE, LINE_STARTS, list_harm
from support.proposals import approve_change, make_call, propose
from support.replay_player import KEYS
from support.stored_traces import call
from traceforge.canon import JSON, JSONObject, json_bytes
from traceforge.capture.run.command_runner import CommandRun
from traceforge.compare.conversation_frames import list_spoken_frames
from traceforge.exchange import Caller
from traceforge.findings import Finding
from traceforge.report.ci_report import CaseOutcome, CaseResult
from traceforge.report.context_text import field_lines
from traceforge.report.diff_text import text_diff
from traceforge.report.gate_text import change_json, change_lines, diff_lines, gate_finding_lines
from traceforge.report.git_textconv import to_readable_text
from traceforge.report.github_report import annotation_lines, summary_markdown
from traceforge.report.junit_report import junit_bytes
from traceforge.report.observation_text import observation_lines
from traceforge.report.recording_text import session_lines
from traceforge.report.replay_run_report import replay_lines
from traceforge.report.run_text import run_json, run_lines
from traceforge.report.sarif_report import sarif_bytes
from traceforge.report.text_format import finding_lines
from traceforge.report.trace_text import session_tree_text, trace_list_text, trace_tail_line, trace_text
from traceforge.snapshots.gate.gate_findings import GateFinding
from traceforge.snapshots.gate.gate_judgement import RunObservations
from traceforge.terminal import escape_text, print_json_bytes, print_text
from traceforge.traces.trace_format import Trace
from traceforge.ui.views.replay_view import view_items
from traceforge.wire.unified import list_objects

FORGED = "traceforge: GREEN: forged"
NOON = datetime.fromisoformat("2026-01-09T12:00:00+00:00")
PIECES = [
    *HOSTILE.values(),
    *LINE_STARTS.values(),
    f"\n{FORGED}",
    f"\r{FORGED}",
    f"\u2028{FORGED}",
    "\n",
    "#",
    ":",
    "-",
]

hostile_texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), min_size=1, max_size=4).map("".join)


def printed(write: Callable[[], None]) -> str:
    """What a function prints on standard output."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict", newline="")
    with redirect_stdout(stream):
        write()
    return cast("io.BytesIO", stream.buffer).getvalue().decode()


def assert_harmless(text: str) -> None:
    """Print a report: nothing in it does harm, and no line of it was forged."""
    output = printed(lambda: print_text(text))
    assert [] == list_harm(output)
    assert [] == [line for line in output.split("\n") if line.startswith(FORGED)]


def assert_json_is_harmless(value: Any) -> None:
    """Print JSON: a reader gets the same values."""
    output = printed(lambda: print_json_bytes(json_bytes(value)))
    assert [] == list_harm(output)
    assert value == json.loads(output)


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts, hostile_texts, hostile_texts)
def test_findings_are_harmless(file: str, path: str, message: str, hint: str) -> None:
    """Names of files, members and tests, messages and hints, as text and in every report for CI."""
    finding = Finding(file, path, "GT1", message, hint)
    assert_harmless(finding_lines([finding]))
    assert_harmless("\n".join(gate_finding_lines([GateFinding(finding, 2, (file, path), message, None, message)])))
    assert_json_is_harmless(finding.to_json())


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts, hostile_texts)
def test_reports_for_ci_are_harmless(file: str, name: str, message: str) -> None:
    """An annotation is one command, JUnit is XML, SARIF is JSON, and none shows a harmful character."""
    item = reported_finding(message=message, details=message)
    item = item._replace(location=item.location._replace(file=file), scopes=(name,))
    report = ci_report(item)._replace(summary=message, cases=(CaseResult(file, name, CaseOutcome.FAILED, message),))
    commands = list(annotation_lines(report))

    assert 1 == len(commands)
    assert commands[0].startswith("::error title=TraceForge GT1,")
    assert [] == list_harm(commands[0].removeprefix("::error"))
    assert [] == [harm for harm in list_harm(summary_markdown(report)) if harm.startswith("U+")]
    assert [] == [harm for harm in list_harm(junit_bytes(report, NOON).decode()) if harm.startswith("U+")]
    assert [] == list_harm(sarif_bytes(report).decode())


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts, hostile_texts, hostile_texts)
def test_traces_are_harmless(prompt: str, answer: str, name: str, model: str) -> None:
    """Prompts, answers, models, names of parameters, tools, callers and sessions."""
    tools = [{"type": "function", "function": {"name": name, "description": prompt}}]
    caller = Caller(f"{name}:1:{name}", name, name, 1, "", {name: answer})
    exchange = call(1, prompt, answer, model=model, caller=caller, tools=tools, **{f"x{name}": name})
    composed = COMPOSER.compose(exchange)
    trace = Trace(composed.summary.id, composed.summary.timestamp, parse_object(composed.trace))

    assert_harmless(trace_text(trace, 1, full=False))
    assert_harmless(trace_text(trace, 1, full=True))
    assert_harmless(trace_list_text([composed.summary]))
    assert_harmless(trace_tail_line(composed.summary))
    assert_harmless(session_tree_text(name, [composed.summary], {composed.summary.id: name}))
    assert_json_is_harmless(trace.body)


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts, hostile_texts, st.integers(0, 3))
def test_names_of_operations_and_tool_servers_are_harmless(name: str, path: str, method: str, kind: int) -> None:
    """Paths of any API, methods of gRPC and of tool servers, tools, functions, providers, errors and states."""
    composed = COMPOSER.compose(call(1))
    body = parse_object(composed.trace)
    endpoint = f"/v1/files/{path}:{name}"
    requests: tuple[JSONObject, ...] = (
        {"method": "tools/call", "params": {"name": name}},
        {"method": method, "params": {"uri": path}},
        {"tool": name, "arguments": {name: path}},
    )
    address = (endpoint, f"mcp://{name}/", f"tool://{name}/", f"/{name}/{method}")[kind]
    summary = structs.replace(composed.summary, endpoint=address, provider=name, status=method, session_id=path)
    wire = {"method": method, "url": address, "status": 200, "request_headers": [f"{name}: {path}"]}
    facts: JSONObject = {"wire": wire, "endpoint": address, "provider": name, "provider_request": requests[kind % 3]}
    metadata: JSONObject = {"duration_ms": 1, "status": name, "error": path, "model": method}
    redacted: JSONObject = {"request": [{"path": path, "type": name}], "response": [], "echoes": []}
    changed = {**body, **facts, "metadata": metadata, "redacted": redacted}
    trace = Trace(composed.summary.id, composed.summary.timestamp, changed)

    assert_harmless(trace_list_text([summary]))
    assert_harmless(trace_tail_line(summary))
    assert_harmless(session_tree_text(name, [summary], {summary.id: path}))
    assert_json_is_harmless(summary.to_dict())
    assert_harmless(trace_text(trace, 1, full=True))
    assert_harmless(trace_text(trace, 1, full=False))


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts)
def test_conversations_of_a_websocket_are_harmless(name: str, text: str) -> None:
    """Types of events, their fields and pieces, texts, reasons to close, and what is no frame that we know."""
    frames: list[JSON] = [
        {"json": {"type": name, name: text}, "after": 1}, {"json": {"type": name, "delta": text}},
        {"json": {"type": name, "delta": name}}, {"json": {name: text}}, {"json": [text]}, {"text": text},
        {"close": 1000, "reason": text}, {"base64": text}, {name: text}, {"broken": text},
    ]  # fmt: skip
    composed = COMPOSER.compose(call(1))
    bodies: JSONObject = {
        "provider_request": {"client_frames": frames},
        "provider_response": {"server_frames": frames},
    }
    trace = Trace(composed.summary.id, composed.summary.timestamp, {**parse_object(composed.trace), **bodies})

    spoken = list_spoken_frames(bodies["provider_request"], bodies["provider_response"])
    assert spoken
    assert name in {frame.name for frame in spoken}
    assert_harmless(trace_text(trace, 1, full=True))
    assert_harmless(trace_text(trace, 1, full=False))


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts, hostile_texts)
def test_pending_changes_are_harmless(before: str, after: str, name: str) -> None:
    """A new call, and one whose prompt, answer and parameters changed."""
    first = propose(make_call(before, before, scope=name, source=f"{name}:1:{name}", **{f"x{name}": before})).changes
    approved = [approve_change(change) for change in first]
    second = propose(make_call(after, after, scope=name, **{f"x{name}": after}), approved=approved).changes

    for change in (*first, *second):
        assert_harmless("\n".join(change_lines([change])))
        for old in (None, approved[0] if approved else None):
            assert_harmless("\n".join(diff_lines(change, old, KEYS, colour=False, full=True)))
        assert_json_is_harmless(change_json(change))
    assert_harmless(text_diff(before, after))


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts)
def test_objects_of_the_context_store_are_harmless(label: str, content: str) -> None:
    """Labels of branches and keys, names of projects, metadata and content."""
    assert_harmless("\n".join(field_lines({"label": label, "metadata": {label: content}, "output": content})))
    assert_json_is_harmless({"label": label, "metadata": {label: content}})


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts)
def test_runs_are_harmless(name: str, host: str) -> None:
    """Hosts, programs, problems, declarations and tests of a run."""
    run = CommandRun(0, name, 1, {host: 1}, 1, 1, 1, {name: 2}, {name: 1}, survivors=(name,))
    observations = RunObservations(volatile={name: 1}, uncompared_fields={name: 1}, moved_calls=[name])

    assert_harmless("\n".join(run_lines(run, "traceforge run -- COMMAND")))
    assert_harmless("\n".join(observation_lines(observations)))
    assert_json_is_harmless(run_json(run))


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts)
def test_recordings_are_harmless(name: str, content: str) -> None:
    """Adapters, models, modes and answers of a recording; and any file for `git diff`."""
    item: JSONObject = {"i": 0, "prompt_hash": name, "response_content": content}
    session: JSONObject = {"adapter_id": name, "model_id": name, "mode": name, "interactions": [item]}

    assert_harmless("\n".join(session_lines(session, "sha256:0")))
    assert_harmless(to_readable_text(json_bytes({name: [content, {name: content}]})))


@pytest.mark.fuzzer(7)
@given(hostile_texts, hostile_texts)
def test_a_replay_run_is_harmless(name: str, content: str) -> None:
    """As lines, and as a page without live markup: every `<` that is not ours is escaped."""
    page_text = f"<script>alert(1)</script><img src=x onerror=x>\"'&{content}"
    lanes = {lane: {"target": {"provider": name, "model": name}, "output": {"content": page_text, name: name}}
             for lane in ("recorded", "candidate")}  # fmt: skip
    release = {"alias": name, "id": name, "targets": [{"provider": name, "model": name, "weight": 1}]}
    change = {"rule": name, "because": page_text}
    item = {
        "position": 1, "verdict": "failed", "snapshot_id": name, "lanes": lanes,
        "differences": {"candidate": [change]},
        "question": {"blocks": [{"role": name, "kind": name, "content": page_text}], "earlier_blocks": 1},
    }  # fmt: skip
    report = cast("JSONObject", {
        "replay_run_id": name, "mode": name, "note": page_text, "items": [item], "summary": {"verdicts": {name: 1}},
        "baseline": release, "candidate": release, "evidence_digest": name, "created_at": name,
    })  # fmt: skip

    assert_harmless("\n".join(replay_lines(report)))
    (item_view,) = view_items(list_objects(report["items"]))
    lanes = [html for lane in item_view.lanes for html in (lane.html, lane.other_html)]
    page = "".join([*(str(html) for _, html in item_view.question), *map(str, lanes)])
    assert "<script" not in page
    assert "<img" not in page
    assert [] == [harm for harm in list_harm(page) if harm.startswith("U+")]


@pytest.mark.fuzzer(7)
@given(st.lists(hostile_texts, max_size=3).map("\n".join), st.booleans())
def test_escaped_text_is_escaped_once(text: str, colour: bool) -> None:
    """Text that went through twice, as that of an error in a report does, is the same."""
    once = escape_text(text)

    assert once == escape_text(once)
    assert once + "\n" == printed(lambda: print_text(once, colour=colour))
