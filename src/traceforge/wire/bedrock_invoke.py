"""Amazon Bedrock: InvokeModel and its stream, whose bodies are those of the family of a model.

In: bodies of `/model/ID/invoke`, and events of `/invoke-with-response-stream`. Out: the unified view. Never: I/O, or
the family from the model's name: an inference profile does not say it, so a body is known by its members.

    anthropic                 messages, and `completion`
    amazon                    Nova speaks Converse; Titan has `inputText` and `results`; both embed
    meta                      `prompt`, answered with `generation`
    mistral                   `prompt`, answered with `outputs`; newer ones have OpenAI's chat
    cohere                    `message` or `prompt`, `texts` to embed, `query` and `documents` to rank
    ai21, deepseek, openai…   OpenAI's chat; DeepSeek's R1 has its text in place of a message
    stability, and others     no unified answer: kept as it came

A frame of a stream holds an event of the family as `{"bytes": "<base64>"}`; the last one also has what was counted.
"""

from __future__ import annotations

import base64
import binascii
from functools import cache
from importlib import import_module
from typing import cast

from traceforge.canon import JSON, JSONObject, parse_json
from traceforge.errors import NotJSON
from traceforge.wire.dialect_declaration import DialectModule
from traceforge.wire.embeddings import list_vectors
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame
from traceforge.wire.unified import (
    as_object,
    as_text,
    build_response,
    build_usage,
    list_objects,
    sum_numbers,
    without_fields,
)

_ANTHROPIC = "traceforge.wire.anthropic"
_CHAT = "traceforge.wire.openai.chat"
_CONVERSE = "traceforge.wire.bedrock"
_COHERE = "traceforge.wire.cohere"

# The first member that a body has tells whose it is. "": of no dialect, and read here.
_REQUEST_MEMBERS = {
    "anthropic_version": _ANTHROPIC,
    "max_tokens_to_sample": _ANTHROPIC,
    "schemaVersion": _CONVERSE,
    "inferenceConfig": _CONVERSE,
    "message": f"{_COHERE}:V1_CHAT",
    "texts": f"{_COHERE}:EMBED",
    "query": f"{_COHERE}:RERANK",
}
_RESPONSE_MEMBERS = {
    "completion": _ANTHROPIC,
    "output": _CONVERSE,
    "choices": _CHAT,
    "generations": f"{_COHERE}:V1_GENERATE",
    "response_id": f"{_COHERE}:V1_CHAT",
    "generation": "",
    "outputs": "",
    "embedding": "",
    "embeddingsByType": "",
}
_EMBEDDING_MEMBERS = frozenset({"embedding", "embeddings", "embeddingsByType"})
_METRICS = "amazon-bedrock-invocationMetrics"
_CONVERSE_EVENTS = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)
_FINISH_REASONS = {
    "stop": "stop", "length": "length", "content_filter": "content_filter", "tool_calls": "tool_calls",
    "FINISH": "stop", "FINISHED": "stop", "COMPLETE": "stop", "STOP_CRITERIA_MET": "stop", "LENGTH": "length",
    "MAX_TOKENS": "length", "CONTENT_FILTERED": "content_filter", "RAG_QUERY_WHEN_RAG_DISABLED": "stop",
}  # fmt: skip


@cache
def _load(codec: str) -> DialectModule:
    """Deferred, as in `dialects`: most projects use one family."""
    module, _, name = codec.partition(":")
    imported: object = import_module(module)
    return cast("DialectModule", getattr(imported, name) if name else imported)


def decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request of any family."""
    codec = next((codec for member, codec in _REQUEST_MEMBERS.items() if member in body), "")
    if not codec and "messages" in body:
        codec = _CONVERSE if _has_blocks_without_type(body["messages"]) else _CHAT
    if codec:
        return _load(codec).decode_request(body, model)
    unified = dict(body)
    if "inputText" in body:
        generation = as_object(body.get("textGenerationConfig"))
        unified["prompt" if generation else "input"] = body["inputText"]
        limit, stop = generation.get("maxTokenCount"), generation.get("stopSequences")
    else:
        limit, stop = body.get("max_gen_len"), None
    parameters = {"max_tokens": limit, "stop": stop}
    return {**{name: value for name, value in parameters.items() if value is not None}, **unified}


def _has_blocks_without_type(messages: JSON) -> bool:
    """Whether the content of a message is in blocks of Converse."""
    blocks = [block for message in list_objects(messages) for block in list_objects(message.get("content"))]
    return bool(blocks) and not any("type" in block for block in blocks)


def decode_response(body: JSONObject) -> JSONObject:
    """The unified response of any family; what no family is known by stays as it came."""
    codec = _find_response_codec(body)
    if codec is None:
        return {"object": "other", **body}
    if codec:
        unified = _load(codec).decode_response(_as_chat(body) if codec == _CHAT else body)
        return _with_metrics(unified, body)
    if not _EMBEDDING_MEMBERS.isdisjoint(body):
        return _decode_embedding(body)
    return _with_metrics(_decode_text(body), body)


def _find_response_codec(body: JSONObject) -> str | None:
    """What reads a body; "" for what is read here, None for what nothing reads."""
    if body.get("type") == "message":
        return _ANTHROPIC
    if "embeddings" in body:
        is_list_of_nova = any("embedding" in item for item in list_objects(body["embeddings"]))
        return "" if is_list_of_nova else f"{_COHERE}:EMBED"
    results = list_objects(body.get("results"))
    if results:
        is_text = any("outputText" in result for result in results)
        return "" if is_text else f"{_COHERE}:RERANK"
    return next((codec for member, codec in _RESPONSE_MEMBERS.items() if member in body), None)


def _as_chat(body: JSONObject) -> JSONObject:
    """OpenAI's chat or completion: some families say `stop_reason`."""
    choices: list[JSON] = [
        {**choice, "finish_reason": choice["stop_reason"]}
        if "stop_reason" in choice and choice.get("finish_reason") is None
        else choice
        for choice in list_objects(body.get("choices"))
    ]
    is_text = any("text" in as_object(choice) and "message" not in as_object(choice) for choice in choices)
    return {**({"object": "text_completion"} if is_text else {}), **body, "choices": choices}


def _decode_text(body: JSONObject) -> JSONObject:
    """The unified response of Titan, Llama and Mistral: texts, each with a reason why it ended."""
    if "generation" in body:
        texts: list[tuple[JSON, JSON]] = [(body["generation"], body.get("stop_reason"))]
    elif "results" in body:
        results = list_objects(body["results"])
        texts = [(result.get("outputText"), result.get("completionReason")) for result in results]
    else:
        outputs = list_objects(body["outputs"])
        texts = [(output.get("text"), output.get("stop_reason")) for output in outputs]
    unified = build_response(
        answer_id=body.get("id"),
        model=body.get("model"),
        created=None,
        choices=[_text_choice(place, text, reason) for place, (text, reason) in enumerate(texts)],
        usage=_text_usage(body),
        extra=without_fields(body, ("generation", "stop_reason", "outputs")),
    )
    return {**unified, "object": "text_completion"}


def _text_choice(place: int, text: JSON, reason: JSON) -> JSONObject:
    finish = _FINISH_REASONS.get(as_text(reason), reason)
    return {"index": place, "text": text, "finish_reason": finish, "provider_finish_reason": reason}


def _text_usage(body: JSONObject) -> JSONObject | None:
    prompt = sum_numbers(body, "prompt_token_count", "inputTextTokenCount")
    counts = [sum_numbers(result, "tokenCount") or 0 for result in list_objects(body.get("results"))]
    completion = sum(counts) if counts else sum_numbers(body, "generation_token_count")
    if prompt is None and completion is None:
        return None
    names = ("prompt_token_count", "generation_token_count", "inputTextTokenCount", "results")
    return build_usage({n: body[n] for n in names if n in body}, prompt=prompt, completion=completion)


def _with_metrics(unified: JSONObject, body: JSONObject) -> JSONObject:
    """The view with what Bedrock counted, where the family counts nothing."""
    counts = body.get(_METRICS)
    if not isinstance(counts, dict) or unified.get("usage") is not None:
        return unified
    prompt, completion = sum_numbers(counts, "inputTokenCount"), sum_numbers(counts, "outputTokenCount")
    return {**unified, "usage": build_usage(counts, prompt=prompt, completion=completion)}


def _decode_embedding(body: JSONObject) -> JSONObject:
    """The unified response of Titan and Nova: one vector, one for each type of number, or a list of vectors."""
    by_type = as_object(body.get("embeddingsByType"))
    if "embedding" in body:
        vectors: list[JSON] = [body["embedding"]]
    elif by_type:
        vectors = [next(iter(by_type.values()))]
    else:
        vectors = [item.get("embedding") for item in list_objects(body.get("embeddings"))]
    prompt = sum_numbers(body, "inputTextTokenCount")
    usage: JSONObject = {"inputTextTokenCount": body.get("inputTextTokenCount")}
    counted: JSONObject = {} if prompt is None else {"usage": build_usage(usage, prompt=prompt, completion=0)}
    extra = without_fields(body, ("embedding",) if "embedding" in body else ())
    return {**list_vectors(vectors, extra), **counted}


def encode_response(unified: JSONObject) -> JSONObject:
    """A body that decodes to this unified response: OpenAI's chat, because a view does not say its family."""
    return without_fields(unified, ("object",)) if unified.get("object") == "other" else dict(unified)


def encode_stream(unified: JSONObject) -> list[StreamFrame]:
    """None: a view does not say in which family's events its application expects it."""
    return []


class InvokeAssembler(StreamAssembler):
    """Puts an answer together with the assembler of its family, which the first event tells."""

    def __init__(self) -> None:
        super().__init__()
        self._family: StreamAssembler | None = None
        self._metrics: JSON = None

    def add_event(self, event: JSONObject, name: str = "") -> None:
        kind, _, reason = name.partition(":")
        if reason:
            self.add_error({"type": reason, **event})
            return
        inner = _decode_bytes(event.get("bytes")) if kind == "chunk" else None
        if inner is None:
            self.count_unknown(name or "frame without a name")
            return
        self._metrics = inner.pop(_METRICS, self._metrics)
        if self._family is None:
            self._family = _new_family_assembler(inner)
        members = _CONVERSE_EVENTS.intersection(inner)
        for member in members:
            self._family.add_event(as_object(inner[member]), member)
        if inner and not members:
            self._family.add_event(inner)
        self.unknown_events = self._family.unknown_events
        self.has_failed = self.has_failed or self._family.has_failed
        self.is_complete = self._family.is_complete or self._metrics is not None

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        body = self._family.finish() if self._family is not None else {}
        metrics: JSONObject = {} if self._metrics is None else {_METRICS: self._metrics}
        return {**body, **self.body, **metrics}


def _decode_bytes(encoded: JSON) -> JSONObject | None:
    try:
        value = parse_json(base64.b64decode(as_text(encoded), validate=True))
    except (NotJSON, binascii.Error, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _new_family_assembler(event: JSONObject) -> StreamAssembler:
    if not _CONVERSE_EVENTS.isdisjoint(event):
        return _load(_CONVERSE).new_assembler()
    if "choices" in event:
        return _load(_CHAT).new_assembler()
    if "event_type" in event:
        return _load(f"{_COHERE}:V1_CHAT").new_assembler()
    if any(name in event for name in ("generation", "outputText", "outputs", "is_finished")):
        return TextAssembler()
    return _load(_ANTHROPIC).new_assembler()


class TextAssembler(StreamAssembler):
    """Puts a text of Llama, Titan, Mistral or Cohere's Command together: each event adds to it."""

    def add_event(self, event: JSONObject, name: str = "") -> None:
        if "outputText" in event:
            result = {"outputText": event["outputText"], "completionReason": event.get("completionReason"),
                      "tokenCount": event.get("totalOutputTextTokenCount")}  # fmt: skip
            self._add_text("results", "outputText", [result])
            self.body.update({n: v for n, v in event.items() if n == "inputTextTokenCount" and v is not None})
        elif "outputs" in event:
            self._add_text("outputs", "text", list_objects(event["outputs"]))
        elif "generation" in event:
            text = as_text(self.body.get("generation")) + as_text(event["generation"])
            self.body.update({n: v for n, v in event.items() if v is not None or n not in self.body})
            self.body["generation"] = text
        elif "is_finished" in event:
            self._add_text("generations", "text", [without_fields(event, ("is_finished",))])
        else:
            self.count_unknown("event without a text")

    def _add_text(self, list_name: str, text_name: str, pieces: list[JSONObject]) -> None:
        """Add pieces to the texts at the same places; of other members, the last one that is not null counts."""
        texts = list_objects(self.body.get(list_name))
        texts += [{} for _ in pieces[len(texts) :]]
        for text, piece in zip(texts, pieces, strict=False):
            joined = as_text(text.get(text_name)) + as_text(piece.get(text_name))
            text.update({n: v for n, v in piece.items() if v is not None or n not in text})
            text[text_name] = joined
        self.body[list_name] = cast("list[JSON]", texts)

    def finish(self) -> JSONObject:
        """The answer, as far as it came."""
        return self.body


new_assembler = InvokeAssembler
