"""Bedrock's InvokeModel: the bodies of each family, as their documentation has them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from support.bedrock_frames import chunk, exception
from traceforge.wire.binary_frames import FRAMES_TYPE
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

# The name of a profile does not say whose the model is.
INVOKE = find_endpoint("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/p1/invoke")
EMBED = find_endpoint("POST", "https://bedrock-runtime.us-east-1.amazonaws.com/model/x.embed/invoke")
METRICS = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 4, "outputTokenCount": 2, "invocationLatency": 7}}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Hello"}}

ANSWERS: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello"}],
                  "stop_reason": "end_turn", "usage": {"input_tokens": 4, "output_tokens": 2}},
    "nova": {"output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}}, "stopReason": "end_turn",
             "usage": {"inputTokens": 4, "outputTokens": 2, "totalTokens": 6}},
    "titan": {"inputTextTokenCount": 4,
              "results": [{"tokenCount": 2, "outputText": "Hello", "completionReason": "FINISH"}]},
    "llama": {"generation": "Hello", "prompt_token_count": 4, "generation_token_count": 2, "stop_reason": "stop"},
    "mistral": {"outputs": [{"text": "Hello", "stop_reason": "stop"}]},
    "mistral chat": {"choices": [{**CHOICE, "stop_reason": "stop"}]},
    "cohere": {"response_id": "r", "text": "Hello", "chat_history": [], "finish_reason": "COMPLETE"},
    "cohere command": {"id": "c", "generations": [{"text": "Hello", "finish_reason": "COMPLETE"}]},
    "jamba": {"id": "j", "choices": [{**CHOICE, "finish_reason": "stop"}],
              "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}},
    "deepseek": {"choices": [{"text": "Hello", "stop_reason": "stop"}]},
}  # fmt: skip

STREAMS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
                                              "usage": {"input_tokens": 4, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop", **METRICS},
    ],
    "nova": [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hel"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "lo"}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": {"inputTokens": 4, "outputTokens": 2}}, **METRICS},
    ],
    "titan": [
        {"outputText": "Hel", "index": 0, "totalOutputTextTokenCount": None, "completionReason": None,
         "inputTextTokenCount": 4},
        {"outputText": "lo", "index": 0, "totalOutputTextTokenCount": 2, "completionReason": "FINISH",
         "inputTextTokenCount": None, **METRICS},
    ],
    "llama": [
        {"generation": "Hel", "prompt_token_count": 4, "generation_token_count": 1, "stop_reason": None},
        {"generation": "lo", "prompt_token_count": None, "generation_token_count": 2, "stop_reason": "stop",
         **METRICS},
    ],
    "mistral": [
        {"outputs": [{"text": "Hel", "stop_reason": None}]},
        {"outputs": [{"text": "lo", "stop_reason": "stop"}], **METRICS},
    ],
    "cohere": [
        {"event_type": "text-generation", "text": "Hel", "is_finished": False},
        {"event_type": "text-generation", "text": "lo", "is_finished": False},
        {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE",
         "response": {"response_id": "r", "text": "Hello"},
         **METRICS},
    ],
    "cohere command": [
        {"index": 0, "is_finished": False, "text": "Hel"}, {"index": 0, "is_finished": False, "text": "lo"},
        {"index": 0, "is_finished": True, "finish_reason": "COMPLETE", **METRICS},
    ],
    "jamba": [
        {"id": "j", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
        {"id": "j", "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}], **METRICS},
    ],
    "deepseek": [
        {"choices": [{"index": 0, "text": "Hel", "stop_reason": None}]},
        {"choices": [{"index": 0, "text": "lo", "stop_reason": "stop"}], **METRICS},
    ],
}  # fmt: skip


def read_choice(answer: Any) -> tuple[str, str]:
    (choice,) = answer.unified["choices"]
    return choice["message"]["content"] if "message" in choice else choice["text"], choice["finish_reason"]


@pytest.mark.parametrize("family", sorted(ANSWERS))
def test_an_answer_of_each_family_has_a_text_and_an_end(family: str) -> None:
    answer = read_response(INVOKE, 200, "application/json", json.dumps(ANSWERS[family]).encode())

    assert (ResponseEnding.COMPLETE, ("Hello", "stop")) == (answer.ending, read_choice(answer))


@pytest.mark.parametrize("family", sorted(STREAMS))
def test_a_stream_of_each_family_is_put_together(family: str) -> None:
    body = b"".join(chunk(event) for event in STREAMS[family])

    answer = read_response(INVOKE, 200, FRAMES_TYPE, body)

    assert (ResponseEnding.COMPLETE, ("Hello", "stop"), {}) == (
        answer.ending, read_choice(answer), dict(answer.unknown_events),
    )  # fmt: skip
    assert answer.unified is not None
    usage: Any = answer.unified["usage"]
    assert (4, 2) == (usage["prompt_tokens"], usage["completion_tokens"])


@pytest.mark.parametrize("family", sorted(STREAMS))
def test_a_stream_without_its_last_event_is_cut(family: str) -> None:
    body = b"".join(chunk(event) for event in STREAMS[family][:-2] or STREAMS[family][:1])

    assert ResponseEnding.CUT is read_response(INVOKE, 200, FRAMES_TYPE, body).ending


def test_an_exception_inside_a_stream_is_an_error() -> None:
    body = chunk(STREAMS["llama"][0]) + exception("modelStreamErrorException", "Oops")

    answer = read_response(INVOKE, 200, FRAMES_TYPE, body)

    assert (ResponseEnding.ERROR, "Oops") == (answer.ending, (answer.error or {})["message"])


@pytest.mark.parametrize(
    ("body", "vectors"),
    [
        ({"embedding": [1, 2], "inputTextTokenCount": 3}, [[1, 2]]),
        ({"embeddingsByType": {"binary": [0, 1], "float": [1, 2]}, "inputTextTokenCount": 3}, [[0, 1]]),
        ({"embeddings": [{"embeddingType": "TEXT", "embedding": [1, 2]}]}, [[1, 2]]),
        ({"id": "e", "embeddings": [[1, 2], [3, 4]], "texts": ["a", "b"]}, [[1, 2], [3, 4]]),
        ({"id": "e", "embeddings": {"float": [[1, 2]]}}, [[1, 2]]),
    ],
)
def test_embeddings_are_a_list_of_vectors(body: dict[str, Any], vectors: list[list[int]]) -> None:
    answer = read_response(EMBED, 200, "application/json", json.dumps(body).encode())

    assert answer.unified is not None
    data: Any = answer.unified["data"]
    assert vectors == [item["embedding"] for item in data]


def test_an_image_is_kept_as_it_came() -> None:
    body = {"seeds": [1], "finish_reasons": [None], "images": ["aGVsbG8="]}

    answer = read_response(INVOKE, 200, "application/json", json.dumps(body).encode())

    assert (ResponseEnding.COMPLETE, {"object": "other", **body}) == (answer.ending, answer.unified)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "system": "S", "messages": []},
         {"max_tokens": 9, "messages": [{"role": "system", "content": "S"}]}),
        ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}], "inferenceConfig": {"maxTokens": 9}},
         {"max_tokens": 9, "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}),
        ({"inputText": "Hi", "textGenerationConfig": {"maxTokenCount": 9}}, {"prompt": "Hi", "max_tokens": 9}),
        ({"inputText": "Hi"}, {"input": "Hi"}),
        ({"prompt": "Hi", "max_gen_len": 9}, {"prompt": "Hi", "max_tokens": 9}),
        ({"texts": ["Hi"], "input_type": "search_query"}, {"input": ["Hi"]}),
        ({"message": "Hi"}, {"messages": [{"role": "user", "content": "Hi"}]}),
        ({"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 9}, {"max_tokens": 9}),
    ],
)  # fmt: skip
def test_a_request_of_each_family_is_read(body: dict[str, Any], expected: dict[str, Any]) -> None:
    unified = decode_request(INVOKE, body)

    assert expected == {name: unified[name] for name in expected}
    assert "p1" == unified["model"]


@pytest.mark.parametrize("value", [None, 1, "x", [], [None, 3], {}, {"a": 1}])
@pytest.mark.parametrize("member", ["choices", "results", "outputs", "generation", "embeddings", "output", "content"])
def test_a_member_of_another_form_is_no_exception(member: str, value: Any) -> None:
    body = {member: value, "type": "message"} if member == "content" else {member: value}

    read_response(INVOKE, 200, "application/json", json.dumps(body).encode())
    read_response(INVOKE, 200, FRAMES_TYPE, chunk(body) + chunk({"bytes": value}))
    decode_request(INVOKE, {"messages": value, "textGenerationConfig": value, "inputText": "x"})


def test_a_family_that_is_not_used_is_not_imported() -> None:
    code = (
        "import json, sys; from traceforge.wire.endpoints import find_endpoint;"
        "from traceforge.wire.response_reader import read_response;"
        "e = find_endpoint('POST', 'http://h/model/m/invoke');"
        "read_response(e, 200, 'application/json', json.dumps({'generation': 'x'}).encode());"
        "print([m for m in sys.modules if m.startswith('traceforge.wire.')"
        " and m.rpartition('.')[2] in ('anthropic', 'cohere', 'chat', 'gemini')])"
    )

    assert "[]\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
