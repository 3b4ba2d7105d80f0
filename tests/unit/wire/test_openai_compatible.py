"""What providers add to OpenAI's chat: OpenRouter, Groq, DeepSeek, xAI and vLLM, as their APIs document it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.corpus import need_shared
from support.corpus_traffic import find_unstable, interactions
from support.wire_transcripts import SSE
from traceforge.wire.dialects import decode_request, decode_response
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding, read_response

CHAT = find_endpoint("POST", "https://openrouter.ai/api/v1/chat/completions")
HOSTS = ("openrouter.ai", "api.groq.com", "api.deepseek.com", "api.x.ai", "router.huggingface.co")


def chunk(delta: dict[str, Any], **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more.pop("choice", {})}
    event = {
        "id": "gen-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }
    return f"data: {json.dumps(event)}\n\n".encode()


def completion(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], **more}


def choice_of(answer: ParsedResponse) -> Any:
    assert answer.unified is not None
    return answer.unified["choices"][0]  # type: ignore[index,call-overload]  # JSON


USAGE = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
DONE = b"data: [DONE]\n\n"
DETAIL = {"type": "reasoning.text", "text": "", "format": "anthropic-claude-v1", "index": 0}


def test_a_stream_of_openrouter_has_its_reasoning_its_provider_and_both_reasons() -> None:
    """Comments keep the connection open; details come in pieces."""
    stream = b": OPENROUTER PROCESSING\n\n".join(
        [
            b"",
            chunk({"role": "assistant", "reasoning": "Let", "reasoning_details": [{**DETAIL, "text": "Let"}]}),
            chunk({"content": "", "reasoning": " me", "reasoning_details": [{**DETAIL, "text": " me"}]}),
            chunk({"content": "Paris"}, provider="Anthropic"),
            chunk({"content": ""}, choice={"finish_reason": "stop", "native_finish_reason": "end_turn"}),
            chunk({"content": ""}, usage={**USAGE, "cost": 0.1}),
        ]
    )  # fmt: skip

    answer = read_response(CHAT, 200, SSE, stream + DONE)

    choice = choice_of(answer)
    assert (ResponseEnding.COMPLETE, "Paris", "Let me") == (
        answer.ending, choice["message"]["content"], choice["message"]["reasoning"],
    )  # fmt: skip
    assert [{**DETAIL, "text": "Let me"}] == choice["message"]["reasoning_details"]
    assert ("stop", "end_turn") == (choice["finish_reason"], choice["provider_finish_reason"])
    assert ("Anthropic", 0.1) == ((answer.unified or {})["provider"], (answer.body or {})["usage"]["cost"])  # type: ignore[index,call-overload]
    assert not answer.unknown_events
    assert [] == find_unstable(CHAT, answer)


def test_an_error_inside_a_stream_with_status_200_is_an_error() -> None:
    """What came before it stays."""
    error = {"code": 502, "message": "Provider disconnected"}
    last = chunk({"content": ""}, choice={"finish_reason": "error"}, error=error, provider="Together")

    answer = read_response(CHAT, 200, SSE, chunk({"role": "assistant", "content": "Par"}) + last + DONE)

    assert (ResponseEnding.ERROR, "Provider disconnected") == (answer.ending, (answer.error or {})["message"])
    assert "Par" == choice_of(answer)["message"]["content"]


def test_groq_counts_and_fails_in_a_field_of_its_own() -> None:
    """`x_groq` of the last chunk."""
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8, "queue_time": 0.1}
    start = chunk({"role": "assistant", "content": "", "reasoning": "Hm."}, x_groq={"id": "req_1"})
    text = chunk({"content": "Paris"})

    good = read_response(
        CHAT, 200, SSE,
        start + text + chunk({}, choice={"finish_reason": "stop"}, x_groq={"id": "req_1", "usage": usage}) + DONE,
    )  # fmt: skip
    failed = read_response(CHAT, 200, SSE, start + text + chunk({}, x_groq={"error": "over_capacity"}) + DONE)

    assert ("Paris", "Hm.", 8) == (
        choice_of(good)["message"]["content"], choice_of(good)["message"]["reasoning"],
        (good.unified or {})["usage"]["total_tokens"],  # type: ignore[index,call-overload]
    )  # fmt: skip
    assert (ResponseEnding.ERROR, "over_capacity") == (failed.ending, (failed.error or {})["message"])


def test_deepseek_counts_what_its_cache_had() -> None:
    """Under the name that OpenAI has for it; its own counts stay."""
    usage = {
        "prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29, "prompt_cache_hit_tokens": 16,
        "prompt_cache_miss_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 7},
    }  # fmt: skip
    body = completion({"content": "Paris", "reasoning_content": "France…"}, usage=usage)

    answer = read_response(CHAT, 200, "application/json", json.dumps(body).encode())

    view: Any = answer.unified
    assert 16 == view["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert usage.items() <= view["usage"].items()
    assert "France…" == choice_of(answer)["message"]["reasoning"]
    assert [] == find_unstable(CHAT, answer)


def test_a_count_that_openai_has_is_not_replaced() -> None:
    usage: Any = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2}, "prompt_cache_hit_tokens": 5}

    assert usage == decode_response(CHAT, completion({"content": "x"}, usage=usage))["usage"]


def test_the_citations_of_a_search_stay_beside_the_answer() -> None:
    """Of xAI, with the sources it counted."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 9, "num_sources_used": 2,
             "completion_tokens_details": {"reasoning_tokens": 7}}  # fmt: skip
    body: Any = completion(
        {"content": "Paris", "reasoning_content": "Hm."}, citations=["https://a.example"], usage=usage
    )

    view: Any = decode_response(CHAT, body)

    assert (["https://a.example"], usage) == (view["citations"], view["usage"])
    assert "Hm." == view["choices"][0]["message"]["reasoning"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_what_vllm_adds_stays_in_request_and_answer(name: str) -> None:
    """Constraints, log probabilities of the prompt, and reasoning under its new and its old name."""
    sent: Any = {"model": "m", "messages": [], "guided_json": {"type": "object"}, "guided_regex": "a+",
                 "structured_outputs": {"choice": ["a"]}, "top_k": 5, "prompt_logprobs": 1}  # fmt: skip
    body: Any = completion({"content": "a", name: "Hm."}, prompt_logprobs=[None, {"9": {"logprob": -1}}])

    view: Any = decode_response(CHAT, body)

    assert sent == decode_request(CHAT, sent)
    assert body["prompt_logprobs"] == view["prompt_logprobs"]
    assert "Hm." == view["choices"][0]["message"]["reasoning"]


def test_every_recorded_call_of_these_providers_is_understood() -> None:
    """Of real traffic: reasoning that came is in the view, and so are the counts."""
    calls = [
        call for call in interactions(need_shared("corpus/llm"))
        if any(host in call.url for host in HOSTS) and call.endpoint == CHAT and call.status < 400
    ]  # fmt: skip
    with_reasoning = 0
    for call in calls:
        answer = call.read()
        if answer.ending is ResponseEnding.ERROR:
            continue
        message = choice_of(answer).get("message") or {}
        has_reasoning = any(message.get(name) for name in ("reasoning", "reasoning_content"))
        with_reasoning += has_reasoning
        assert has_reasoning <= bool(message.get("reasoning")), call.name
        assert [] == find_unstable(call.endpoint, answer), call.name
    assert with_reasoning > 20
