"""The answers in a response object of an SDK, or in a provider's response as JSON.

In: what `client.chat.completions.create(…)` and its relatives return, or the body of a response. Out: `Answer`s.
Never: imports an SDK, or guesses: an object whose shape no provider has is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from traceforge.canon import JSON, JSONObject, json_bytes, parse_json
from traceforge.checks.assertions.answer import Answer, FailedCall, read_trace_answers
from traceforge.wire.dialects import decode_response
from traceforge.wire.endpoints import find_endpoint

# How to tell the response of each endpoint from the others, and the URL of that endpoint.
_RESPONSE_SHAPES: tuple[tuple[Callable[[JSONObject], bool], str], ...] = (
    (lambda body: body.get("object") == "response", "https://api.openai.com/v1/responses"),
    (lambda body: isinstance(body.get("choices"), list), "https://api.openai.com/v1/chat/completions"),
    (lambda body: body.get("type") == "message", "https://api.anthropic.com/v1/messages"),
    (
        lambda body: isinstance(body.get("candidates"), list),
        "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent",
    ),
    (lambda body: "done" in body and isinstance(body.get("message"), dict), "http://127.0.0.1:11434/api/chat"),
)


def read_response_answers(response: object) -> list[Answer]:
    """The answers of a response, one for each choice.

    Raises:
        TypeError: it has none of the forms of a response that TraceForge knows.
    """
    body = _read_body(response)
    url = next((url for has_shape, url in _RESPONSE_SHAPES if has_shape(body)), "")
    if not url:
        raise TypeError(
            f"expect() takes the response of a model: this {type(response).__name__} has no form that it knows"
        )
    unified = decode_response(find_endpoint("POST", url), body)
    answers = read_trace_answers({"request": {}, "response": unified, "metadata": {}}, {})
    if isinstance(answers, FailedCall):
        raise TypeError(f"expect() takes the response of a model, not: {answers.reason}")
    return answers


def _read_body(response: object) -> JSONObject:
    """The body as the provider sent it. Models of pydantic give it by their aliases, without what was not sent."""
    if isinstance(response, Mapping):
        return _as_json(dict(response))
    dump = getattr(response, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"expect() takes the response of a model, not {type(response).__name__}")
    return _as_json(dump(mode="json", by_alias=True, exclude_unset=True))


def _as_json(value: object) -> JSONObject:
    return cast("JSONObject", parse_json(json_bytes(cast("JSON", value))))
