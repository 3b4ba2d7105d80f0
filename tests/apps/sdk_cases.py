"""The cases of `sdk_calls.py` by name, and what several SDKs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KEY = "sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"  # looks like a real key, so that tests can search for it
QUESTION = "What is the capital of France?"
RESULT = '{"found": "Paris"}'
SCHEMA: Any = {"type": "object", "properties": {}, "additionalProperties": True}
VOLATILE = {
    "timestamp", "run_id", "conversation_id",  # new in every run
    "provider_url",  # the address of the call, which may be the proxy's
    "sdk_http_response",  # holds what the application's own HTTP client adds
}  # fmt: skip

CASES: dict[str, Callable[[str, str], Any]] = {}


def case(function: Callable[[str, str], Any], name: str = "") -> Callable[[str, str], Any]:
    """Register a case under the name of its function, or under another name."""
    CASES[(name or function.__name__).replace("_", "-")] = function
    return function


def plain(value: Any) -> Any:
    """The result of an SDK as comparable JSON values, without the fields that differ in every run."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name not in VOLATILE and not _is_run_id(item)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def _is_run_id(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("lc_run-", "lc_run--", "run-"))


def chat_messages() -> list[Any]:
    return [{"role": "user", "content": QUESTION}]


def chat_tools(tool: str) -> list[Any]:
    return [{"type": "function", "function": {"name": tool, "parameters": SCHEMA}}]


def chat_results(message: Any) -> list[Any]:
    """The message that calls tools, and the results of the tools."""
    reply = message.model_dump(exclude_none=True) if hasattr(message, "model_dump") else message
    calls = reply["tool_calls"]
    return [reply, *({"role": "tool", "tool_call_id": call["id"], "content": RESULT} for call in calls)]


def join_chat_chunks(chunks: list[Any]) -> dict[str, Any]:
    """The message of a stream, joined as an application does it."""
    calls: dict[int, dict[str, Any]] = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            for delta in choice["delta"].get("tool_calls") or []:
                call = calls.setdefault(
                    delta["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                call["id"] = delta.get("id") or call["id"]
                for name in ("name", "arguments"):
                    call["function"][name] += delta["function"].get(name) or ""
    return {"role": "assistant", "content": None, "tool_calls": list(calls.values())}
