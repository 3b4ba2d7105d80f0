"""Tools of agent frameworks: which arguments of the model are compared."""

from __future__ import annotations

from typing import Any

import pytest

from traceforge.tools.framework_tools import _ArgumentsTool


async def invoke(context: object, arguments: str) -> str:
    """As openai-agents calls a tool."""
    return arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"name":"soup","key":"x"}', {"name": "soup"}),
        ("", {}),
        ("[1]", {"arguments": [1]}),
        ("soup", {"arguments": "soup"}),
        ('{"name":"cake","name":"soup"}', {"arguments": '{"name":"cake","name":"soup"}'}),
        ('{"to":[{"a":1,"\\u0061":2}]}', {"arguments": '{"to":[{"a":1,"\\u0061":2}]}'}),
    ],
)
def test_the_arguments_of_openai_agents_are_compared_by_name(text: str, arguments: Any) -> None:
    """What is no object is compared whole, and so is one that two tools may read otherwise."""
    tool = _ArgumentsTool("find", invoke, ["key"])

    assert arguments == tool.find_arguments((object(), text), {})
