"""The server of llama.cpp: what it has beside OpenAI's API, which it shares.

In: bodies and events. Out: the unified view, and back. Never: I/O; takes the body of another server with such a path
for one of these: what has no `content` stays as it is.

    /completion   `prompt` and `n_predict`, answered with `content`, counts and timings; a stream ends with `stop`
    /infill       the same with `input_prefix` and `input_suffix`
    /embedding    `content`, answered with a list of vectors

Paths such as `/completion` say little: they count at hosts that a project names.
"""

from __future__ import annotations

from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_BASE,
    BodyCodec,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.embeddings import list_vectors
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame, append_delta, sse_frame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_choice,
    build_message,
    build_response,
    build_usage,
    list_objects,
    provider_fields,
    sum_numbers,
    without_fields,
)

DIALECT = DialectDeclaration(
    name="llama-cpp",
    endpoints=(
        EndpointPath(r"/completion/?", EndpointKind.GENERATE, AFTER_BASE, only_where_watched=True),
        EndpointPath(r"/infill/?", EndpointKind.FILL_IN, AFTER_BASE, only_where_watched=True),
        EndpointPath(r"/embedding/?", EndpointKind.EMBEDDINGS, AFTER_BASE, ":EMBEDDING", only_where_watched=True),
    ),
    api_key=KeyHeader(("LLAMA_API_KEY",), "authorization", "Bearer "),
    base_path=r"/(?:completion|infill|embedding)/?\Z",
)

FINISH_REASONS = {"eos": "stop", "word": "stop", "limit": "length"}
_NATIVE_REASONS = {"stop": "eos", "length": "limit"}
_OLD_REASONS = {"stopped_eos": "eos", "stopped_word": "word", "stopped_limit": "limit"}
_COUNTS = ("tokens_evaluated", "tokens_predicted", "tokens_cached", "timings")
_BODY_FIELDS = ("content", "reasoning_content", "model", "index", "stop_type", *_COUNTS)


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request; of a text to fill in, what stands before it is the prompt, and after it the suffix."""
    unified = dict(body)
    if "prompt" not in body and isinstance(body.get("input_prefix"), str):
        unified["prompt"] = body["input_prefix"]
    if "input_suffix" in body and "suffix" not in body:
        unified["suffix"] = body["input_suffix"]
    if "n_predict" in body and "max_tokens" not in body:
        unified["max_tokens"] = body["n_predict"]
    return unified


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of one completion."""
    if not isinstance(body.get("content"), str):
        return {"object": "other", **body}
    message = build_message(
        content=as_text(body["content"]), reasoning=as_text(body.get("reasoning_content")), tool_calls=[], parts=None
    )
    index = body.get("index")
    choice = build_choice(message, _find_reason(body), FINISH_REASONS, index if isinstance(index, int) else 0)
    return build_response(
        answer_id=None,
        model=body.get("model"),
        created=None,
        choices=[choice],
        usage=_usage(body),
        extra=without_fields(body, _BODY_FIELDS),
    )


def _find_reason(body: JSONObject) -> JSON:
    """Why it stopped; older servers have a flag for each reason."""
    if "stop_type" in body:
        return body["stop_type"]
    return next((reason for name, reason in _OLD_REASONS.items() if body.get(name) is True), None)


def _usage(body: JSONObject) -> JSONObject | None:
    counts = {name: body[name] for name in _COUNTS if name in body}
    if not counts:
        return None
    return build_usage(
        counts,
        prompt=sum_numbers(body, "tokens_evaluated"),
        completion=sum_numbers(body, "tokens_predicted"),
        cached=as_object(body.get("timings")).get("cache_n"),
    )


def encode_response(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    choices = list_objects(unified.get("choices"))
    if not choices:
        return without_fields(unified, ("object",)) if unified.get("object") == "other" else unified
    choice = choices[0]
    message = as_object(choice.get("message"))
    body: JSONObject = {"index": choice.get("index", 0), "content": as_text(message.get("content"))}
    if message.get("reasoning"):
        body["reasoning_content"] = message["reasoning"]
    if unified.get("model") is not None:
        body["model"] = unified["model"]
    reason = choice.get("provider_finish_reason", _NATIVE_REASONS.get(as_text(choice.get("finish_reason"))))
    if reason is not None:
        body["stop_type"] = reason
    native = as_object(unified.get("usage")).get("provider")
    extra = provider_fields(unified)
    return {**body, **(native if isinstance(native, dict) else {}), **extra}


class CompletionAssembler(StreamAssembler):
    """Puts a completion together; the last event has everything except the text."""

    def __init__(self) -> None:
        super().__init__()
        self._is_known = False  # Another server may stream under the same path: its stream is not judged.

    def add_event(self, event: JSONObject, name: str = "") -> None:
        if event.get("error"):
            self.add_error(event["error"])
            return
        if "content" not in event:
            self.count_unknown(name or "event without content")
            return
        self._is_known = True
        grown = {key: append_delta(self.body.get(key), event[key]) for key in _GROWING if key in event}
        self.body.update({**event, **grown})
        self.is_complete = event.get("stop") is True

    def finish(self) -> JSONObject:
        """The completion, as far as it came."""
        self.is_complete = self.is_complete or not (self._is_known or self.has_failed)
        return self.body


_GROWING = ("content", "reasoning_content", "tokens", "completion_probabilities")

new_assembler = CompletionAssembler


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """One event, which has the whole text and ends the stream."""
    return [sse_frame({**encode_response(unified), "stop": True})]


def _decode_embedding_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request: `input` is what was embedded."""
    return {**body, "input": body.get("input", body.get("content"))}


def _decode_embedding_response(body: JSONObject) -> JSONObject:
    """The unified response; a text has one vector, or without pooling one for each of its tokens."""
    items = list_objects(body.get("items")) or ([body] if "embedding" in body else [])
    if not items:
        return {"object": "other", **body}
    return list_vectors([_vector(item.get("embedding")) for item in items], without_fields(body, _VECTOR_FIELDS))


_VECTOR_FIELDS = ("items", "embedding", "index")


def _vector(embedding: JSON) -> JSON:
    is_single = isinstance(embedding, list) and len(embedding) == 1 and isinstance(embedding[0], list)
    return cast("list[JSON]", embedding)[0] if is_single else embedding


def _wrap_list(body: list[JSON]) -> JSONObject:
    return {"items": body}


def _encode_embedding_response(unified: JSONObject) -> JSONObject:
    items: list[JSON] = [{"embedding": item.get("embedding")} for item in list_objects(unified.get("data"))]
    return {**without_fields(unified, ("object", "data")), "items": items}


EMBEDDING = BodyCodec(
    _decode_embedding_request,
    _decode_embedding_response,
    _encode_embedding_response,
    encode_stream,
    new_assembler,
    _wrap_list,
)
