"""One way to call every dialect.

In: an endpoint and a provider's body. Out: the unified view, an assembly for its streams, or a provider's body made
from a unified view. Never: knows a provider itself; its modules do, and each of them is a `DialectModule`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import cast

from traceforge.canon import JSON, JSONObject
from traceforge.wire import dialect_index
from traceforge.wire.dialect_declaration import BodyFraming, DialectDeclaration, DialectModule
from traceforge.wire.dialect_plugins import load_plugins
from traceforge.wire.endpoints import Dialect, Endpoint, EndpointKind
from traceforge.wire.stream_assembly import StreamAssembler, StreamFrame
from traceforge.wire.unified import as_object, list_objects, without_fields


def list_dialects() -> list[str]:
    """The names of all dialects: those of TraceForge, then those of installed packages."""
    return [*dialect_index.MODULES, *load_plugins().by_name]


@cache
def find_declaration(dialect: str) -> DialectDeclaration:
    """What a dialect declares. Imports its module."""
    declaration = getattr(import_module(_module_name(dialect)), "DIALECT")  # noqa: B009 (mypy: a module has no fields)
    return cast("DialectDeclaration", declaration)


def _module_name(dialect: str) -> str:
    module = dialect_index.MODULES.get(dialect)
    return module if module is not None else load_plugins().by_name[dialect].module


def find_framing_of(endpoint: Endpoint) -> BodyFraming:
    """How the streams of an endpoint are divided, where nothing in them tells."""
    return BodyFraming.SSE if endpoint.dialect is None else find_declaration(endpoint.dialect).framing


def find_dialect_module(endpoint: Endpoint) -> DialectModule | None:
    """What understands this endpoint; None where nothing does."""
    return None if endpoint.dialect is None else _import_codec(endpoint.dialect, endpoint.kind)


@cache
def _import_codec(dialect: str, kind: EndpointKind) -> DialectModule:
    """Deferred: all dialects together take 18 ms to import, and most projects use one."""
    paths = find_declaration(dialect).endpoints
    codec = next((path.codec for path in paths if path.kind is kind), "")
    module, _, name = codec.partition(":")
    imported: object = import_module(module or _module_name(dialect))
    return cast("DialectModule", getattr(imported, name) if name else imported)


def import_dialects() -> None:
    """Import every dialect, also those of installed packages: for a process that may import nothing from now on."""
    for name in list_dialects():
        for path in find_declaration(name).endpoints:
            _import_codec(name, path.kind)


def decode_request(endpoint: Endpoint, body: JSONObject) -> JSONObject:
    """The unified request; that of an unknown endpoint is its body."""
    dialect_module = find_dialect_module(endpoint)
    if dialect_module is None:
        return body
    unified = dialect_module.decode_request(body, endpoint.model)
    if endpoint.model and "model" not in unified:
        unified["model"] = endpoint.model
    return unified


def decode_response(endpoint: Endpoint, body: JSONObject) -> JSONObject:
    """The unified response of a successful answer."""
    dialect_module = find_dialect_module(endpoint)
    return {"object": "other", **body} if dialect_module is None else dialect_module.decode_response(body)


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


def _is_text_endpoint(endpoint: Endpoint) -> bool:
    return endpoint.kind is EndpointKind.COMPLETIONS or (
        endpoint.dialect is Dialect.OLLAMA and endpoint.kind is EndpointKind.GENERATE
    )


def _as_text_completion(endpoint: Endpoint, unified: JSONObject) -> JSONObject:
    """A response written by hand does not say what it is: where text is asked for, its content is the text."""
    if "object" in unified or not _is_text_endpoint(endpoint):
        return unified
    choices: list[JSON] = [
        {
            **without_fields(choice, ("message",)),
            "text": choice.get("text", as_object(choice.get("message")).get("content")),
        }
        for choice in list_objects(unified.get("choices"))
    ]
    return {**unified, "object": "text_completion", "choices": choices}
