"""Synthesise a provider's response, for recordings that hold only the content of a response and not its bytes."""

from __future__ import annotations

from traceforge.canon import JSONObject, json_bytes
from traceforge.exchange import Chunk
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest
from traceforge.wire.dialect_declaration import BodyFraming
from traceforge.wire.dialects import encode_response, encode_stream, find_framing_of
from traceforge.wire.endpoints import Dialect


def synthesize_response(request: KeyedRequest, body: JSONObject, unified: JSONObject) -> RecordedResponse:
    """Encode a unified response in the provider's format, as a stream if the request asks for one."""
    endpoint = request.endpoint
    if not _is_streamed(request, body):
        response_body = json_bytes(encode_response(endpoint, unified))
        return RecordedResponse(200, (("content-type", "application/json"),), (Chunk(0.0, response_body),), False)
    kind = "application/x-ndjson" if find_framing_of(endpoint) is BodyFraming.LINES else "text/event-stream"
    chunks = tuple(Chunk(0.0, frame) for frame in encode_stream(endpoint, unified))
    return RecordedResponse(200, (("content-type", kind),), chunks, True)


def _is_streamed(request: KeyedRequest, body: JSONObject) -> bool:
    if request.endpoint.dialect is Dialect.GEMINI:
        return request.key_fields.address.endswith(":streamGenerateContent")
    return bool(body.get("stream", request.endpoint.dialect is Dialect.OLLAMA))
