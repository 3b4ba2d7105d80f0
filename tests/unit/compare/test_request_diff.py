"""`compare/request_diff.py`: every difference of two requests is reported, in its part."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.compare.json_diff import ABSENT, ValueChange
from traceforge.compare.request_diff import RequestDiff, diff_request, tool_name


def _tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **function}}


def _parts(diff: RequestDiff) -> list[str]:
    return [part for part, changes in vars(diff).items() if changes]


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("model", "other", "model"),
        ("temperature", 1, "parameters"),
        ("provider_own", {"a": [1]}, "parameters"),
        ("response_format", {"type": "json_object"}, "format"),
        ("tool_choice", "auto", "tool_settings"),
        ("tools", [_tool("f")], "tools"),
        ("tools", [], "tool_settings"),
        ("messages", [{"role": "user", "content": "hi"}], "messages"),
        ("messages", [], "prompt"),
        ("messages", None, "prompt"),
        ("prompt", "hi", "prompt"),
        ("system", [{"type": "text", "text": "hi"}], "messages"),
    ],
)
def test_each_field_belongs_to_one_part(field: str, value: Any, part: str) -> None:
    """Added or removed, also where it is empty or null."""
    assert [part] == _parts(diff_request({}, {field: value}))
    assert [part] == _parts(diff_request({field: value}, {}))


def test_nested_settings_are_compared_by_path() -> None:
    before = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True}}}
    after = {"response_format": {"type": "json_schema", "json_schema": {"name": "b", "strict": True}}}

    assert (ValueChange("$.request.response_format.json_schema.name", "a", "b"),) == diff_request(before, after).table


def test_a_message_inserted_in_front_is_the_only_change() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello!"}]
    new = {"role": "system", "content": "Today is Monday."}

    changes = diff_request({"messages": messages}, {"messages": [new, *messages]}).messages

    assert [("added", "system", "$.request.messages[0]", new)] == [(c.kind, c.name, c.path, c.after) for c in changes]


def test_a_changed_message_has_its_changed_words() -> None:
    before = {"messages": [{"role": "user", "content": "one two"}]}
    after = {"messages": [{"role": "user", "content": "one three"}]}

    (change,) = diff_request(before, after).messages

    assert ("changed", (ValueChange("$.request.messages[0].content", "one two", "one three"),)) == (
        change.kind,
        change.rows,
    )


def test_a_content_part_inserted_in_front_is_the_only_change() -> None:
    text = {"type": "text", "text": "What is this?"}
    image = {"type": "image_url", "image_url": {"url": "x"}}

    (change,) = diff_request(
        {"messages": [{"role": "user", "content": [text]}]},
        {"messages": [{"role": "user", "content": [image, text]}]},
    ).messages

    assert (ValueChange("$.request.messages[0].content[0]", ABSENT, image),) == change.rows


def test_tools_are_paired_by_name() -> None:
    """Added, removed and changed tools are named; a changed schema has its path."""
    before = {"tools": [_tool("gone"), _tool("kept", description="a", parameters={"required": ["x"]})]}
    after = {"tools": [_tool("kept", description="b", parameters={"required": ["x"]}), _tool("new")]}

    changes = diff_request(before, after).tools

    assert [("gone", "removed"), ("kept", "changed"), ("new", "added")] == [(c.name, c.kind) for c in changes]
    assert (ValueChange("$.request.tools[0].function.description", "a", "b"),) == changes[1].rows


def test_tools_in_another_order_are_a_change() -> None:
    """A model sees the order; of two tools that changed places, one moved."""
    changes = diff_request({"tools": [_tool("a"), _tool("b")]}, {"tools": [_tool("b"), _tool("a")]}).tools

    assert ["moved"] == [change.kind for change in changes]


def test_two_tools_of_one_name_are_paired_in_order() -> None:
    before, after = [_tool("a", n=1), _tool("a", n=2)], [_tool("a", n=1), _tool("a", n=3)]

    (change,) = diff_request({"tools": before}, {"tools": after}).tools

    assert (ValueChange("$.request.tools[1].function.n", 2, 3),) == change.rows


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (_tool("f"), "f"),
        ({"name": "g", "input_schema": {}}, "g"),
        ({"type": "web_search"}, "web_search"),
        ({"type": "mcp", "server_label": "github"}, "github"),
        ({}, ""),
        ("odd", ""),
    ],
)
def test_a_tool_has_a_name_in_every_dialect(tool: Any, name: str) -> None:
    """The function's name, its own, its server's, or its type."""
    assert name == tool_name(tool)
