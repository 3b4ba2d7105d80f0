"""What a reader sees in a unified response: text, thoughts, tool calls, the reason of its end, tokens."""

from __future__ import annotations

from typing import Any

from traceforge.wire.unified import as_object, list_objects


def read_facts(unified: dict[str, Any] | None) -> dict[str, Any]:
    """The facts, under the names of `view` in the files of the dialects."""
    unified = unified or {}
    choice = next(iter(list_objects(unified.get("choices"))), {})
    message = as_object(choice.get("message", choice))
    calls = [as_object(call.get("function")) for call in list_objects(message.get("tool_calls"))]
    usage = as_object(unified.get("usage"))
    results = unified.get("results")
    return {
        "text": message.get("content", message.get("text")),
        "reasoning": message.get("reasoning"),
        "calls": [[call.get("name"), call.get("arguments")] for call in calls],
        "finish": choice.get("finish_reason"),
        "tokens": [usage.get("prompt_tokens"), usage.get("completion_tokens")],
        "vectors": sum(isinstance(item.get("embedding"), list) for item in list_objects(unified.get("data"))),
        "results": len(results) if isinstance(results, list) else 0,
    }
