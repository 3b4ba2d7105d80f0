"""A new call, as `diff` shows it to the person who approves it."""

from __future__ import annotations

import pytest

from traceforge.canon import JSON
from traceforge.compare.compared_call import ComparedCall
from traceforge.report.gate_text import call_lines

CALL: JSON = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ({"role": "system", "content": [{"text": "Be brief."}]}, "    system: Be brief."),
        ({"role": "tool", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
         "    tool: one two"),
        ({"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
         '    assistant: find({"q": 1}), find({"q": 1})'),
        ({"role": "user", "content": [{"text": "Hi", "cache": True}]}, '    user: [{"text":"Hi","cache":true}]'),
        ({"role": "user", "content": [{"text": "Hi"}, {"image": "x"}]}, '    user: [{"text":"Hi"},{"image":"x"}]'),
        ({"role": "user", "content": [{"text": 1}]}, '    user: [{"text":1}]'),
        ({"role": "user", "content": [{"type": "text"}]}, '    user: [{"type":"text"}]'),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "find"}}]},
         '    assistant: [{"function":{"name":"find"}}]'),
        ({"role": "assistant", "tool_calls": ["x"]}, '    assistant: ["x"]'),
        ({"role": "user", "content": "Hi"}, "    user: Hi"),
    ],
)  # fmt: skip
def test_a_message_of_texts_and_tool_calls_reads_as_text(message: JSON, line: str) -> None:
    """Whatever else it holds is shown as it was sent: a reviewer must see all of it."""
    call = ComparedCall({"model": "m", "messages": [message]}, None)

    assert ["    model=m", line] == list(call_lines(call))
