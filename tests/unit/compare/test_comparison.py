"""`compare/comparison.py`: every difference is reported, and nothing that is equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.format_examples import FORMATS, SPECIFIED_TRACE, full_record
from support.json_mutations import Mutation, mutate, mutations
from support.json_places import remove_at, replace_at
from support.json_texts import fuzz
from traceforge.canon import exact_canonical_bytes, parse_exact_json, parse_json
from traceforge.compare.compared_call import ComparedCall
from traceforge.compare.comparison import Comparison, compare
from traceforge.compare.json_diff import is_same_json

REQUEST: dict[str, Any] = {
    "model": "gpt-4",
    "messages": [
        {"role": "system", "content": "You are brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "Finds.", "parameters": {"required": ["a", "b"]}},
        },
        {"type": "function", "function": {"name": "g", "parameters": {"properties": {"x": {"enum": [1, 2]}}}}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {}}},
    "temperature": 0,
    "max_tokens": 100,
    "stop": ["a", "b"],
    "seed": None,
    "logit_bias": {"50256": -100},
    "stream": False,
    "own": [{"deep": [[]]}],
}
EXAMPLES = FORMATS["trace"].examples


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    if not children:
        yield path
    for key, child in children:
        yield from _leaves(child, (*path, key))


def _respelled(value: Any) -> Any:
    """The same JSON with keys in another order, and integers as floats."""
    if isinstance(value, dict):
        return {key: _respelled(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_respelled(item) for item in value]
    return float(value) if type(value) is int else value


def _call(request: Any) -> ComparedCall:
    return ComparedCall(request, None)


def _trace_call(body: Any) -> ComparedCall | None:
    """A mutated trace as a call; None where it no longer has the shape of one."""
    if not isinstance(body, dict) or not isinstance(body.get("request"), dict) or "response" not in body:
        return None
    return ComparedCall.from_trace(body)


@pytest.mark.parametrize("leaf", [None, True, 1, 0.5, "other", "", [], {}, ["x"], {"a": 1}], ids=repr)
def test_every_changed_leaf_of_a_request_is_a_change(leaf: Any) -> None:
    """In both directions, with any replacement."""
    for path in _leaves(REQUEST):
        changed = replace_at(REQUEST, path, leaf)
        if not is_same_json(REQUEST, changed):
            assert compare(_call(REQUEST), _call(changed)).has_changed, path
            assert compare(_call(changed), _call(REQUEST)).has_changed, path


def test_every_removed_member_of_a_request_is_a_change() -> None:
    for path in _leaves(REQUEST):
        changed = remove_at(REQUEST, path)

        assert compare(_call(REQUEST), _call(changed)).has_changed, path


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_call_equals_itself_in_another_spelling(example: Any) -> None:
    """Keys in another order, 1 for 1.0."""
    call, respelled = ComparedCall.from_trace(example()), ComparedCall.from_trace(_respelled(example()))

    assert () == compare(call, call).changes
    assert () == compare(call, respelled).changes


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, "1"), (1, True), (0, False), (None, ""), ([], {}), ([], None), (1, [1]), ("a", "a "), ("é", "e\u0301")],
)
def test_values_that_look_alike_differ(before: Any, after: Any) -> None:
    """Types are distinguished, and so are texts that print alike."""
    assert compare(_call({"x": before}), _call({"x": after})).has_changed


def _is_consistent(comparison: Comparison) -> bool:
    """Whether differences and rules agree, all texts can be rebuilt, and the JSON is valid."""
    rows = [row for change in comparison.request.messages + comparison.request.tools for row in change.rows]
    rows += [*comparison.parameters, *comparison.request.prompt, *comparison.answer.other]
    for choice in comparison.answer.choices:
        rows += [row for row in (choice.text, choice.refusal, choice.finish_reason, *choice.other) if row]
    rebuilt = all((row.text.before, row.text.after) == (row.before, row.after) for row in rows if row.text)
    document = comparison.to_json()
    return rebuilt and is_same_json(document, parse_exact_json(exact_canonical_bytes(document)))


@fuzz(300)
@given(st.sampled_from(EXAMPLES), mutations, mutations)
def test_any_two_calls_can_be_compared(example: Any, first: list[Mutation], second: list[Mutation]) -> None:
    """Nothing raises, both directions agree, and a change is reported exactly where there is one."""
    before, after = _trace_call(mutate(example(), first)), _trace_call(mutate(example(), second))
    if before is None or after is None:
        return

    forward, backward = compare(before, after), compare(after, before)

    assert forward.has_changed == backward.has_changed
    assert (not is_same_json(before.request, after.request)) == bool(forward.request_changes)
    assert bool(forward.answer_changes) == bool(backward.answer_changes)
    assert _is_consistent(forward)
    assert () == compare(before, before).changes


def test_a_trace_can_be_compared_with_a_snapshot() -> None:
    """Both formats give the same call."""
    record = full_record()
    response = record["response"]
    message = {"role": "assistant", "content": response["content"], "tool_calls": response["tool_calls"]}
    choice = {"index": 0, "message": message, "finish_reason": response["finish_reason"]}
    sent = ComparedCall.from_snapshot(record).request
    trace = {**SPECIFIED_TRACE, "request": sent, "response": {"object": "x", "choices": [choice]}}

    assert () == compare(ComparedCall.from_snapshot(record), ComparedCall.from_trace(trace)).changes


def test_a_comparison_can_be_written_as_json() -> None:
    """Its rules and every difference, without absent sides."""
    before = {"model": "m", "seed": 1, "messages": [{"role": "user", "content": "a b"}], "tools": []}
    after = {"model": "m", "messages": [{"role": "user", "content": "a c"}], "tools": [{"name": "f"}]}

    document: Any = compare(_call(before), _call(after)).to_json()

    assert ["request.prompt", "request.parameters", "request.tools"] == [
        change["rule"] for change in document["changes"]
    ]
    assert {
        "parameters": [{"path": "$.request.seed", "before": 1}],
        "prompt": [],
        "messages": [
            {
                "kind": "changed",
                "name": "user",
                "path": "$.request.messages[0]",
                "before_index": 0,
                "after_index": 0,
                "moved": False,
                "rows": [
                    {
                        "path": "$.request.messages[0].content",
                        "text": {"unit": "word", "stretches": [{"same": "a "}, {"before": "b", "after": "c"}]},
                    }
                ],
            }
        ],
        "tools": [{"kind": "added", "name": "f", "path": "$.request.tools[0]", "value": {"name": "f"}}],
    } == document["request"]


def test_the_deepest_json_can_be_compared() -> None:
    """A request as deep as the reader allows does not exhaust the stack."""
    deep = "1"
    for _ in range(90):
        deep = f'[{{"a": {deep}}}]'
    before, after = parse_json(deep.encode()), parse_json(deep.replace("1", "2").encode())

    for field in ("own", "messages", "tools"):
        assert compare(_call({field: before}), _call({field: after})).has_changed
    answers = [
        ComparedCall.from_trace({"request": {}, "response": {"choices": [{"text": t}]}}) for t in (deep, f"{deep} ")
    ]
    assert ["answer.space"] == [change.rule for change in compare(*answers).changes]
