"""The OpenAPI 3.1 document of `/v2`, generated from the table of operations.

It describes every parameter, body, response and error of every operation, and nothing that the server does not do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any

from traceforge import __version__
from traceforge.context.api.operation_types import LIMIT_DEFAULT, LIMIT_MAX, PARAMETERS, Operation
from traceforge.context.api.operations import OPERATIONS
from traceforge.context.api.request_decoding import KEY_CHARACTERS_MAX, KEY_PATTERN
from traceforge.context.compiler.compiler_revisions import REVISIONS
from traceforge.context.responses.model_releases import PINNED_PARAMETERS
from traceforge.context.responses.renderer_revisions import RENDERER_REVISIONS
from traceforge.conversion import build_schemas

PREFIX = "/v2"
_REF = "#/components/schemas/{name}"
_PYTHON_END = r"$(?!\n)"  # In a regular expression of Python; in one of JSON Schema `$` is the end.
_NOT_NULL: dict[str, Any] = {"not": {"type": "null"}}
_NOT_THERE: dict[str, Any] = {"type": "null"}
_WHY = {
    400: "The request is invalid; `param` names the first invalid field, `problems` all of them.",
    401: "The API key is missing or invalid.",
    403: "The API key lacks the scope, or the request comes from a web page of another origin.",
    404: "The object does not exist in this project.",
    405: "The path does not allow this method.",
    408: "The body did not arrive in time.",
    409: "The branch has moved on, the state of an object forbids it, or a call with this key is in flight.",
    410: "The content was purged; `receipt_id` names the receipt.",
    413: "The body is larger than 2 MiB.",
    415: "The body is not application/json.",
    421: "The Host header names another host.",
    422: "The idempotency key was used with another body, or the request cannot be processed.",
    500: "An internal error of the server.",
    502: "The model gave no answer.",
    503: "The database is unavailable.",
}


_PARAMS: dict[str, Any] = {
    "propertyNames": {"not": {"enum": sorted(PINNED_PARAMETERS)}},
    "properties": {"n": {"enum": [None, 1]}},
}


def _merge(strategy: str, **other: Any) -> dict[str, Any]:  # noqa: ANN401 (a schema)
    """The schema of a merge by one strategy: fields that it does not use are absent, null or empty."""
    usual = {"summary": _NOT_THERE, "model": _NOT_THERE, "label": {"const": ""}}
    required = [name for name, schema in other.items() if schema is _NOT_NULL]
    return {"required": required, "properties": {"strategy": {"const": strategy}, **usual, **other}}


# Beyond types: exactly one of two fields is present, or a field depends on the value of another.
_MORE: dict[str, dict[str, Any]] = {
    "Merge": {
        "oneOf": [
            _merge("checkpoint"),
            _merge("compact", summary=_NOT_NULL),
            _merge("compact", model=_NOT_NULL),
            _merge("rebase"),
            _merge("fork", label={}),
        ]
    },
    "NewReplayRun": {
        "oneOf": [
            {
                "required": ["snapshot_ids"],
                "properties": {"snapshot_ids": {"minItems": 1}, "session_id": _NOT_THERE},
            },
            {"required": ["session_id"], "properties": {"session_id": _NOT_NULL, "snapshot_ids": {"maxItems": 0}}},
        ]
    },
    "NewResponse": {
        "oneOf": [
            {
                "required": ["snapshot_id"],
                "not": {"anyOf": [{"required": [name]} for name in ("expected_version", "expected_head_event_id")]},
                "properties": {
                    "snapshot_id": _NOT_NULL,
                    **dict.fromkeys(("session_id", "branch_id", "input", "prompt_compiler_revision"), _NOT_THERE),
                },
            },
            {"required": ["session_id"], "properties": {"session_id": _NOT_NULL, "snapshot_id": _NOT_THERE}},
        ],
        "allOf": [{"properties": {"params": _PARAMS}}],
    },
    "Target": {"allOf": [{"properties": {"params": _PARAMS}}]},
    "NewArtifact": {"oneOf": [{"required": ["content"]}, {"required": ["content_base64"]}]},
    "NewEvent": {
        "oneOf": [
            {"required": ["content"], "properties": {"content": _NOT_NULL, "payload_ref": _NOT_THERE}},
            {"required": ["payload_ref"], "properties": {"payload_ref": _NOT_NULL, "content": _NOT_THERE}},
        ]
    },
}


@cache
def build_document(*, required: bool = True) -> dict[str, Any]:
    """The document of a server with or without required API keys."""
    answers, components = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = _operation(operation, answers)
    openapi: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "TraceForge context store",
            "version": __version__,
            "description": "History that cannot be clobbered, input that is pinned, answers that can be re-run.\n\n"
            "Every POST takes the header Idempotency-Key (components/parameters): a retry with the same key and body "
            "gets the first answer, and has no second effect. No name stands twice in an object of a body.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": _error_schema()},
            "parameters": {"IdempotencyKey": _idempotency_key()},
        },
    }
    if required:
        scheme = {"type": "http", "scheme": "bearer", "description": "A key: tf_live_…"}
        openapi["components"]["securitySchemes"] = {"key": scheme}
        openapi["security"] = [{"key": []}]
    return openapi


def _schemas() -> tuple[dict[Any, Any], dict[str, Any]]:
    """The schema of every type in the table, and the types that they refer to."""
    types = list(dict.fromkeys(_types(OPERATIONS)))
    schemas, components = build_schemas(types, _REF)
    cleaned = _clean(components)
    for name, more in _MORE.items():
        cleaned[name] |= more
    for schema in cleaned.values():
        if "prompt_compiler_revision" in schema.get("properties", {}) and not schema.get(
            "additionalProperties", True
        ):
            revision_schema = {"anyOf": [{"enum": list(REVISIONS)}, {"type": "null"}], "default": None}
            schema["properties"]["prompt_compiler_revision"] = (
                revision_schema  # In a request; a response may name an older revision.
            )
    return dict(zip(types, map(_clean, schemas), strict=True)), cleaned


def _types(operations: Iterable[Operation]) -> Iterable[Any]:
    for operation in operations:
        yield operation.answer
        if operation.body is not None:
            yield operation.body
    yield from PARAMETERS.values()


def _clean(value: Any) -> Any:  # noqa: ANN401 (a schema)
    """The schema with patterns as JSON Schema spells them."""
    if isinstance(value, dict):
        return {
            name: member.replace(_PYTHON_END, "$")
            if name == "pattern" and isinstance(member, str)
            else _clean(member)
            for name, member in value.items()
        }
    return [_clean(member) for member in value] if isinstance(value, list) else value


def _operation(operation: Operation, schemas: dict[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[1]],
        "parameters": [*_path_parameters(operation, schemas), *_query(operation)],
        "responses": {
            str(operation.status): _response(HTTPStatus(operation.status).phrase, schemas[operation.answer]),
            **{str(status): _error_response(status) for status in error_statuses(operation)},
        },
        "x-traceforge-scope": operation.scope,
    }
    if operation.name == "create_response":
        described["responses"][str(operation.status)]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[operation.body]}},
        }
    return described


def error_statuses(operation: Operation) -> tuple[int, ...]:
    """Every error status of an operation."""
    statuses = {400, 401, 403, 404, 405, 413, 421, 500, 503}
    if operation.method in ("POST", "PATCH"):
        statuses |= {408, 409, 415}
    if operation.method == "POST" or operation.query is not None:
        statuses |= {422}
    if operation.parameters or operation.body is not None or operation.is_list:
        statuses |= {410}
    if operation.method == "DELETE":
        statuses |= {409}
    if operation.name == "merge_branch":
        statuses |= {502}  # The model wrote no summary.
    return tuple(sorted(statuses))


def _path_parameters(operation: Operation, schemas: dict[Any, Any]) -> Iterable[dict[str, Any]]:
    for name in operation.parameters:
        yield {"name": name, "in": "path", "required": True, "schema": schemas[PARAMETERS[name]]}


def _query(operation: Operation) -> Iterable[dict[str, Any]]:
    if operation.is_list:
        yield {
            "name": "limit", "in": "query", "description": "How many at most.",
            "schema": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
        }  # fmt: skip
        yield {
            "name": "after", "in": "query", "description": "The id of the last object seen.",
            "schema": {"type": "string", "minLength": 1},
        }  # fmt: skip
    if operation.query is not None:
        _, components = build_schemas([operation.query], _REF)
        fields = _clean(components[operation.query.__name__])
        fields["properties"]["renderer_revision"] = {"enum": list(RENDERER_REVISIONS)}
        for name, schema in fields["properties"].items():
            yield {"name": name, "in": "query", "required": name in fields["required"], "schema": schema}


def _idempotency_key() -> dict[str, Any]:
    """Defined once and not per operation: a test generator would send one key with many bodies."""
    return {
        "name": "Idempotency-Key", "in": "header",
        "description": "A retry with the same key and body gets the first answer, and has no second effect.",
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS_MAX, "pattern": KEY_PATTERN},
    }  # fmt: skip


def _response(description: str, schema: Any) -> dict[str, Any]:  # noqa: ANN401 (a schema)
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _error_response(status: int) -> dict[str, Any]:
    return _response(_WHY[status], {"$ref": _REF.format(name="Error")})


def _error_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "title": "Error",
        "description": "Every refusal looks like this.",
        "type": "object",
        "required": ["error"],
        "additionalProperties": False,
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "code", "param"],
                "additionalProperties": False,
                "properties": {
                    "message": text,
                    "type": text,
                    "code": {**text, "description": "A stable word."},
                    "param": {"anyOf": [text, {"type": "null"}]},
                    "problems": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"param": text, "message": text}},
                    },
                    "current_version": {"type": "integer", "minimum": 0},
                    "current_head_event_id": {"anyOf": [text, {"type": "null"}]},
                    "receipt_id": text,
                },
            }
        },
    }
