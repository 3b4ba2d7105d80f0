"""Embeddings of every dialect: the unified view is OpenAI's list, without choices.

In: bodies. Out: the unified request and response. Never: rounds a number.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.wire.endpoints import Dialect
from traceforge.wire.unified import as_object, build_usage, is_number, list_objects, sum_numbers, without_fields


def decode_request(body: JSONObject, dialect: Dialect, model: str) -> JSONObject:
    """The unified request: `input` is what was embedded."""
    if dialect is Dialect.GEMINI:
        requests = list_objects(body.get("requests"))
        embedded: JSON = [request.get("content") for request in requests] if requests else body.get("content")
        return {"model": model, **body, "input": embedded}
    return {**body, "input": body.get("input", body.get("prompt"))}


def decode_response(body: JSONObject, dialect: Dialect) -> JSONObject:
    """The unified response: `data` holds a vector each."""
    if dialect is Dialect.OPENAI:
        return {"object": "list", **body, **_openai_usage(body.get("usage"))}
    vectors: list[JSON]
    if dialect is Dialect.GEMINI:
        embeddings = list_objects(body.get("embeddings")) or (
            [as_object(body["embedding"])] if "embedding" in body else []
        )
        vectors = [item.get("values") for item in embeddings]
        extra = without_fields(body, ("embedding", "embeddings"))
    else:
        listed = body.get("embeddings")
        vectors = listed if isinstance(listed, list) else [body.get("embedding")]
        extra = without_fields(body, ("embedding", "embeddings"))
    data: list[JSON] = [{"object": "embedding", "index": place, "embedding": v} for place, v in enumerate(vectors)]
    unified: JSONObject = {"object": "list", "data": data, **extra}
    if "prompt_eval_count" in body:
        count = sum_numbers(body, "prompt_eval_count")
        unified["usage"] = build_usage({"prompt_eval_count": body["prompt_eval_count"]}, prompt=count, completion=0)
    elif is_number(as_object(body.get("usageMetadata")).get("promptTokenCount")):
        counts = as_object(body["usageMetadata"])
        unified["usage"] = build_usage(counts, prompt=sum_numbers(counts, "promptTokenCount"), completion=0)
    return unified


def _openai_usage(usage: JSON) -> JSONObject:
    """An embedding has no tokens but those of its input: OpenAI sends no other count, and Voyage the total alone."""
    if not isinstance(usage, dict):
        return {}
    prompt, total = sum_numbers(usage, "prompt_tokens"), sum_numbers(usage, "total_tokens")
    if prompt is None:
        prompt = total
    if prompt is None or is_number(usage.get("completion_tokens")):
        return {}
    return {"usage": {**usage, **build_usage(usage, prompt=prompt, completion=0, total=total)}}
