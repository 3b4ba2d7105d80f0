"""Encode a request for a provider, and read the texts of its stream as they come.

In: a model, messages in the unified view and parameters. Out: the path and the body to send; of an event of
the response, the text that it adds. Never: I/O, or a guess: a part in another shape than OpenAI's is kept as it is,
and a parameter keeps its name (`parameter_encoder` translates the names first).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast
from urllib.parse import quote

from traceforge.canon import JSON, JSONObject
from traceforge.wire import message_encoder
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import as_object, as_text, list_objects

ANTHROPIC_TOKENS_MAX = 1024  # Its API demands a limit; one that the caller gives counts instead.


class EncodedRequest(NamedTuple):
    """A request to send: the path below the provider's address, and the body."""

    path: str
    body: JSONObject


def encode_request(
    dialect: Dialect, model: str, messages: Sequence[JSONObject], parameters: Mapping[str, JSON], *,
    stream: bool | None,
) -> EncodedRequest:  # fmt: skip
    """The request that decodes to these messages; `parameters` are in the dialect's own words.

    `stream` None leaves it to the provider whether it streams.
    """
    if dialect is Dialect.ANTHROPIC:
        return EncodedRequest("/v1/messages", _anthropic(model, messages, parameters, bool(stream)))
    if dialect is Dialect.GEMINI:
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return EncodedRequest(f"/v1beta/models/{quote(model, safe='')}:{verb}", _gemini(messages, parameters))
    if dialect is Dialect.OLLAMA:
        ollama_body: JSONObject = {
            "model": model,
            "messages": message_encoder.ollama_messages(messages),
            **parameters,
        }
        return EncodedRequest("/api/chat", ollama_body if stream is None else {**ollama_body, "stream": stream})
    body: JSONObject = {"model": model, "messages": cast("list[JSON]", list(messages)), **parameters}
    return EncodedRequest("/v1/chat/completions", {**body, "stream": True} if stream else body)


def _anthropic(
    model: str, messages: Sequence[JSONObject], parameters: Mapping[str, JSON], stream: bool
) -> JSONObject:
    body: JSONObject = {"model": model, "max_tokens": ANTHROPIC_TOKENS_MAX}
    system = message_encoder.anthropic_system(messages)
    if system is not None:
        body["system"] = system
    conversation = message_encoder.anthropic_messages(messages)
    return {**body, "messages": conversation, **parameters, **({"stream": True} if stream else {})}


def _gemini(messages: Sequence[JSONObject], parameters: Mapping[str, JSON]) -> JSONObject:
    body: JSONObject = {"contents": message_encoder.gemini_contents(messages)}
    system = message_encoder.gemini_system(messages)
    if system:
        body["systemInstruction"] = {"parts": system}
    return {**body, **parameters}


def text_delta(dialect: Dialect, event: JSONObject) -> str:
    """The text that one event of a stream adds to the answer; "" where it adds none."""
    if dialect is Dialect.ANTHROPIC:
        delta = as_object(event.get("delta"))
        return as_text(delta.get("text")) if delta.get("type") == "text_delta" else ""
    if dialect is Dialect.OLLAMA:
        return as_text(as_object(event.get("message")).get("content"))
    if dialect is Dialect.GEMINI:
        first = next(iter(list_objects(event.get("candidates"))), {})
        parts = list_objects(as_object(first.get("content")).get("parts"))
        return "".join(as_text(part.get("text")) for part in parts if not part.get("thought"))
    first = next(iter(list_objects(event.get("choices"))), {})
    return as_text(as_object(first.get("delta")).get("content"))
