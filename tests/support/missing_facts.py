"""Which facts of a response body TraceForge's unified view of it lacks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from support.extractor import Call, ChoiceFacts, Facts, parse_arguments


def find_missing(facts: Facts, view: dict[str, Any]) -> list[str]:
    """The kinds of the facts that the unified view lacks."""
    missing = []
    if not _one_of(view.get("id"), facts.ids):
        missing.append("id")
    if not _one_of(view.get("model"), facts.models):
        missing.append("model")
    choices = view.get("choices") or []
    if len(choices) != len(facts.choices):
        missing.append(f"choices: {len(choices)} of {len(facts.choices)}")
    else:
        for choice_facts, choice in zip(
            (facts.choices[index] for index in sorted(facts.choices)), choices, strict=True
        ):
            missing += _find_missing_in_choice(choice_facts, choice, view)
    missing += _find_missing_usage(facts, view)
    if facts.kept:
        fingerprints = {_fingerprint(value) for value in _each(view)}
        missing += [f"block {_kind(value)}" for value in facts.kept if _fingerprint(value) not in fingerprints]
    return missing


def _one_of(value: Any, stated: set[str]) -> bool:
    return value in stated if stated else not value


def _find_missing_in_choice(choice_facts: ChoiceFacts, choice: dict[str, Any], view: dict[str, Any]) -> list[str]:
    message = choice.get("message") or {}
    missing = []
    if not _contains_in_order(message.get("content", choice.get("text")), choice_facts.texts):
        missing.append("text")
    if not _contains_in_order(message.get("reasoning", choice.get("reasoning")), choice_facts.reasoning):
        missing.append("reasoning")
    if not _contains_in_order(message.get("refusal"), choice_facts.refusals):
        missing.append("refusal")
    finishes = [choice.get("finish_reason"), choice.get("provider_finish_reason"), view.get("status")]
    if choice_facts.finish is not None and str(choice_facts.finish) not in map(str, finishes):
        missing.append(f"finish reason {choice_facts.finish}")
    calls = [_call(call) for call in message.get("tool_calls") or []] or _legacy_call(message)
    if len(calls) != len(choice_facts.calls):
        missing.append(f"tool calls: {len(calls)} of {len(choice_facts.calls)}")
    elif not all(map(_same_call, choice_facts.calls, calls)):
        missing.append("tool call")
    return missing


def _contains_in_order(joined: Any, pieces: list[str]) -> bool:
    """Whether the pieces are in the text, in order, with only white space between them."""
    text = joined or ""
    if not isinstance(text, str):
        text = "".join(part.get("text", "") for part in text)
    if text == "".join(pieces):
        return True
    at = 0
    for piece in filter(None, pieces):
        position = text.find(piece, at)
        if position < 0 or text[at:position].strip():
            return False
        at = position + len(piece)
    return not text[at:].strip()


def _call(call: dict[str, Any]) -> Call:
    function = call.get("function") or call.get("custom") or {}
    return Call(call.get("id") or "", function.get("name") or "", function.get("arguments", function.get("input")))


def _legacy_call(message: dict[str, Any]) -> list[Call]:
    return [_call({"function": message["function_call"]})] if message.get("function_call") else []


def _same_call(stated: Call, call: Call) -> bool:
    if (stated.id and stated.id != call.id) or stated.name != call.name:
        return False
    if (stated.arguments or "") == (call.arguments or ""):
        return True
    return not isinstance(stated.arguments, str) and _exact(stated.arguments) == _exact(
        parse_arguments(call.arguments)
    )


def _exact(value: Any) -> str:
    """A text that is equal where the values are, numbers by value: 1.0 is 1."""
    return json.dumps(_plain_numbers(value), sort_keys=True)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _find_missing_usage(facts: Facts, view: dict[str, Any]) -> list[str]:
    """Every number by its own name, anywhere outside the choices; the totals by OpenAI's names, in `usage`."""
    usage = view.get("usage") or {}
    top_level = {name: value for name, value in view.items() if name != "choices"}
    lost = Counter(_numbers(facts.usage)) - Counter(_numbers(top_level))
    missing = [f"usage {name}" for name, _ in lost]
    written = facts.output_tokens - {None}
    if written and usage.get("completion_tokens") not in written:
        missing.append("usage: the total of written tokens")
    if facts.total_tokens is not None and usage.get("total_tokens") != facts.total_tokens:
        missing.append("usage: the total")
    return missing


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


def _each(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        yield from _each(inner)


def _fingerprint(value: Any) -> Any:
    return value if isinstance(value, str) else _exact(value)


def _kind(value: Any) -> str:
    return str(value.get("type", "")) if isinstance(value, dict) else "signature"
