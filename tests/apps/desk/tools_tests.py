"""Tools and formats."""

import desk

CALLS = [
    {"id": "call_a", "type": "function", "function": {"name": "find_parcel", "arguments": '{"number": "P-1"}'}},
    {"id": "call_b", "type": "function", "function": {"name": "find_parcel", "arguments": '{"number": "P-2"}'}},
]
RESULTS = [
    {"role": "tool", "tool_call_id": "call_a", "content": "lost"},
    {"role": "tool", "tool_call_id": "call_b", "content": "found"},
]


def test_two_turns():
    assert desk.converse("Where is P-17?")


def test_parallel_calls():
    question = {"role": "user", "content": "Where are P-1 and P-2?"}
    assistant = {"role": "assistant", "content": None, "tool_calls": CALLS}
    assert desk.complete([question, assistant, *RESULTS], tools=[desk.TOOL], tool_choice="none")


def test_format():
    assert "mood" in desk.ask("How does the customer feel?", response_format=desk.FORMAT)
