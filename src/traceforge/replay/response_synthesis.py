"""An answer that nobody has seen on the wire, in the words of the provider that was asked.

In: a request, and a response in the unified view. Out: the answer, whole or as a stream, as the request wants it.
Never: stands in where the bytes of an answer were kept.
"""

from __future__ import annotations

from traceforge.canon import JSONObject, json_bytes
from traceforge.exchange import Chunk
from traceforge.replay.recorded_response import RecordedResponse
from traceforge.replay.request_key import KeyedRequest
from traceforge.wire.dialects import encode_response, encode_stream
from traceforge.wire.endpoints import Dialect


def synthesize_response(request: KeyedRequest, body: JSONObject, unified: JSONObject) -> RecordedResponse:
    """The provider's own answer to this request that says what the unified response says."""
    endpoint = request.endpoint
    if not _is_streamed(request, body):
        response_body = json_bytes(encode_response(endpoint, unified))
        return RecordedResponse(200, (("content-type", "application/json"),), (Chunk(0.0, response_body),), False)
    kind = "application/x-ndjson" if endpoint.dialect is Dialect.OLLAMA else "text/event-stream"
    chunks = tuple(Chunk(0.0, frame) for frame in encode_stream(endpoint, unified))
    return RecordedResponse(200, (("content-type", kind),), chunks, True)


def _is_streamed(request: KeyedRequest, body: JSONObject) -> bool:
    if request.endpoint.dialect is Dialect.GEMINI:
        return request.key_fields.address.endswith(":streamGenerateContent")
    return bool(body.get("stream", request.endpoint.dialect is Dialect.OLLAMA))
