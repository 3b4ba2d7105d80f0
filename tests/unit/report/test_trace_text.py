"""Traces as a person at a terminal reads them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.stored_traces import call, trace_id
from traceforge.canon import parse_json
from traceforge.exchange import Caller
from traceforge.redact.redactor import Redactor
from traceforge.report.text_format import bytes_text
from traceforge.report.trace_text import (
    LINE_LENGTH_MAX,
    PROBLEMS_MAX,
    TEXT_LINES_MAX,
    search_hits_text,
    session_list_text,
    session_tree_text,
    state_note,
    time_text,
    trace_list_text,
    trace_tail_line,
    trace_text,
)
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_format import Trace
from traceforge.traces.trace_index import SearchHit, TraceSession
from traceforge.traces.trace_summary import TraceSummary

EVIL = "\x1b[2J\r\n\x07\u202e\u2028\ud800"


def summary(number: int = 1, **changes: Any) -> TraceSummary:
    """The summary of a call, changed."""
    return replace(TraceComposer(Redactor()).compose(call(number)).summary, **changes)


def render_call(full: bool = False, chunks: int = 0, **changes: Any) -> list[str]:
    """The lines about a call, some of whose fields were changed."""
    body = parse_json(TraceComposer(Redactor()).compose(call(1)).trace)
    assert isinstance(body, dict)
    body.update(changes)
    return trace_text(Trace(trace_id(1), "2025-03-02T09:01:00.000Z", body), chunks, full=full).split("\n")


def test_a_list_is_as_wide_as_its_widest_cell() -> None:
    """Numbers stand at the right, texts at the left, and what is too long is cut with a mark."""
    text = trace_list_text(
        [
            summary(1, duration_ms=1234567.8, tokens=12345678, endpoint="/x"),
            summary(2, model="m" * 40, tokens=None, session_id="s" * 20, step_index=12, streamed=True, endpoint="/x"),
            summary(3, provider="", model="", endpoint="/" + "e" * 100, session_id="quiz"),
        ]
    )

    head, *lines = text.split("\n")
    gap, nine, long = " " * 17, " " * 9, f"/{'e' * 58}…"
    assert (
        f"TIME (UTC)           ID        PROVIDER  MODEL{gap}        STATUS         MS    TOKENS  SESSION"
        == head[:107]
    )
    assert [
        f"2025-03-02 09:01:00  00000001  openai    gpt-4.1-mini{gap} success   1234568  12345678  -            /x",
        f"2025-03-02 09:02:00  00000002  openai    {'m' * 27}…  success~      102         -  sssssss…#12  /x",
        f"2025-03-02 09:03:00  00000003  -         -{gap}            success       103        21  quiz{nine}{long}",
    ] == lines


@pytest.mark.parametrize(
    ("session", "shown"),
    [
        ("tests/test_app.py::TestApp::test_capital", "test_capital#0"),
        ("test_app.py::test_capital[a::b]", "test_capital[a::b]#0"),
        ("test_app.py::test_" + "x" * 40, f"test_{'x' * 22}…#0"),
        ("2f9d8a61-0000-4000-8000-000000000000", "2f9d8a6…#0"),
    ],
)
def test_the_session_of_a_test_is_listed_by_the_name_of_the_test(session: str, shown: str) -> None:
    assert shown in trace_list_text([summary(1, session_id=session, step_index=0)]).split()


def test_a_time_is_shown_in_utc() -> None:
    """Whatever zone it was written in."""
    assert "2025-03-02 09:15:00" == time_text("2025-03-02T10:15:00.123+01:00")
    assert "2025-03-01 23:00:00" == time_text("2025-03-02T00:00:00+01:00")
    assert "\\x1b" == time_text("\x1b")


def test_lines_of_a_tail_are_aligned() -> None:
    """Though each is made without knowing the others."""
    lines = [
        trace_tail_line(trace_summary)
        for trace_summary in (None, summary(1), summary(2, model="claude-haiku-4-5", tokens=123456))
    ]

    assert 1 == len({line.index("/v1") for line in lines[1:]} | {lines[0].index("ENDPOINT")})


def test_a_search_result_highlights_the_match() -> None:
    """In bold if there is colour; marks and escapes inside the call have no effect."""
    hit = SearchHit(summary(), "the \x02capital\x03 of\n\n  \x02France\x03, \x03x\x1b[1m")

    assert "    | the capital of France, \\x03x\\x1b[1m" == search_hits_text([hit], colour=False).split("\n")[2]
    assert (
        "    | the \x1b[1mcapital\x1b[0m of \x1b[1mFrance\x1b[0m, \\x03x\\x1b[1m"
        == search_hits_text([hit], colour=True).split("\n")[2]
    )


def test_no_text_of_a_call_can_move_the_cursor() -> None:
    """Every text of a trace, of a summary and of a session is made printable."""
    caller = Caller(f"{EVIL}:1:{EVIL}", EVIL, EVIL, 0, EVIL, {"x": EVIL})
    body = parse_json(TraceComposer(Redactor()).compose(call(1, EVIL, EVIL, model=EVIL, caller=caller)).trace)
    assert isinstance(body, dict)
    body["provider"] = EVIL
    body["wire"] = {"method": EVIL, "status": EVIL, "first_byte_ms": EVIL}
    body["metadata"] = {"duration_ms": 1, "status": "error", "error": EVIL, "model": EVIL}
    body["redacted"] = {"request": [{"path": EVIL, "type": EVIL}], "response": EVIL}
    body["view_problems"] = [{"path": EVIL, "problem": EVIL, "shown_as": EVIL}]
    body["request"] = {
        "model": EVIL, "prompt": [EVIL], "input": EVIL, "x": EVIL,
        "messages": [{"role": EVIL, "name": EVIL, "content": [{"text": EVIL}, {"image": EVIL}]}],
    }  # fmt: skip
    call_of_a_tool = {"function": {"name": EVIL, "arguments": EVIL}}
    message = {"role": EVIL, "content": EVIL, "refusal": EVIL, "tool_calls": [call_of_a_tool]}
    body["response"] = {"choices": [{"index": EVIL, "finish_reason": EVIL, "message": message}] * 2}
    fields = dict.fromkeys(("id", "provider", "model", "status", "session_id", "endpoint", "source"), EVIL)
    lost = summary(**{**fields, "id": "1", "parent_trace_id": EVIL})
    texts = [
        trace_text(Trace(trace_id(1), "", body), 1, full=full) for full in (True, False)
    ] + [
        trace_list_text([summary(**fields, timestamp=EVIL)]),
        search_hits_text([SearchHit(summary(), EVIL)], colour=False),
        session_list_text([TraceSession(EVIL, 1, EVIL, EVIL, 0, 0, (EVIL,))]),
        session_tree_text(EVIL, [lost], {"1": state_note({"x": EVIL})}),
    ]  # fmt: skip

    for text in texts:
        assert all(char.isprintable() or char == "\n" for char in text)
        assert "2J" in text
    margin = [line for line in texts[0].split("\n") if not line.startswith(" ")]
    assert all(not line or line.startswith(("trace ", "\\x1b[2J", "prompt", "input", "answer")) for line in margin)


def test_a_long_message_is_cut_unless_full_is_set() -> None:
    """Lines that are too many are counted, one that is too long is marked; with `full`, neither happens."""
    request = {"model": "m", "messages": [{"role": "user", "content": "x" * 5000 + "\ny" * 60}], "stop": ["z" * 900]}

    lines, full_lines = render_call(request=request), render_call(full=True, request=request)

    assert f"    | {'x' * (LINE_LENGTH_MAX - 1)}…" in lines
    assert f"    … {61 - TEXT_LINES_MAX} more lines (--full)" in lines
    assert lines[7].endswith("…")
    assert f"    | {'x' * 5000}" in full_lines
    assert 60 == full_lines.count("    | y")
    assert "z" * 900 in "".join(full_lines)


def test_a_trace_with_few_fields_is_shown_with_those() -> None:
    """A trace of another tool has no wire, provider or usage: nothing is invented."""
    lines = render_call(
        wire=None, provider=None, redacted=None,
        request={"model": "m", "input": "a\nb"},
        response={"object": "list", "data": [0.5]},
        metadata={"duration_ms": 1e16, "status": "success"},
    )  # fmt: skip

    assert [
        f"trace {trace_id(1)}",
        "  time      2025-03-02T09:01:00.000Z, 1e+16 ms",
        "  call      /v1/chat/completions",
        "  model     m",
        "  status    success",
        "",
        "input",
        "    | a",
        "    | b",
        "",
        "answer",
        '    | {"data":[0.5]}',
    ] == lines


def test_fields_that_do_not_fit_the_view_are_named() -> None:
    """With what is shown in their place; of many, the rest is counted."""
    problem = {"path": "$.response.created", "problem": "must be number or null, got string", "shown_as": None}

    lines = render_call(view_problems=[problem] * (PROBLEMS_MAX + 2))

    line = "  unusual   $.response.created must be number or null, got string; shown as null"
    assert PROBLEMS_MAX == lines.count(line)
    assert "  unusual   and 2 more fields: `trace show --json` has them" in lines
    assert not [line for line in render_call() if "unusual" in line]


def test_reasoning_refusals_and_tool_calls_are_shown_separately() -> None:
    """Each under its own word; several answers are numbered."""
    calls = [{"function": {"name": "find", "arguments": '{"q": 1}'}}]
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": "no", "tool_calls": calls}
    choices = [
        {"index": 0, "finish_reason": "tool_calls", "message": message},
        {"index": 1, "finish_reason": None, "text": "x"},
    ]

    lines = render_call(response={"object": "chat.completion", "choices": choices})

    assert [
        "answer 0 (tool_calls)", "  reasoning:", "    | hm", "  refusal:", "    | no", "  calls find",
        '    | {"q": 1}', "", "answer 1", "    | x",
    ] == lines[lines.index("answer 0 (tool_calls)") :]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "shown"), [("event: a\ndata: \x1b[2J", ["    | event: a", "    | data: \\x1b[2J"]), (None, [])]
)
def test_an_answer_that_no_dialect_knows_is_shown_as_its_text(stored: object, shown: list[str]) -> None:
    """Such as a stream of events."""
    lines = render_call(response={"object": "other"}, provider_response=stored)

    assert shown == lines[lines.index("answer") + 1 :]


def test_a_call_without_an_answer_is_shown_as_such() -> None:
    """A stream shows its number of chunks."""
    lines = render_call(chunks=1, response=None)

    assert "no answer" == lines[-1]
    assert "  stream    1 chunk, first byte after 12.5 ms" in lines


@pytest.mark.parametrize(
    ("headers", "note"),
    [(["Content-Type: audio/mpeg"], "    | 4 bytes of audio/mpeg"), ([], "    | 4 bytes")],
)
def test_an_answer_of_bytes_is_named_by_its_size_and_type(headers: list[str], note: str) -> None:
    """Sound and pictures have no text, and an empty answer would look as if nothing had come back."""
    lines = render_call(
        response={"object": "other"}, provider_response={"b64": "SUQzBA=="}, wire={"response_headers": headers}
    )

    assert ["answer", note] == lines[-2:]


@pytest.mark.slow
def test_a_deep_tree_of_calls_is_shown_completely() -> None:
    """A thousand calls, each the parent of the next."""
    steps = [summary(n, step_index=n, parent_trace_id=trace_id(n - 1)) for n in range(1, 1001)]

    lines = session_tree_text("deep", steps, {}).split("\n")

    assert 1001 == len(lines)
    assert lines[1].endswith("(its parent 00000000… is not in this session)")
    assert lines[-1].strip(" ").startswith("└─ #1000")


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (24_049, "24.0 kB"),
        (999_949, "999.9 kB"), (999_950, "1.0 MB"), (5_000_000_000, "5.0 GB"), (10**16, "10000.0 TB"),
    ],
)  # fmt: skip
def test_a_size_has_three_digits_and_a_unit(size: int, expected: str) -> None:
    assert expected == bytes_text(size)
