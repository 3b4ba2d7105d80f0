"""The trace format, version 1.0.0: one call.

One JSON object in one file, named `<timestamp with : and . as ->_<id>.json`. The unified request and response have
OpenAI's shape; fields that a provider adds are kept, at every level. Redaction happens before a trace exists.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, cast

from msgspec import UNSET, Meta, Struct, UnsetType

from traceforge.canon import JSON, JSONObject, canonical_bytes, json_bytes, parse_exact_json
from traceforge.errors import InvalidFile
from traceforge.findings import Finding, printable_name
from traceforge.shape import (
    NonEmptyText,
    NonNegative,
    OpenObject,
    ShapeProblem,
    Timestamp,
    WholeNumber,
    find_problems,
    find_timestamp_problems,
)
from traceforge.traces.trace_migration import find_version_problem
from traceforge.wire.operation_names import TOOL_SCHEMES, name_operation, name_tool_operation
from traceforge.wire.unified import as_object

TRACE_FIELDS = ("schema_version", "id", "timestamp", "endpoint", "request", "response", "metadata")

SHAPE_RULE = "TR1"
NAME_RULE = "TR3"

Uuid = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$(?!\n)",
        description="a UUID",
    ),
]


class ChatMessage(Struct):
    """One message. Parts and tool calls are in the provider's format."""

    role: Literal["system", "user", "assistant", "function", "tool", "developer"]
    content: str | list[OpenObject] | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    tool_calls: list[OpenObject] | UnsetType | None = UNSET


class TraceRequest(Struct):
    """The unified request. Only `model` is required; a field that is present must have its type."""

    model: str
    messages: list[ChatMessage] | UnsetType = UNSET
    prompt: str | list[Any] | UnsetType = UNSET
    temperature: float | UnsetType | None = UNSET
    max_tokens: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    frequency_penalty: float | UnsetType | None = UNSET
    presence_penalty: float | UnsetType | None = UNSET
    stop: str | list[str] | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET
    n: float | UnsetType | None = UNSET


class TraceChoice(Struct):
    """One choice of a model's response."""

    index: WholeNumber
    finish_reason: str | None
    message: ChatMessage | UnsetType = UNSET
    text: str | UnsetType = UNSET


class TraceUsage(Struct):
    """The tokens that the provider counted."""

    prompt_tokens: NonNegative
    completion_tokens: NonNegative
    total_tokens: NonNegative


class TraceResponse(Struct):
    """The unified response. A response without `choices` (embeddings, a list of models) is stored as it is."""

    object: str
    id: str | UnsetType | None = UNSET
    created: float | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    choices: list[TraceChoice] | UnsetType = UNSET
    usage: TraceUsage | UnsetType | None = UNSET


class TraceMetadata(Struct):
    """Duration, status and token count of the call."""

    duration_ms: NonNegative
    status: Literal["success", "error"]
    tokens_used: NonNegative | UnsetType = UNSET
    model: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


class TraceShape(Struct):
    """The content of a trace file."""

    schema_version: NonEmptyText
    id: Uuid
    timestamp: Timestamp
    endpoint: NonEmptyText
    request: TraceRequest
    response: TraceResponse | None
    metadata: TraceMetadata
    session_id: NonEmptyText | UnsetType = UNSET
    step_index: WholeNumber | UnsetType = UNSET
    parent_trace_id: NonEmptyText | UnsetType = UNSET
    state_snapshot: OpenObject | UnsetType = UNSET


class Trace(NamedTuple):
    """A valid trace. `body` is the whole JSON of its file."""

    id: str
    timestamp: str
    body: JSONObject

    @property
    def file_name(self) -> str:
        """The name its file must have."""
        return trace_file_name(self.timestamp, self.id)

    @property
    def operation(self) -> str:
        """The name of what a call without an answer of a model does; "" for any other."""
        wire = as_object(self.body.get("wire"))
        if str(wire.get("url", "")).startswith(TOOL_SCHEMES):
            return name_tool_operation(self.body.get("provider_request"))
        return name_operation(str(wire.get("method", "")), str(self.body["endpoint"]))


def trace_file_name(timestamp: str, trace_id: str) -> str:
    """`2025-12-20T15:30:45.123Z` and an id give `2025-12-20T15-30-45-123Z_<id>.json`."""
    return f"{timestamp.replace(':', '-').replace('.', '-')}_{trace_id}.json"


def read_trace(data: bytes) -> Trace:
    """Read a trace.

    Raises:
        NotJSON: it is not JSON.
        InvalidFile: it breaks a rule; the error holds every finding.
    """
    value = parse_exact_json(data)
    findings = check_trace(value)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    body = cast("JSONObject", value)
    return Trace(cast("str", body["id"]), cast("str", body["timestamp"]), body)


def write_trace(body: JSONObject) -> bytes:
    """Write a trace: the specification's fields first and in its order, then all others.

    Raises:
        InvalidFile: the body breaks a rule of the format.
        NotCanonical: it holds a value that JSON cannot represent.
    """
    canonical_bytes(body)
    return write_parsed_trace(body)


def write_parsed_trace(body: JSONObject) -> bytes:
    """Write a trace whose values all came from JSON text, without the check for values that JSON cannot represent.

    Raises:
        InvalidFile: the body breaks a rule of the format.
    """
    findings = check_trace(body)
    if findings:
        raise InvalidFile(tuple(sorted(findings)))
    ordered = {field: body[field] for field in TRACE_FIELDS}
    return json_bytes({**ordered, **body}, indent=True) + b"\n"


def check_trace(value: JSON, file: str = "") -> list[Finding]:
    """Every broken rule of a parsed trace."""
    version = value.get("schema_version") if isinstance(value, dict) else None
    if isinstance(version, str) and version and (finding := find_version_problem(value, file)):
        return [finding]
    problems = [*find_problems(value, TraceShape), *_find_semantic_problems(value)]
    if isinstance(value, dict) and "schema_version" not in value and len(problems) == 1:
        finding = find_version_problem(value, file)  # Nothing else is wrong, so that a migration repairs it.
        return [finding] if finding else []
    return [Finding(file, p.path, SHAPE_RULE, p.message, "Record the call again.") for p in problems]


def check_file_name(name: str, value: JSON, file: str = "") -> list[Finding]:
    """Check that a file is named after the time and id of its trace; otherwise it was renamed or swapped."""
    timestamp = value.get("timestamp") if isinstance(value, dict) else None
    trace_id = value.get("id") if isinstance(value, dict) else None
    if (
        not isinstance(timestamp, str)
        or not isinstance(trace_id, str)
        or name == trace_file_name(timestamp, trace_id)
    ):
        return []
    return [
        Finding(
            file,
            "",
            NAME_RULE,
            f"must be named {printable_name(trace_file_name(timestamp, trace_id))}",
            "Rename it back.",
        )
    ]


def _find_semantic_problems(value: JSON) -> list[ShapeProblem]:
    """What types cannot express: the day exists, and a response with choices has an id, a time and a model."""
    if not isinstance(value, dict):
        return []
    problems = find_timestamp_problems(value.get("timestamp"), "$.timestamp")
    response = value.get("response")
    if isinstance(response, dict) and "choices" in response:
        problems += [
            ShapeProblem(f"$.response.{name}", f"required field {name} is missing beside choices")
            for name in ("id", "created", "model")
            if name not in response
        ]
    return problems
