"""Embeddings of every dialect: the unified view is OpenAI's list, without choices.

In: bodies. Out: the unified request and response. Never: rounds a number.
"""

from __future__ import annotations

from collections.abc import Iterable

from traceforge.canon import JSON, JSONObject
from traceforge.wire.unified import as_object, build_usage, is_number, list_objects, sum_numbers, without_fields

_VECTOR_FIELDS = ("embedding", "embeddings", "predictions")


def decode_input_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request of OpenAI and Ollama: `input` is what was embedded."""
    return {**body, "input": body.get("input", body.get("prompt"))}


def decode_openai_response(body: JSONObject) -> JSONObject:
    """The unified response: `data` holds a vector each."""
    return {"object": "list", **body, **_openai_usage(body.get("usage"))}


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


def decode_gemini_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request; the address names the model."""
    requests = list_objects(body.get("requests")) or list_objects(body.get("instances"))
    embedded: JSON = [request.get("content") for request in requests] if requests else body.get("content")
    return {"model": model, **body, "input": embedded}


def decode_gemini_response(body: JSONObject) -> JSONObject:
    """The unified response of one text, or of several; that of Vertex's `predict` is a list of predictions."""
    if "predictions" in body:
        return _decode_predictions(body)
    embeddings = list_objects(body.get("embeddings")) or (
        [as_object(body["embedding"])] if "embedding" in body else []
    )
    unified = list_vectors([item.get("values") for item in embeddings], without_fields(body, _VECTOR_FIELDS))
    counts = as_object(body.get("usageMetadata"))
    return {**unified, **_prompt_usage(counts, "promptTokenCount")}


def _decode_predictions(body: JSONObject) -> JSONObject:
    """A multimodal model predicts several vectors for one input: they are kept as they came."""
    predictions = list_objects(body["predictions"])
    embeddings = [as_object(prediction.get("embeddings")) for prediction in predictions]
    if not all("values" in embedding for embedding in embeddings):
        return {**list_vectors([], body), "data": body["predictions"]}
    tokens = [as_object(embedding.get("statistics")) for embedding in embeddings]
    counts = {str(place): statistics.get("token_count") for place, statistics in enumerate(tokens)}
    unified = list_vectors([embedding["values"] for embedding in embeddings], without_fields(body, _VECTOR_FIELDS))
    return {**unified, **_prompt_usage(counts, *counts)}


def decode_ollama_response(body: JSONObject) -> JSONObject:
    """The unified response of `/api/embed`, and of the older `/api/embeddings`."""
    listed = body.get("embeddings")
    vectors = listed if isinstance(listed, list) else [body.get("embedding")]
    counts = {name: body[name] for name in ("prompt_eval_count",) if name in body}
    return {**list_vectors(vectors, without_fields(body, _VECTOR_FIELDS)), **_prompt_usage(counts, *counts)}


def list_vectors(vectors: Iterable[JSON], extra: JSONObject) -> JSONObject:
    """OpenAI's list of these vectors, with the provider's other fields."""
    data: list[JSON] = [
        {"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, **extra}


def _prompt_usage(counts: JSONObject, *names: str) -> JSONObject:
    prompt = sum_numbers(counts, *names)
    return {} if prompt is None else {"usage": build_usage(counts, prompt=prompt, completion=0)}
