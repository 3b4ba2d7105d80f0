"""What servers of open models have beside OpenAI's API: rerank, score, pooling and classify.

vLLM has all four; Jina, Voyage, Infinity, Text Embeddings Inference and the server of llama.cpp have rerank, too.

In: bodies. Out: the unified view. Never: I/O; reads a chat completion, which `openai/chat` does.

    /rerank     `query` and `documents`, answered with `results` or `data`: a place and a score each
    /score      `text_1` and `text_2`, answered with a score for each pair
    /pooling    `input`, answered with what the model pools: a vector, or one for each token
    /classify   `input`, answered with a label and probabilities

Paths such as `/score` say little: they count at hosts that a project names.
"""

from __future__ import annotations

from traceforge.canon import JSON, JSONObject
from traceforge.wire.dialect_declaration import (
    AFTER_BASE,
    BodyCodec,
    DialectDeclaration,
    EndpointKind,
    EndpointPath,
    KeyHeader,
)
from traceforge.wire.openai import chat
from traceforge.wire.unified import build_usage, list_objects, sum_numbers, without_fields

DIALECT = DialectDeclaration(
    name="vllm",
    endpoints=(
        EndpointPath(r"/rerank(?:ing)?/?", EndpointKind.RERANK, AFTER_BASE, ":RERANK", only_where_watched=True),
        EndpointPath(r"/score/?", EndpointKind.SCORE, AFTER_BASE, ":SCORE", only_where_watched=True),
        EndpointPath(r"/pooling/?", EndpointKind.EMBEDDINGS, AFTER_BASE, ":POOLING", only_where_watched=True),
        EndpointPath(
            r"/classify/?", EndpointKind.CLASSIFICATION, AFTER_BASE, ":CLASSIFICATION", only_where_watched=True
        ),
    ),
    hosts=("ai.mongodb.com", "api.jina.ai", "api.voyageai.com"),
    api_key=KeyHeader(("VLLM_API_KEY",), "authorization", "Bearer "),
    base_path=r"/(?:rerank|score|pooling|classify)/?\Z",
)


def _decode_rerank_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request; Text Embeddings Inference has `texts` where others have `documents`."""
    return {**body, "documents": body["texts"]} if "texts" in body and "documents" not in body else dict(body)


def _decode_rerank_response(body: JSONObject) -> JSONObject:
    """The unified response: `results` in their order, as they came."""
    results = next((body[name] for name in ("results", "data") if isinstance(body.get(name), list)), None)
    if results is None:
        return {"object": "other", **body}
    return {**body, "object": "rerank", "results": results, **_usage(body.get("usage"))}


def _usage(usage: JSON) -> JSONObject:
    """The tokens of the input: such a model writes none, and some servers send the total alone."""
    if not isinstance(usage, dict):
        return {}
    total = sum_numbers(usage, "total_tokens")
    prompt = sum_numbers(usage, "prompt_tokens")
    prompt = total if prompt is None else prompt
    completion = sum_numbers(usage, "completion_tokens") or 0
    return {"usage": build_usage(usage, prompt=prompt, completion=completion, total=total)}


def _wrap_results(body: list[JSON]) -> JSONObject:
    """What Text Embeddings Inference answers: the results alone."""
    return {"results": body}


def _encode(unified: JSONObject) -> JSONObject:
    """The body that decodes to this unified response."""
    usage = unified.get("usage")
    body = without_fields(unified, ("usage",))
    return {**body, "usage": usage.get("provider")} if isinstance(usage, dict) else body


def _decode_request(body: JSONObject, model: str = "") -> JSONObject:
    """The unified request of a score: `input` is what was compared."""
    pair = {name: body[name] for name in _PAIR_FIELDS if name in body}
    return {**body, "input": pair} if pair and "input" not in body else dict(body)


_PAIR_FIELDS = ("text_1", "text_2", "queries", "documents", "items", "data_1", "data_2")


def _decode_data_response(body: JSONObject) -> JSONObject:
    """The unified response: `data` in the order of the inputs, as it came."""
    if not list_objects(body.get("data")):
        return {"object": "other", **body}
    return {"object": "list", **body, **_usage(body.get("usage"))}


def _wrap_data(body: list[JSON]) -> JSONObject:
    return {"data": body}


_STREAM = (chat.encode_stream, chat.new_assembler)  # No server streams these.

RERANK = BodyCodec(_decode_rerank_request, _decode_rerank_response, _encode, *_STREAM, _wrap_results)
SCORE = BodyCodec(_decode_request, _decode_data_response, _encode, *_STREAM, _wrap_data)
POOLING = BodyCodec(_decode_request, _decode_data_response, _encode, *_STREAM, _wrap_data)
CLASSIFICATION = BodyCodec(_decode_request, _decode_data_response, _encode, *_STREAM, _wrap_data)
