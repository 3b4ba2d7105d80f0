"""A request of our own, in a provider's words, and the texts of its stream as they come.

In: a model, messages in the unified view and parameters. Out: the path and the body that ask for it; of an event of
the answer, the text that it adds. Never: I/O, or a guess: content that is more than text is handed on as it is, and
a parameter under the name it was given. A system message without a text is left out where the provider takes none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast
from urllib.parse import quote

from traceforge.canon import JSON, JSONObject
from traceforge.wire.registry import Dialect
from traceforge.wire.unified import obj, objects, text_of

ANTHROPIC_TOKENS_MAX = 1024  # Its API demands a limit; one that the caller gives counts instead.


class Request(NamedTuple):
    """What is posted, and where, behind the address of the provider."""

    path: str
    body: JSONObject


def encode_request(
    dialect: Dialect, model: str, messages: Sequence[JSONObject], parameters: Mapping[str, JSON], *,
    stream: bool | None,
) -> Request:  # fmt: skip
    """The request that decodes to these messages; `stream` None leaves it to the provider whether it streams."""
    if dialect is Dialect.ANTHROPIC:
        return Request("/v1/messages", _anthropic(model, messages, parameters, bool(stream)))
    if dialect is Dialect.GEMINI:
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return Request(f"/v1beta/models/{quote(model, safe='')}:{verb}", _gemini(messages, parameters))
    body: JSONObject = {"model": model, "messages": cast("list[JSON]", list(messages)), **parameters}
    if dialect is Dialect.OLLAMA:
        return Request("/api/chat", body if stream is None else {**body, "stream": stream})
    return Request("/v1/chat/completions", {**body, "stream": True} if stream else body)


def _anthropic(
    model: str, messages: Sequence[JSONObject], parameters: Mapping[str, JSON], stream: bool
) -> JSONObject:
    system = [text for one in messages if one.get("role") == "system" and (text := one.get("content")) != ""]
    rest: list[JSON] = [message for message in messages if message.get("role") != "system"]
    body: JSONObject = {"model": model, "max_tokens": ANTHROPIC_TOKENS_MAX}
    if system:
        body["system"] = system[0] if len(system) == 1 else [{"type": "text", "text": text} for text in system]
    return {**body, "messages": rest, **parameters, **({"stream": True} if stream else {})}


def _gemini(messages: Sequence[JSONObject], parameters: Mapping[str, JSON]) -> JSONObject:
    roles = {"assistant": "model"}
    contents: list[JSON] = [
        {"role": roles.get(role := text_of(message.get("role")), role), "parts": _parts(message.get("content"))}
        for message in messages
        if message.get("role") != "system"
    ]
    system = [
        part
        for one in messages
        if one.get("role") == "system" and one.get("content") != ""
        for part in _parts(one.get("content"))
    ]
    body: JSONObject = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": system}
    return {**body, **parameters}


def _parts(content: JSON) -> list[JSON]:
    return [{"text": content}] if isinstance(content, str) else cast("list[JSON]", objects(content))


def text_delta(dialect: Dialect, event: JSONObject) -> str:
    """The text that one event of a stream adds to the answer; "" where it adds none."""
    if dialect is Dialect.ANTHROPIC:
        delta = obj(event.get("delta"))
        return text_of(delta.get("text")) if delta.get("type") == "text_delta" else ""
    if dialect is Dialect.OLLAMA:
        return text_of(obj(event.get("message")).get("content"))
    if dialect is Dialect.GEMINI:
        first = next(iter(objects(event.get("candidates"))), {})
        parts = objects(obj(first.get("content")).get("parts"))
        return "".join(text_of(part.get("text")) for part in parts if not part.get("thought"))
    first = next(iter(objects(event.get("choices"))), {})
    return text_of(obj(first.get("delta")).get("content"))
