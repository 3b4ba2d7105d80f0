"""The answers in a response object of an SDK, or in a provider's response as JSON.

In: what `client.chat.completions.create(…)` and its relatives return, the parts of a stream, or the body of a
response. Out: `Answer`s.
Never: imports an SDK, or guesses: an object whose shape no provider has is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from traceforge.canon import JSON, JSONObject, json_bytes, parse_json
from traceforge.checks.assertions.answer import Answer, FailedCall, read_trace_answers
from traceforge.wire.dialects import decode_response, new_assembler
from traceforge.wire.endpoints import Endpoint, find_endpoint
from traceforge.wire.openai.chat import ChatAssembler
from traceforge.wire.unified import list_objects

_Shapes = tuple[tuple[Callable[[JSONObject], bool], str], ...]

_CHAT = "https://api.openai.com/v1/chat/completions"
_RESPONSES = "https://api.openai.com/v1/responses"
_ANTHROPIC = "https://api.anthropic.com/v1/messages"
_GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
_OLLAMA_CHAT, _OLLAMA_GENERATE = (f"http://127.0.0.1:11434/api/{name}" for name in ("chat", "generate"))

# How to tell the response of each endpoint from the others, and the URL of that endpoint.
_RESPONSE_SHAPES: _Shapes = (
    (lambda body: body.get("object") == "response", _RESPONSES),
    (lambda body: isinstance(body.get("choices"), list), _CHAT),
    (lambda body: body.get("type") == "message", _ANTHROPIC),
    (lambda body: isinstance(body.get("candidates"), list), _GEMINI),
    (lambda body: "done" in body and isinstance(body.get("message"), dict), _OLLAMA_CHAT),
    (lambda body: "done" in body and isinstance(body.get("response"), str), _OLLAMA_GENERATE),
)
# The same for the first part of a stream.
_PART_SHAPES: _Shapes = (
    (lambda part: part.get("object") == "chat.completion.chunk", _CHAT),
    (lambda part: str(part.get("type")).startswith("response."), _RESPONSES),
    (lambda part: part.get("type") == "message_start", _ANTHROPIC),
    *_RESPONSE_SHAPES[3:],  # A part has the shape of a response.
)


def read_response_answers(response: object) -> list[Answer]:
    """The answers of a response, one for each choice.

    Raises:
        TypeError: it has none of the forms of a response that TraceForge knows.
    """
    if isinstance(response, list | tuple) and response:
        endpoint, body = _join_parts([_read_body(part) for part in response])
    else:
        body = _read_body(response)
        endpoint = _find_endpoint(_RESPONSE_SHAPES, body, type(response).__name__)
    unified = decode_response(endpoint, body)
    answers = read_trace_answers({"request": {}, "response": unified, "metadata": {}}, {})
    if isinstance(answers, FailedCall):
        raise TypeError(f"expect() takes the response of a model, not: {answers.reason}")
    return answers


def _find_endpoint(shapes: _Shapes, body: JSONObject, kind: str) -> Endpoint:
    url = next((url for has_shape, url in shapes if has_shape(body)), "")
    if not url:
        raise TypeError(f"expect() takes the response of a model: this {kind} has no form that it knows")
    return find_endpoint("POST", url)


def _join_parts(parts: Sequence[JSONObject]) -> tuple[Endpoint, JSONObject]:
    """What a stream would have been without streaming.

    Raises:
        TypeError: it was cut, or it is none that TraceForge knows.
    """
    endpoint = _find_endpoint(_PART_SHAPES, parts[0], "stream")
    assembler = new_assembler(endpoint)
    assert assembler is not None
    for part in parts:
        assembler.add_event(part, str(part.get("type", "")))
    if isinstance(assembler, ChatAssembler) and _has_finish_reason(parts):
        assembler.add_done()  # An SDK does not pass on the last event, which says no more.
    body = assembler.finish()
    if assembler.has_failed or not assembler.is_complete:
        raise TypeError("expect() takes a whole stream, and this one ended before its end")
    return endpoint, body


def _has_finish_reason(parts: Sequence[JSONObject]) -> bool:
    choices = (choice for part in parts for choice in list_objects(part.get("choices")))
    return any(choice.get("finish_reason") for choice in choices)


def _read_body(response: object) -> JSONObject:
    """The body as the provider sent it. Models of pydantic give it by their aliases, without what was not sent."""
    if isinstance(response, Mapping):
        return _as_json(dict(response))
    if "RawResponse" in type(response).__name__ or "APIResponse" in type(response).__name__:
        response = response.parse()  # type: ignore[attr-defined]  # of `with_raw_response`
    dump = getattr(response, "model_dump", None)
    if not callable(dump):
        raise TypeError(f"expect() takes the response of a model, not {type(response).__name__}")
    return _as_json(dump(mode="json", by_alias=True, exclude_unset=True))


def _as_json(value: object) -> JSONObject:
    return cast("JSONObject", parse_json(json_bytes(cast("JSON", value))))
