"""One way to call every dialect.

In: an endpoint and a provider's body. Out: the unified view, an assembly for its streams, or a provider's body made
from a unified view. Never: knows a provider itself; its modules do, and each of them is a `Speaker`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire.endpoints import Dialect, Endpoint, Kind
from traceforge.wire.stream_assembly import Assembly, Frame
from traceforge.wire.unified import obj, objects, without


class Speaker(Protocol):
    """What a dialect's module offers."""

    @property
    def new_assembly(self) -> Callable[[], Assembly]:
        """What puts a stream of this dialect together."""
        ...

    def decode_request(self, body: JSONObject, model: str) -> JSONObject:
        """The unified request; `model` where the address names it."""
        ...

    def decode_response(self, body: JSONObject) -> JSONObject:
        """The unified response."""
        ...

    def encode_response(self, unified: JSONObject) -> JSONObject:
        """The answer that decodes to this unified response."""
        ...

    def encode_stream(self, unified: JSONObject) -> list[Frame]:
        """The stream that assembles and decodes to this unified response."""
        ...


def find_speaker(endpoint: Endpoint) -> Speaker | None:
    """The module that understands this endpoint; None where nobody does."""
    if endpoint.dialect is Dialect.OPENAI and endpoint.kind is Kind.RESPONSES:
        return _speaker("openai.responses")
    return None if endpoint.dialect is None else _speaker(_SPEAKERS[endpoint.dialect])


@cache
def _speaker(module: str) -> Speaker:
    """It is imported when it is first spoken: most projects speak one dialect."""
    return cast("Speaker", import_module(f"traceforge.wire.{module}"))


_SPEAKERS = {
    Dialect.OPENAI: "openai.chat",
    Dialect.ANTHROPIC: "anthropic",
    Dialect.GEMINI: "gemini",
    Dialect.OLLAMA: "ollama",
}


def decode_request(endpoint: Endpoint, body: JSONObject) -> JSONObject:
    """The unified request; that of an unknown endpoint is its body."""
    speaker = find_speaker(endpoint)
    if speaker is None or endpoint.dialect is None:
        return body
    if endpoint.kind is Kind.EMBEDDINGS:
        from traceforge.wire import embeddings

        unified = embeddings.decode_request(body, endpoint.dialect, endpoint.model)
    else:
        unified = speaker.decode_request(body, endpoint.model)
    if endpoint.model and "model" not in unified:
        unified["model"] = endpoint.model
    return unified


def decode_response(endpoint: Endpoint, body: JSONObject) -> JSONObject:
    """The unified response of a successful answer."""
    speaker = find_speaker(endpoint)
    if speaker is None or endpoint.dialect is None:
        return {"object": "other", **body}
    if endpoint.kind is Kind.EMBEDDINGS:
        from traceforge.wire import embeddings

        return embeddings.decode_response(body, endpoint.dialect)
    return speaker.decode_response(body)


def new_assembly(endpoint: Endpoint) -> Assembly | None:
    """What puts a stream of this endpoint together; None where nothing is known about it."""
    speaker = find_speaker(endpoint)
    return None if speaker is None else speaker.new_assembly()


def encode_response(endpoint: Endpoint, unified: JSONObject) -> JSONObject:
    """The provider's own answer that decodes to this unified response."""
    speaker = find_speaker(endpoint)
    assert speaker is not None, "an unknown endpoint has no answer of its own"
    return speaker.encode_response(_shaped(endpoint, unified))


def encode_stream(endpoint: Endpoint, unified: JSONObject) -> list[Frame]:
    """The provider's own stream that assembles and decodes to this unified response."""
    speaker = find_speaker(endpoint)
    assert speaker is not None, "an unknown endpoint has no stream of its own"
    return speaker.encode_stream(_shaped(endpoint, unified))


_TEXT = {
    (Dialect.OPENAI, Kind.COMPLETIONS),
    (Dialect.ANTHROPIC, Kind.COMPLETIONS),
    (Dialect.OLLAMA, Kind.GENERATE),
}


def _shaped(endpoint: Endpoint, unified: JSONObject) -> JSONObject:
    """A response written by hand does not say what it is: where text is asked for, its content is the text."""
    if "object" in unified or (endpoint.dialect, endpoint.kind) not in _TEXT:
        return unified
    choices: list[JSON] = [
        {**without(choice, ("message",)), "text": choice.get("text", obj(choice.get("message")).get("content"))}
        for choice in objects(unified.get("choices"))
    ]
    return {**unified, "object": "text_completion", "choices": choices}
