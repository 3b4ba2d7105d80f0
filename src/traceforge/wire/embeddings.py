"""Embeddings of every dialect: the unified view is OpenAI's list, without choices.

In: bodies. Out: the unified request and response. Never: rounds a number.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import numbers, obj, objects, usage, without


def decode_request(body: JSONObject, dialect: Dialect, model: str) -> JSONObject:
    """The unified request: `input` is what was embedded."""
    if dialect is Dialect.GEMINI:
        listed = objects(body.get("requests"))
        given: JSON = [request.get("content") for request in listed] if listed else body.get("content")
        return {"model": model, **body, "input": given}
    return {**body, "input": body.get("input", body.get("prompt"))}


def decode_response(body: JSONObject, dialect: Dialect) -> JSONObject:
    """The unified response: `data` holds a vector each."""
    if dialect is Dialect.OPENAI:
        return {"object": "list", **body}
    vectors: list[JSON]
    if dialect is Dialect.GEMINI:
        listed = objects(body.get("embeddings")) or ([obj(body["embedding"])] if "embedding" in body else [])
        vectors = [item.get("values") for item in listed]
        rest = without(body, ("embedding", "embeddings"))
    else:
        found = body.get("embeddings")
        vectors = found if isinstance(found, list) else [body.get("embedding")]
        rest = without(body, ("embedding", "embeddings"))
    data: list[JSON] = [{"object": "embedding", "index": place, "embedding": v} for place, v in enumerate(vectors)]
    unified: JSONObject = {"object": "list", "data": data, **rest}
    if "prompt_eval_count" in body:
        count = numbers(body, "prompt_eval_count")
        unified["usage"] = usage({"prompt_eval_count": body["prompt_eval_count"]}, prompt=count, completion=0)
    return unified
