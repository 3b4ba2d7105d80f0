"""The server of llama.cpp, as its README and its source document it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.corpus_traffic import find_unstable
from support.wire_transcripts import SSE
from traceforge.wire.dialects import decode_request, decode_response
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

HOST = "http://gpu:8080"
COMPLETION = find_endpoint("POST", f"{HOST}/completion")
INFILL = find_endpoint("POST", f"{HOST}/infill")
EMBEDDING = find_endpoint("POST", f"{HOST}/embedding")
JSON_TYPE = "application/json"
TIMINGS = {"cache_n": 3, "prompt_n": 2, "prompt_ms": 54.9, "predicted_n": 51, "predicted_ms": 2310.6}
END = {
    "index": 0, "content": "", "tokens": [], "id_slot": 0, "stop": True, "model": "gemma-3", "tokens_predicted": 51,
    "tokens_evaluated": 5, "generation_settings": {"n_predict": 64}, "prompt": "who are you?", "has_new_line": False,
    "truncated": False, "stop_type": "limit", "stopping_word": "", "tokens_cached": 55, "timings": TIMINGS,
}  # fmt: skip


def events(*values: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in values)


def piece(text: str, number: int) -> dict[str, Any]:
    return {"index": 0, "content": text, "tokens": [number], "stop": False, "id_slot": -1, "tokens_predicted": number,
            "tokens_evaluated": 5}  # fmt: skip


def test_a_completion_has_its_reason_and_its_counts() -> None:
    """With the tokens that came from the cache."""
    answer = read_response(COMPLETION, 200, JSON_TYPE, json.dumps({**END, "content": "I am Gemma"}).encode())

    view: Any = answer.unified
    (choice,) = view["choices"]
    assert ("I am Gemma", "length", "limit", "gemma-3") == (
        choice["message"]["content"], choice["finish_reason"], choice["provider_finish_reason"], view["model"],
    )  # fmt: skip
    assert (5, 51, 56) == tuple(view["usage"][f"{name}_tokens"] for name in ("prompt", "completion", "total"))
    assert 3 == view["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert [] == find_unstable(COMPLETION, answer)


@pytest.mark.parametrize(
    ("flag", "reason"), [("stopped_eos", "stop"), ("stopped_word", "stop"), ("stopped_limit", "length")]
)
def test_an_older_server_has_a_flag_for_each_reason(flag: str, reason: str) -> None:
    unified: Any = decode_response(COMPLETION, {"content": "x", "stopped_eos": False, flag: True})

    assert reason == unified["choices"][0]["finish_reason"]


def test_a_stream_is_put_together() -> None:
    """Each event has a piece, and the last one everything else; a comment keeps the connection open."""
    answer = read_response(
        COMPLETION, 200, SSE, events(piece("I am", 1)) + b": ping\n\n" + events(piece(" Gemma", 2), END)
    )

    view: Any = answer.unified
    assert (ResponseEnding.COMPLETE, "I am Gemma") == (answer.ending, view["choices"][0]["message"]["content"])
    assert [1, 2] == view["tokens"]
    assert [] == find_unstable(COMPLETION, answer)


def test_a_stream_that_stops_early_is_cut() -> None:
    answer = read_response(COMPLETION, 200, SSE, events(piece("I am", 1)))

    assert ResponseEnding.CUT is answer.ending


def test_a_request_to_fill_in_has_a_prompt_and_a_suffix() -> None:
    body: Any = {"input_prefix": "def f(", "input_suffix": "return a", "input_extra": [], "n_predict": 8}

    unified = decode_request(INFILL, body)

    assert ("def f(", "return a", 8) == (unified["prompt"], unified["suffix"], unified["max_tokens"])


@pytest.mark.parametrize(
    "body", [[{"index": 0, "embedding": [[0.5, 1]]}], [{"index": 0, "embedding": [0.5, 1]}], {"embedding": [0.5, 1]}]
)
def test_vectors_are_listed_as_data(body: Any) -> None:
    """Of every version: a list of lists, a list, an object."""
    view: Any = read_response(EMBEDDING, 200, JSON_TYPE, json.dumps(body).encode()).unified

    assert [[0.5, 1]] == [item["embedding"] for item in view["data"]]
    assert "a" == decode_request(EMBEDDING, {"content": "a"})["input"]


def test_another_server_with_such_a_path_is_not_misread() -> None:
    """It has no choices that it did not send, and its stream counts as complete."""
    for media_type, body in ((JSON_TYPE, b'{"done": true}'), (SSE, b'data: {"step": 1}\n\n')):
        answer = read_response(COMPLETION, 200, media_type, body)
        assert ResponseEnding.COMPLETE is answer.ending
        assert "choices" not in (answer.unified or {})


@pytest.mark.parametrize("endpoint", [COMPLETION, INFILL, EMBEDDING], ids=lambda endpoint: str(endpoint.kind))
@pytest.mark.parametrize("value", [None, 5, "x", [], [None], {}, {"content": 5}, [[1]]])
def test_no_body_ends_in_an_exception(endpoint: Any, value: Any) -> None:
    """A field, and a list, of any type."""
    for name in ("content", "timings", "stop_type", "embedding", "items", "prompt", "index", "tokens", "error"):
        assert isinstance(decode_response(endpoint, {name: value}), dict)
        assert isinstance(decode_request(endpoint, {name: value}), dict)
        read_response(endpoint, 200, SSE, events({"content": "x"}, {"content": "y", name: value}))
    read_response(endpoint, 200, JSON_TYPE, json.dumps([value]).encode())
