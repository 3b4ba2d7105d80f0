"""One way to call every dialect.

In: an endpoint and a provider's body. Out: the unified view, an assembly for its streams, or a provider's body made
from a unified view. Never: knows a provider itself; its modules do, and each of them is a `DialectModule`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire import embeddings
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame
from traceforge.wire.unified import as_object, list_objects, without_fields


class DialectModule(Protocol):
    """What a dialect's module offers."""

    @property
    def new_assembler(self) -> Callable[[], StreamAssembler]:
        """What puts a stream of this dialect together."""
        ...

    def decode_request(self, body: JSONObject, model: str) -> JSONObject:
        """The unified request; `model` where the address names it."""
        ...

    def decode_response(self, body: JSONObject) -> JSONObject: ...

    def encode_response(self, unified: JSONObject) -> JSONObject:
        """The answer that decodes to this unified response."""
        ...

    def encode_stream(self, unified: JSONObject) -> list[StreamFrame]:
        """The stream that assembles and decodes to this unified response."""
        ...


def find_dialect_module(endpoint: Endpoint) -> DialectModule | None:
    """The module that understands this endpoint; None where none does."""
    if endpoint.dialect is Dialect.OPENAI and endpoint.kind is EndpointKind.RESPONSES:
        return _import_dialect("openai.responses")
    return None if endpoint.dialect is None else _import_dialect(_MODULES[endpoint.dialect])


@cache
def _import_dialect(module: str) -> DialectModule:
    """Deferred: all dialects together take 18 ms to import, and most projects use one."""
    return cast("DialectModule", import_module(f"traceforge.wire.{module}"))


_MODULES = {
    Dialect.OPENAI: "openai.chat",
    Dialect.ANTHROPIC: "anthropic",
    Dialect.GEMINI: "gemini",
    Dialect.OLLAMA: "ollama",
}


def decode_request(endpoint: Endpoint, body: JSONObject) -> JSONObject:
    """The unified request; that of an unknown endpoint is its body."""
    dialect_module = find_dialect_module(endpoint)
    if dialect_module is None or endpoint.dialect is None:
        return body
    if endpoint.kind is EndpointKind.EMBEDDINGS:
        unified = embeddings.decode_request(body, endpoint.dialect, endpoint.model)
    else:
        unified = dialect_module.decode_request(body, endpoint.model)
    if endpoint.model and "model" not in unified:
        unified["model"] = endpoint.model
    return unified


def decode_response(endpoint: Endpoint, body: JSONObject) -> JSONObject:
    """The unified response of a successful answer."""
    dialect_module = find_dialect_module(endpoint)
    if dialect_module is None or endpoint.dialect is None:
        return {"object": "other", **body}
    if endpoint.kind is EndpointKind.EMBEDDINGS:
        return embeddings.decode_response(body, endpoint.dialect)
    return dialect_module.decode_response(body)


def new_assembler(endpoint: Endpoint) -> StreamAssembler | None:
    """What puts a stream of this endpoint together; None where nothing is known about it."""
    dialect_module = find_dialect_module(endpoint)
    return None if dialect_module is None else dialect_module.new_assembler()


def encode_response(endpoint: Endpoint, unified: JSONObject) -> JSONObject:
    """The provider's own answer that decodes to this unified response."""
    dialect_module = find_dialect_module(endpoint)
    assert dialect_module is not None, "an unknown endpoint has no answer of its own"
    return dialect_module.encode_response(_as_text_completion(endpoint, unified))


def encode_stream(endpoint: Endpoint, unified: JSONObject) -> list[StreamFrame]:
    """The provider's own stream that assembles and decodes to this unified response."""
    dialect_module = find_dialect_module(endpoint)
    assert dialect_module is not None, "an unknown endpoint has no stream of its own"
    return dialect_module.encode_stream(_as_text_completion(endpoint, unified))


_TEXT_ENDPOINTS = {
    (Dialect.OPENAI, EndpointKind.COMPLETIONS),
    (Dialect.ANTHROPIC, EndpointKind.COMPLETIONS),
    (Dialect.OLLAMA, EndpointKind.GENERATE),
}


def _as_text_completion(endpoint: Endpoint, unified: JSONObject) -> JSONObject:
    """A response written by hand does not say what it is: where text is asked for, its content is the text."""
    if "object" in unified or (endpoint.dialect, endpoint.kind) not in _TEXT_ENDPOINTS:
        return unified
    choices: list[JSON] = [
        {
            **without_fields(choice, ("message",)),
            "text": choice.get("text", as_object(choice.get("message")).get("content")),
        }
        for choice in list_objects(unified.get("choices"))
    ]
    return {**unified, "object": "text_completion", "choices": choices}
