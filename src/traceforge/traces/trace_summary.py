"""The summary of a trace: the fields that lists, sessions and filters need.

It precedes each trace in the spool and is a row of the index, so that neither has to read whole traces. It holds no
prompt and no response.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Struct

from traceforge.canon import JSON, JSONObject
from traceforge.conversion import decode_msgpack
from traceforge.shape import Timestamp
from traceforge.traces.trace_format import Uuid, trace_file_name
from traceforge.wire.operation_names import name_operation

WHOLE_NUMBER_MAX = 2**53  # Beyond, doubles do not represent every whole number.


class TraceSummary(Struct, frozen=True, array_like=True):
    """The summary of a trace. "" and None: the trace does not have the field."""

    id: Uuid  # Checked when it is read, because it becomes part of a file name.
    timestamp: Timestamp
    endpoint: str
    provider: str
    model: str
    status: str
    duration_ms: float
    tokens: float | None
    session_id: str
    step_index: int | None
    parent_trace_id: str
    source: str
    digest: str  # of the request
    streamed: bool  # whether there are chunks

    @property
    def operation(self) -> str:
        """What a call without an answer of a model is about, such as `files`; "" for any other.

        A summary has no method, so the name has no verb.
        """
        return name_operation("", self.endpoint)

    @property
    def file_name(self) -> str:
        """The name of the file of the trace."""
        return trace_file_name(self.timestamp, self.id)

    def to_dict(self) -> dict[str, JSON]:
        """The summary as `--json` prints it."""
        return msgspec.structs.asdict(self)

    def to_bytes(self) -> bytes:
        """The summary as the spool stores it."""
        return _encoder.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> TraceSummary:
        """Read what `to_bytes` wrote.

        Raises:
            msgspec.DecodeError: the data are not a summary.
        """
        return decode_msgpack(data, TraceSummary)


class StoredTrace(NamedTuple):
    """The bytes of a trace and its chunks, as they are stored anywhere."""

    summary: TraceSummary
    trace: bytes
    chunks: bytes = b""  # empty where the response was not a stream


_encoder = msgspec.msgpack.Encoder()


def summarize_trace(body: JSONObject) -> TraceSummary:
    """The summary of a valid trace."""
    request, metadata, wire = _object(body["request"]), _object(body["metadata"]), _object(body.get("wire"))
    source = _object(body.get("source"))
    tokens, step = metadata.get("tokens_used"), body.get("step_index")
    return TraceSummary(
        _text(body["id"]),
        _text(body["timestamp"]),
        _text(body["endpoint"]),
        _text(body.get("provider")),
        _text(metadata.get("model")) or _text(request.get("model")),
        _text(metadata["status"]),
        _number(metadata["duration_ms"]) or 0.0,
        _number(tokens),
        _text(body.get("session_id")),
        _whole_number(step) if step is not None else None,
        _text(body.get("parent_trace_id")),
        f"{_text(source.get('file'))}:{_whole_number(source.get('line'))}" if source else "",
        _text(wire.get("request_digest")),
        request.get("stream") is True and not ("response_layout" in wire or "response_text" in wire),
    )


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _text(value: JSON) -> str:
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()  # No lone surrogate.


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole_number(value: JSON) -> int:
    return int(min(_number(value) or 0, WHOLE_NUMBER_MAX))
