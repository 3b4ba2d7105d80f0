"""Text Generation Inference and hosted inference of Hugging Face, as their specification documents them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.corpus import need_shared
from support.corpus_traffic import find_unstable, interactions
from support.exchanges import COMPOSER, make_exchange, trace_body
from support.wire_transcripts import SSE
from traceforge.wire.dialects import decode_request, decode_response
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

HOST = "http://127.0.0.1:8080"
GENERATE = find_endpoint("POST", f"{HOST}/generate")
STREAM = find_endpoint("POST", f"{HOST}/generate_stream")
HOSTED = find_endpoint("POST", "https://router.huggingface.co/hf-inference/models/google/gemma-2-2b-it")
JSON_TYPE = "application/json"
PREFILL = [{"id": 0, "text": "What", "logprob": None}, {"id": 1, "text": " is", "logprob": -0.34}]
DETAILS = {"finish_reason": "eos_token", "generated_tokens": 2, "seed": None, "prefill": PREFILL, "tokens": []}


def token(text: str, number: int, *, special: bool = False, **last: Any) -> dict[str, Any]:
    piece = {"id": number, "text": text, "logprob": -0.1, "special": special}
    return {"index": number, "token": piece, "generated_text": None, "details": None, **last}


def events(*values: dict[str, Any]) -> bytes:
    return b"".join(f"data:{json.dumps(value)}\n\n".encode() for value in values)


END = {"finish_reason": "length", "generated_tokens": 3, "input_length": 5, "seed": 42}
TOKENS = events(
    token("Deep", 1),
    token(" learning", 2),
    token("</s>", 3, special=True, generated_text="Deep learning", details=END),
)


def test_parameters_have_their_usual_names() -> None:
    """And stay what they were."""
    parameters: Any = {"max_new_tokens": 20, "temperature": 0.5, "stop": ["\n"], "seed": None, "typical_p": 0.9}

    unified = decode_request(GENERATE, {"inputs": "What is", "parameters": parameters})

    assert ("What is", 20, 0.5, ["\n"]) == tuple(unified[n] for n in ("prompt", "max_tokens", "temperature", "stop"))
    assert parameters == unified["parameters"]
    assert "seed" not in unified


def test_a_text_has_its_reason_and_its_counts() -> None:
    """Those of the prompt where its tokens are listed."""
    answer = read_response(
        GENERATE, 200, JSON_TYPE, json.dumps({"generated_text": "Paris", "details": DETAILS}).encode()
    )

    view: Any = answer.unified
    assert ("Paris", "stop", "eos_token") == (
        view["choices"][0]["message"]["content"], view["choices"][0]["finish_reason"],
        view["choices"][0]["provider_finish_reason"],
    )  # fmt: skip
    assert (2, 2, 4) == tuple(view["usage"][f"{name}_tokens"] for name in ("prompt", "completion", "total"))
    assert [] == find_unstable(GENERATE, answer)


def test_a_stream_is_put_together_from_its_tokens() -> None:
    """Without special ones; the last event has the text, the reason and the counts."""
    answer = read_response(STREAM, 200, SSE, TOKENS)

    view: Any = answer.unified
    assert (ResponseEnding.COMPLETE, "Deep learning", "length") == (
        answer.ending, view["choices"][0]["message"]["content"], view["choices"][0]["finish_reason"],
    )  # fmt: skip
    assert (5, 3) == (view["usage"]["prompt_tokens"], view["usage"]["completion_tokens"])
    assert [] == find_unstable(STREAM, answer)


def test_a_stream_that_stops_early_is_cut() -> None:
    answer = read_response(STREAM, 200, SSE, TOKENS[: TOKENS.index(b"data:", 90)])

    assert ResponseEnding.CUT is answer.ending
    assert answer.unified is not None
    assert "Deep" == answer.unified["choices"][0]["message"]["content"]  # type: ignore[index,call-overload]  # JSON


def test_an_error_inside_a_stream_is_an_error() -> None:
    stream = events(token("Deep", 1), {"error": "Input validation error", "error_type": "validation"})

    answer = read_response(STREAM, 200, SSE, stream)

    assert (ResponseEnding.ERROR, "Input validation error") == (answer.ending, (answer.error or {})["message"])


def test_hosted_inference_answers_with_a_list() -> None:
    """With the model of its address; more than one text stay beside the first."""
    texts = [{"generated_text": "Paris"}, {"generated_text": "Lyon"}]

    answer = read_response(HOSTED, 200, JSON_TYPE, json.dumps(texts).encode())

    view: Any = answer.unified
    assert ("google/gemma-2-2b-it", ResponseEnding.COMPLETE) == (HOSTED.model, answer.ending)
    assert ("Paris", texts[1:]) == (view["choices"][0]["message"]["content"], view["others"])


@pytest.mark.parametrize("body", [[0.5, 1], [[0.5, 1]]])
def test_a_vector_of_hosted_inference_is_an_embedding(body: Any) -> None:
    view: Any = read_response(HOSTED, 200, JSON_TYPE, json.dumps(body).encode()).unified

    assert [[0.5, 1]] == [item["embedding"] for item in view["data"]]


@pytest.mark.parametrize(
    ("media_type", "body"),
    [(JSON_TYPE, b'{"text": "a picture"}'), (SSE, b'data: {"step": 1}\n\ndata: {"step": 2}\n\n'), (JSON_TYPE, b"[]")],
)
def test_another_server_with_such_a_path_is_not_misread(media_type: str, body: bytes) -> None:
    """It has no choices that it did not send, and its stream counts as complete."""
    answer = read_response(GENERATE, 200, media_type, body)

    assert ResponseEnding.COMPLETE is answer.ending
    assert "choices" not in (answer.unified or {})


def test_a_trace_names_the_dialect() -> None:
    exchange = make_exchange(f"{HOST}/generate", {"inputs": "Q"}, {"generated_text": "A", "details": DETAILS})

    body = trace_body(COMPOSER.compose(exchange))

    assert ("tgi", "Q", 4) == (body["provider"], body["request"]["prompt"], body["metadata"]["tokens_used"])
    assert "view_problems" not in body


@pytest.mark.parametrize("value", [None, 5, "x", [], [None], {}, {"text": 5}, [{"generated_text": 5}]])
def test_no_body_ends_in_an_exception(value: Any) -> None:
    """A field, and a list, of any type."""
    for name in ("generated_text", "details", "inputs", "parameters", "embeddings", "token", "error"):
        assert isinstance(decode_response(GENERATE, {name: value}), dict)
        assert isinstance(decode_request(GENERATE, {name: value}), dict)
        read_response(STREAM, 200, SSE, events({name: value}))
    read_response(HOSTED, 200, JSON_TYPE, json.dumps([value]).encode())


def test_recorded_vectors_are_understood() -> None:
    """Of real traffic."""
    calls = [call for call in interactions(need_shared("corpus/llm")) if call.endpoint.dialect == "tgi"]

    for call in calls:
        view: Any = call.read().unified
        assert json.loads(call.body) == view["data"][0]["embedding"], call.name
    assert calls
