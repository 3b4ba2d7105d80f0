"""Bedrock: Converse and its stream, as the API documents them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.bedrock_frames import USAGE, converse_events, event, exception
from support.corpus_traffic import find_unstable
from traceforge.wire.binary_frames import FRAMES_TYPE
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import Endpoint, EndpointKind, find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

HOST = "https://bedrock-runtime.us-east-1.amazonaws.com"
MODEL = "anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
CONVERSE = find_endpoint("POST", f"{HOST}/model/{MODEL}/converse")
STREAM = find_endpoint("POST", f"{HOST}/model/{MODEL}/converse-stream")
TOOL_USE = {"toolUseId": "tooluse_1", "name": "weather", "input": {"city": "Paris"}}


def answer_of(*content: dict[str, Any], reason: str = "end_turn") -> bytes:
    output = {"message": {"role": "assistant", "content": list(content)}}
    return json.dumps({"output": output, "stopReason": reason, "usage": USAGE, "metrics": {"latencyMs": 1}}).encode()


@pytest.mark.parametrize(
    ("path", "kind", "model"),
    [
        (f"/model/{MODEL}/converse", EndpointKind.CHAT, MODEL),
        (f"/model/{MODEL.replace(':', '%3A')}/converse-stream", EndpointKind.CHAT, MODEL),
        ("/model/us.amazon.nova-pro-v1%3A0/invoke", EndpointKind.GENERATE, "us.amazon.nova-pro-v1:0"),
        (f"/model/{PROFILE.replace('/', '%2F')}/converse", EndpointKind.CHAT, PROFILE),
        (f"/model/{PROFILE}/invoke-with-response-stream", EndpointKind.GENERATE, PROFILE),
        ("/model/amazon.titan-embed-text-v2:0/invoke", EndpointKind.EMBEDDINGS, "amazon.titan-embed-text-v2:0"),
        ("/model/cohere.rerank-v3-5:0/invoke", EndpointKind.RERANK, "cohere.rerank-v3-5:0"),
    ],
)
def test_a_model_is_named_by_its_id_or_by_an_arn(path: str, kind: EndpointKind, model: str) -> None:
    assert Endpoint("bedrock", kind, model) == find_endpoint("POST", HOST + path)


@pytest.mark.parametrize(
    "path", ["/model/m/count-tokens", "/model/m/async-invoke", "/a/b/model/m/converse", "/converse"]
)
def test_other_paths_are_no_endpoint_of_a_model(path: str) -> None:
    assert EndpointKind.OTHER is find_endpoint("POST", HOST + path).kind


def test_a_request_has_its_messages_tools_and_parameters() -> None:
    body: dict[str, Any] = {
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Weather?"}]},
            {"role": "assistant", "content": [{"text": "I look."}, {"toolUse": TOOL_USE}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "Sun"}]}}]},
        ],
        "inferenceConfig": {"maxTokens": 9, "temperature": 0, "topP": 1, "stopSequences": ["x"]},
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": {"type": "object"}}}}],
            "toolChoice": {"tool": {"name": "weather"}},
        },
        "guardrailConfig": {"guardrailIdentifier": "g1", "guardrailVersion": "1"},
    }

    unified = decode_request(CONVERSE, body)

    assert (9, 0, 1, ["x"]) == tuple(unified[name] for name in ("max_tokens", "temperature", "top_p", "stop"))
    assert body["guardrailConfig"] == unified["guardrailConfig"]
    assert MODEL == unified["model"]
    assert [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}] == unified[
        "tools"
    ]
    roles = [message["role"] for message in unified["messages"]]  # type: ignore[index, union-attr, call-overload]
    assert ["system", "user", "assistant", "tool"] == roles


@pytest.mark.parametrize(
    "content",
    [
        [{"text": "Hello"}],
        [{"toolUse": TOOL_USE}],
        [{"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}, {"text": "Hello"}],
        [{"text": "Hello"}, {"toolUse": TOOL_USE}, {"text": " again"}],
        [{"reasoningContent": {"redactedContent": "cmVk"}}, {"text": "Hello"}],
        [{"futureContent": {"a": 1}}],
        [],
    ],
)
def test_an_answer_keeps_its_blocks(content: list[dict[str, Any]]) -> None:
    answer = read_response(CONVERSE, 200, "application/json", answer_of(*content))

    assert ResponseEnding.COMPLETE is answer.ending
    assert [] == find_unstable(CONVERSE, answer)


def test_usage_counts_what_a_cache_gave() -> None:
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 15, "cacheReadInputTokens": 10}
    body = json.dumps({"output": {"message": {"role": "assistant", "content": []}}, "usage": usage}).encode()

    answer = read_response(CONVERSE, 200, "application/json", body)

    assert answer.unified is not None
    counts: Any = answer.unified["usage"]
    assert (13, 2, 15) == tuple(counts[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens"))


def test_a_stream_is_put_together() -> None:
    body = b"".join(converse_events("Hel", "lo"))

    answer = read_response(STREAM, 200, FRAMES_TYPE, body)

    assert (ResponseEnding.COMPLETE, True, 0, {}) == (
        answer.ending, answer.streamed, answer.broken_events, dict(answer.unknown_events),
    )  # fmt: skip
    assert (
        answer.unified
        == read_response(
            CONVERSE,
            200,
            "application/json",
            answer_of({"text": "Hello"}).replace(b'"latencyMs": 1', b'"latencyMs": 12'),
        ).unified
    )
    assert [] == find_unstable(STREAM, answer)


def test_thoughts_and_tools_of_a_stream_are_put_together() -> None:
    def delta(index: int, value: dict[str, Any]) -> bytes:
        return event("contentBlockDelta", {"contentBlockIndex": index, "delta": value})

    start = {"toolUse": {"toolUseId": "tooluse_1", "name": "weather"}}
    body = b"".join(
        [
            event("messageStart", {"role": "assistant"}),
            delta(0, {"reasoningContent": {"text": "H"}}),
            delta(0, {"reasoningContent": {"text": "m."}}),
            delta(0, {"reasoningContent": {"signature": "c2ln"}}),
            event("contentBlockStart", {"contentBlockIndex": 1, "start": start}),
            delta(1, {"toolUse": {"input": '{"city":'}}),
            delta(1, {"toolUse": {"input": '"Paris"}'}}),
            event("messageStop", {"stopReason": "tool_use"}),
        ]
    )

    answer = read_response(STREAM, 200, FRAMES_TYPE, body)

    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    message = {"role": "assistant", "content": [thought, {"toolUse": TOOL_USE}]}
    assert {"output": {"message": message}, "stopReason": "tool_use"} == answer.body
    assert [] == find_unstable(STREAM, answer)


def test_an_exception_inside_a_stream_is_an_error_and_keeps_what_came() -> None:
    body = b"".join(converse_events("Hel")[:2]) + exception("throttlingException", "Slow down")

    answer = read_response(STREAM, 200, FRAMES_TYPE, body)

    assert ResponseEnding.ERROR is answer.ending
    assert {"message": "Slow down", "type": "throttlingException"} == answer.error
    assert answer.unified is not None
    assert "Hel" == answer.unified["choices"][0]["message"]["content"]  # type: ignore[index, call-overload]


@pytest.mark.parametrize("damage", [lambda b: b[:-5], lambda b: b[:200] + b"\xff" + b[201:], lambda b: b[:60]])
def test_a_stream_that_is_cut_or_damaged_is_not_complete(damage: Any) -> None:
    """What the client cannot read is not shown as an answer, and counted."""
    body = damage(b"".join(converse_events("Hel", "lo")[:3]))

    answer = read_response(STREAM, 200, FRAMES_TYPE, body)

    assert (ResponseEnding.CUT, 1) == (answer.ending, answer.broken_events)


@pytest.mark.parametrize("content", [None, 1, "x", [1, None, {"toolUse": 3}, {"toolResult": []}], {"a": 1}])
def test_a_body_of_another_form_is_no_exception(content: Any) -> None:
    request = {"messages": [{"role": "user", "content": content}, 3], "toolConfig": content, "inferenceConfig": 5}
    body = json.dumps({"output": {"message": {"content": content}}, "stopReason": content, "usage": content}).encode()

    decode_request(CONVERSE, request)  # type: ignore[arg-type]  # JSON

    assert read_response(CONVERSE, 200, "application/json", body).unified is not None
