"""Cohere: chat of both versions, embed and rerank, as its API documents them."""

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
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, read_response

HOST = "https://api.cohere.com"
CHAT = find_endpoint("POST", f"{HOST}/v2/chat")
V1_CHAT = find_endpoint("POST", f"{HOST}/v1/chat")
V1_GENERATE = find_endpoint("POST", f"{HOST}/v1/generate")
EMBED = find_endpoint("POST", f"{HOST}/v2/embed")
RERANK = find_endpoint("POST", f"{HOST}/v2/rerank")
CALL = {"id": "look_1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Paris"}'}}
USAGE = {"billed_units": {"input_tokens": 2, "output_tokens": 3}, "tokens": {"input_tokens": 60, "output_tokens": 4}}


def events(*values: dict[str, Any]) -> bytes:
    return b"".join(f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode() for value in values)


def message_event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}


STREAM = events(
    {**message_event("message-start", role="assistant", content=[], tool_plan="", tool_calls=[], citations=[]),
     "id": "c1"},
    message_event("tool-plan-delta", tool_plan="I will "),
    message_event("tool-plan-delta", tool_plan="look."),
    message_event("content-start", 0, content={"type": "thinking", "thinking": ""}),
    message_event("content-delta", 0, content={"thinking": "Hm."}),
    {"type": "content-end", "index": 0},
    message_event("content-start", 1, content={"type": "text", "text": ""}),
    message_event("content-delta", 1, content={"text": "Par"}),
    message_event("content-delta", 1, content={"text": "is"}),
    message_event("citation-start", 0, citations={"start": 0, "end": 5, "text": "Paris"}),
    message_event("tool-call-start", 0, tool_calls={**CALL, "function": {"name": "look", "arguments": ""}}),
    message_event("tool-call-delta", 0, tool_calls={"function": {"arguments": '{"city":'}}),
    message_event("tool-call-delta", 0, tool_calls={"function": {"arguments": '"Paris"}'}}),
    {"type": "tool-call-end", "index": 0},
    {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": USAGE}},
)  # fmt: skip


def view_of(answer: ParsedResponse) -> dict[str, Any]:
    assert answer.unified is not None
    return dict(answer.unified)


def test_a_stream_is_put_together() -> None:
    """Texts, thoughts, plan, citations, calls and counts."""
    answer = read_response(CHAT, 200, SSE, STREAM)

    view = view_of(answer)
    (choice,) = view["choices"]
    assert ResponseEnding.COMPLETE is answer.ending
    assert not answer.unknown_events
    assert ("Paris", "Hm.", [CALL]) == tuple(choice["message"][n] for n in ("content", "reasoning", "tool_calls"))
    assert ("tool_calls", "TOOL_CALL") == (choice["finish_reason"], choice["provider_finish_reason"])
    assert "I will look." == choice["message"]["parts"]["tool_plan"]
    assert [{"start": 0, "end": 5, "text": "Paris"}] == choice["message"]["parts"]["citations"]
    assert [60, 4, 64] == [view["usage"][f"{name}_tokens"] for name in ("prompt", "completion", "total")]
    assert USAGE == view["usage"]["provider"]
    assert [] == find_unstable(CHAT, answer)


def test_a_stream_that_stops_early_is_cut() -> None:
    answer = read_response(CHAT, 200, SSE, STREAM[: STREAM.index(b"event: message-end")])

    assert ResponseEnding.CUT is answer.ending
    assert "Paris" == view_of(answer)["choices"][0]["message"]["content"]


def test_the_first_version_has_a_message_and_a_history() -> None:
    """They become messages, in order."""
    body: dict[str, Any] = {
        "model": "command-r", "preamble": "Be brief.", "message": "And now?", "p": 0.5, "stop_sequences": ["x"],
        "chat_history": [{"role": "USER", "message": "Hi"}, {"role": "CHATBOT", "message": "Hello"}],
    }  # fmt: skip

    unified = decode_request(V1_CHAT, body)

    assert [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello"), ("user", "And now?")] == [
        (message["role"], message["content"])  # type: ignore[index,call-overload]  # JSON
        for message in unified["messages"]  # type: ignore[union-attr]
    ]
    assert (0.5, ["x"]) == (unified["top_p"], unified["stop"])


@pytest.mark.parametrize("media_type", ["application/stream+json", "application/json"])
def test_lines_of_the_first_version_are_a_stream(media_type: str) -> None:
    """Whatever their label."""
    lines = [
        {"event_type": "stream-start", "generation_id": "g"},
        {"event_type": "text-generation", "text": "Hel"},
        {"event_type": "text-generation", "text": "lo"},
        {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": {"response_id": "r", "text": "Hello"}},
    ]
    body = b"".join(json.dumps({"is_finished": False, **line}).encode() + b"\n" for line in lines)

    whole, cut = (read_response(V1_CHAT, 200, media_type, data) for data in (body, body[: body.index(b"stream-end")]))

    assert ("Hello", "stop", "r") == (
        view_of(whole)["choices"][0]["message"]["content"], view_of(whole)["choices"][0]["finish_reason"],
        view_of(whole)["id"],
    )  # fmt: skip
    assert (ResponseEnding.COMPLETE, ResponseEnding.CUT) == (whole.ending, cut.ending)
    assert [] == find_unstable(V1_CHAT, whole)


def test_generations_of_the_first_version_are_choices() -> None:
    """Whole, as lines, and as far as lines came."""
    response = {
        "id": "g", "prompt": "Q", "generations": [{"id": "1", "text": "Pluto", "finish_reason": "MAX_TOKENS"}],
        "meta": {"billed_units": {"input_tokens": 7, "output_tokens": 2}},
    }  # fmt: skip
    lines: list[dict[str, Any]] = [
        {"event_type": "text-generation", "is_finished": False, "text": text} for text in ("Plu", "to")
    ]
    end = {"event_type": "stream-end", "is_finished": True, "finish_reason": "MAX_TOKENS", "response": response}
    stream = b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, end])

    whole = read_response(V1_GENERATE, 200, "application/json", json.dumps(response).encode())
    streamed, cut = (
        read_response(V1_GENERATE, 200, "application/stream+json", data)
        for data in (stream, stream[: stream.index(b"stream-end")])
    )

    for answer in (whole, streamed):
        (choice,) = view_of(answer)["choices"]
        assert ("Pluto", "length", "1") == (choice["text"], choice["finish_reason"], choice["id"])
        assert (ResponseEnding.COMPLETE, 9) == (answer.ending, view_of(answer)["usage"]["total_tokens"])
        assert [] == find_unstable(V1_GENERATE, answer)
    assert (ResponseEnding.CUT, "Pluto") == (cut.ending, view_of(cut)["choices"][0]["text"])


@pytest.mark.parametrize(
    ("embeddings", "vectors"),
    [
        ([[0.5], [1]], [[0.5], [1]]),
        ({"float": [[0.5]]}, [[0.5]]),
        ({"int8": [[1]], "float": [[0.5]]}, [[1]]),
        (5, []),
    ],
)
def test_vectors_are_listed_as_data(embeddings: Any, vectors: list[Any]) -> None:
    """Of several types of numbers, those of the first; all of them are kept."""
    meta = {"billed_units": {"input_tokens": 7}}

    unified = decode_response(EMBED, {"id": "e", "embeddings": embeddings, "meta": meta})

    assert vectors == [item["embedding"] for item in unified["data"]]  # type: ignore[index,call-overload,union-attr]
    assert (7, 0) == tuple(unified["usage"][f"{n}_tokens"] for n in ("prompt", "completion"))  # type: ignore[index,call-overload]
    assert (isinstance(embeddings, dict) and len(embeddings) > 1) == ("embeddings" in unified)


def test_the_results_of_a_rerank_are_in_its_trace() -> None:
    """With the name of the dialect, and the query that was asked."""
    results = [{"index": 1, "relevance_score": 0.9}]
    request = {"model": "rerank-v3.5", "query": "who?", "documents": ["a", "b"]}

    body = trace_body(COMPOSER.compose(make_exchange(f"{HOST}/v2/rerank", request, {"id": "r", "results": results})))

    assert ("cohere", "rerank", results) == (
        body["provider"],
        body["response"]["object"],
        body["response"]["results"],
    )
    assert ("rerank-v3.5", "who?") == (body["request"]["model"], body["request"]["query"])
    assert "view_problems" not in body


@pytest.mark.parametrize(
    "endpoint", [CHAT, V1_CHAT, V1_GENERATE, EMBED, RERANK], ids=lambda endpoint: str(endpoint.kind)
)
@pytest.mark.parametrize("value", [None, 5, "x", [], [None], {}, {"content": 5, "tool_calls": [1]}])
def test_no_body_ends_in_an_exception(endpoint: Any, value: Any) -> None:
    """A field of any type."""
    names = (
        "message",
        "finish_reason",
        "usage",
        "meta",
        "embeddings",
        "tool_calls",
        "chat_history",
        "results",
        "generations",
        "text",
    )
    for name in names:
        assert isinstance(decode_response(endpoint, {name: value}), dict)
        assert isinstance(decode_request(endpoint, {name: value}), dict)
        read_response(endpoint, 200, SSE, events({"type": "content-delta", "delta": {"message": {name: value}}}))


def test_every_recorded_call_is_understood() -> None:
    """Of real traffic: an answer, and its encoding reads back as itself."""
    calls = [call for call in interactions(need_shared("corpus/llm")) if call.endpoint.dialect == "cohere"]
    answered = [call for call in calls if call.status < 400]

    for call in answered:
        answer = call.read()
        view = view_of(answer)
        assert ResponseEnding.COMPLETE is answer.ending, call.name
        assert not answer.unknown_events, call.name
        assert view.get("choices") or view.get("data") or view.get("results"), call.name
        if "choices" in view:
            assert view["choices"][0]["finish_reason"] in ("stop", "length", "tool_calls", None), call.name
            assert [] == find_unstable(call.endpoint, answer), call.name
    assert len(answered) > 100
