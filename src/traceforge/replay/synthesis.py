"""An answer that nobody has seen on the wire, in the words of the provider that was asked.

In: a request, and a response in the unified view. Out: the answer, whole or as a stream, as the request wants it.
Never: stands in where the bytes of an answer were kept.
"""

from __future__ import annotations

from traceforge.canon import JSONObject, json_bytes
from traceforge.exchange import Chunk
from traceforge.replay.answer import RecordedAnswer
from traceforge.replay.key import Asked
from traceforge.wire.dialects import encode_response, encode_stream
from traceforge.wire.registry import Dialect


def made_answer(asked: Asked, body: JSONObject, unified: JSONObject) -> RecordedAnswer:
    """The provider's own answer to this request that says what the unified response says."""
    endpoint = asked.endpoint
    if not _streams(asked, body):
        answer = json_bytes(encode_response(endpoint, unified))
        return RecordedAnswer(200, (("content-type", "application/json"),), (Chunk(0.0, answer),), False)
    kind = "application/x-ndjson" if endpoint.dialect is Dialect.OLLAMA else "text/event-stream"
    chunks = tuple(Chunk(0.0, frame) for frame in encode_stream(endpoint, unified))
    return RecordedAnswer(200, (("content-type", kind),), chunks, True)


def _streams(asked: Asked, body: JSONObject) -> bool:
    if asked.endpoint.dialect is Dialect.GEMINI:
        return asked.question.address.endswith(":streamGenerateContent")
    return bool(body.get("stream", asked.endpoint.dialect is Dialect.OLLAMA))
