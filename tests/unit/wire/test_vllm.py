"""Rerank, score, pooling and classify, as vLLM, Jina, Voyage and Text Embeddings Inference document them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.exchanges import COMPOSER, make_exchange, trace_body
from traceforge.wire.dialects import decode_request, decode_response
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import read_response

HOST = "http://gpu:8000"
RERANK = find_endpoint("POST", f"{HOST}/v1/rerank")
SCORE = find_endpoint("POST", f"{HOST}/score")
POOLING = find_endpoint("POST", f"{HOST}/pooling")
CLASSIFY = find_endpoint("POST", f"{HOST}/classify")
JSON_TYPE = "application/json"
RESULTS = [
    {"index": 1, "document": {"text": "Paris"}, "relevance_score": 0.99},
    {"index": 0, "document": {"text": "Rome"}, "relevance_score": 0.01},
]


@pytest.mark.parametrize(
    "body",
    [
        {"id": "rerank-1", "model": "m", "usage": {"prompt_tokens": 56, "total_tokens": 56}, "results": RESULTS},
        {"model": "m", "usage": {"total_tokens": 56}, "results": RESULTS},
        {"object": "list", "model": "m", "usage": {"total_tokens": 56}, "data": RESULTS},
    ],
    ids=["vllm", "jina", "voyage"],
)
def test_results_are_listed_with_the_tokens_of_the_input(body: dict[str, Any]) -> None:
    request = {"model": "m", "query": "capital?", "documents": ["Rome", "Paris"]}

    trace = trace_body(COMPOSER.compose(make_exchange(f"{HOST}/v1/rerank", request, body)))

    assert ("vllm", "rerank", RESULTS) == (
        trace["provider"], trace["response"]["object"], trace["response"]["results"],
    )  # fmt: skip
    assert (56, 0, 56) == tuple(
        trace["response"]["usage"][f"{name}_tokens"] for name in ("prompt", "completion", "total")
    )
    assert ("m", "capital?") == (trace["request"]["model"], trace["request"]["query"])
    assert "view_problems" not in trace


def test_a_server_may_answer_with_the_results_alone() -> None:
    """Text Embeddings Inference."""
    results = [{"index": 1, "score": 0.9}]

    view: Any = read_response(RERANK, 200, JSON_TYPE, json.dumps(results).encode()).unified

    assert results == view["results"]
    assert ["a"] == decode_request(RERANK, {"query": "q", "texts": ["a"]})["documents"]


@pytest.mark.parametrize(
    ("endpoint", "request_body", "items"),
    [
        (SCORE, {"text_1": "a", "text_2": ["b"]}, [{"index": 0, "object": "score", "score": 0.5}]),
        (POOLING, {"input": "a"}, [{"index": 0, "object": "pooling", "data": [[0.5]]}]),
        (CLASSIFY, {"input": "a"}, [{"index": 0, "label": "Default", "probs": [0.6, 0.4], "num_classes": 2}]),
    ],
    ids=["score", "pooling", "classify"],
)
def test_data_is_listed_with_the_tokens_of_the_input(endpoint: Any, request_body: Any, items: Any) -> None:
    usage = {"prompt_tokens": 17, "total_tokens": 17, "completion_tokens": 0, "prompt_tokens_details": None}
    body: Any = {"id": "1", "object": "list", "created": 1, "model": "m", "data": items, "usage": usage}

    unified: Any = decode_response(endpoint, body)

    assert (items, 17) == (unified["data"], unified["usage"]["prompt_tokens"])
    assert decode_request(endpoint, request_body)["input"]


@pytest.mark.parametrize("endpoint", [RERANK, SCORE, POOLING, CLASSIFY], ids=lambda endpoint: str(endpoint.kind))
@pytest.mark.parametrize("value", [None, 5, "x", [], [None], {}, {"usage": 5}])
def test_no_body_ends_in_an_exception(endpoint: Any, value: Any) -> None:
    """A field, and a list, of any type."""
    for name in ("results", "data", "usage", "text_1", "texts", "input"):
        assert isinstance(decode_response(endpoint, {name: value}), dict)
        assert isinstance(decode_request(endpoint, {name: value}), dict)
    read_response(endpoint, 200, JSON_TYPE, json.dumps([value]).encode())
