"""The unified view: every provider's call in the shape of OpenAI's.

    request   {model, messages | prompt, max_tokens, temperature, …, stop: [..], tools, tool_choice, stream}
    response  {id, object, created, model, choices: [{index, message, finish_reason, …}], usage}
    message   {role, content, refusal?, reasoning?, tool_calls?, parts?}

`parts` holds the provider's own blocks where the plain fields could not give them back (their order, citations,
signatures, server tools). `finish_reason` is OpenAI's word, `provider_finish_reason` the provider's. `usage.provider`
is the provider's own usage object. A field that a provider did not send is absent or null, never made up.

In: values that dialects read. Out: unified dicts. Never: knows a provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from traceforge.canon import JSON, JSONObject, ecmascript_bytes, parse_json
from traceforge.errors import NotJSON

COMPLETION = "chat.completion"
RESPONSE_FIELDS = frozenset({"id", "object", "created", "model", "choices", "usage"})


def build_response(
    *,
    answer_id: JSON,
    model: JSON,
    created: JSON,
    choices: list[JSONObject],
    usage: JSONObject | None,
    extra: JSONObject,
) -> JSONObject:
    """Put a unified response together; `extra` are the provider's own top-level fields."""
    response: JSONObject = {"id": answer_id, "object": COMPLETION, "created": created, "model": model}
    response["choices"] = cast("list[JSON]", choices)
    if usage is not None:
        response["usage"] = usage
    return {**response, **{name: value for name, value in extra.items() if name not in RESPONSE_FIELDS}}


def provider_fields(unified: JSONObject) -> JSONObject:
    """The provider's own top-level fields of a unified response: the `extra` of `build_response`."""
    return without_fields(unified, RESPONSE_FIELDS)


def build_choice(message: JSONObject, reason: JSON, finish_reasons: Mapping[str, str], index: int = 0) -> JSONObject:
    """One choice; `finish_reasons` has OpenAI's word for those of the provider, and any other one stays as it is."""
    finish = finish_reasons.get(as_text(reason), reason)
    return {"index": index, "message": message, "finish_reason": finish, "provider_finish_reason": reason}


def build_message(
    *, content: str | None, reasoning: str = "", refusal: str | None = None, tool_calls: list[JSONObject], parts: JSON
) -> JSONObject:
    """Put an assistant message together; empty things are left out, `parts` where it is None."""
    message: JSONObject = {"role": "assistant", "content": content}
    if refusal is not None:
        message["refusal"] = refusal
    if reasoning:
        message["reasoning"] = reasoning
    if tool_calls:
        message["tool_calls"] = cast("list[JSON]", tool_calls)
    if parts is not None:
        message["parts"] = parts
    return message


def build_tool_call(call_id: JSON, name: JSON, arguments: JSON, kind: str = "function") -> JSONObject:
    """One call of a tool; arguments are the text the model wrote, or the JSON text of what it gave."""
    text = arguments if isinstance(arguments, str) else json_text(arguments)
    return {"id": call_id, "type": kind, kind: {"name": name, "arguments" if kind == "function" else "input": text}}


def build_usage(
    provider: JSON,
    *,
    prompt: float | None,
    completion: float | None,
    total: float | None = None,
    cached: JSON = None,
    cache_write: JSON = None,
    reasoning: JSON = None,
) -> JSONObject:
    """Token counts under OpenAI's names, with the provider's own object under `provider`."""
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    unified: JSONObject = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    details = {
        name: v for name, v in (("cached_tokens", cached), ("cache_write_tokens", cache_write)) if v is not None
    }
    if details:
        unified["prompt_tokens_details"] = cast("JSONObject", details)
    if reasoning is not None:
        unified["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    unified["provider"] = provider
    return unified


def token_counts(usage: JSONObject) -> tuple[JSON, JSON]:
    """Prompt and completion tokens, for a provider without a total: a total alone counts as completion tokens."""
    prompt, completion, total = (usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total"))
    return (0, total) if prompt is None and completion is None and total is not None else (prompt, completion)


def sum_numbers(source: Mapping[str, JSON], *names: str) -> float | None:
    """The sum of those of these fields that are numbers; None if none is."""
    numbers = [value for name in names if is_number(value := source.get(name))]
    return sum(cast("list[float]", numbers)) if numbers else None


def is_number(value: JSON) -> bool:
    """A JSON number, which `true` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_fields(source: Mapping[str, JSON], names: Iterable[str]) -> JSONObject:
    """A copy that lacks some fields."""
    left_out = set(names)
    return {name: value for name, value in source.items() if name not in left_out}


def json_text(value: JSON) -> str:
    """Compact JSON text of a value."""
    return ecmascript_bytes(value).decode(errors="surrogatepass")


def parse_or_keep(text: JSON) -> JSON:
    """The value of a JSON text; the text itself if it is none."""
    try:
        return parse_json(text.encode()) if isinstance(text, str) else text
    except (NotJSON, UnicodeEncodeError):
        return text


def list_objects(value: JSON) -> list[JSONObject]:
    """The objects in a list; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_object(value: JSON) -> JSONObject:
    """The value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_text(value: Any) -> str:  # noqa: ANN401 (any JSON value)
    """The value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""
