"""Mistral: fields that it adds to a chat, and its other endpoints, as its API documents them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.corpus import need_shared
from support.corpus_traffic import find_unstable, interactions
from support.wire_transcripts import SSE
from traceforge.wire.dialects import decode_request, decode_response
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

HOST = "https://api.mistral.ai"
CHAT = find_endpoint("POST", f"{HOST}/v1/chat/completions")
FILL_IN = find_endpoint("POST", f"{HOST}/v1/fim/completions")
AGENT = find_endpoint("POST", f"{HOST}/v1/agents/completions")
OCR = find_endpoint("POST", f"{HOST}/v1/ocr")
MODERATION = find_endpoint("POST", f"{HOST}/v1/chat/moderations")
USAGE = {"prompt_tokens": 9, "completion_tokens": 6, "total_tokens": 15, "num_cached_tokens": 4}
THOUGHTS = {"type": "thinking", "thinking": [{"type": "text", "text": "Rivers: Seine."}], "closed": True}
REFERENCE = {"type": "reference", "reference_ids": [0, 2]}


def completion(content: Any) -> dict[str, Any]:
    message = {"role": "assistant", "tool_calls": None, "content": content, "prefix": False}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "cmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice],
            "usage": USAGE}  # fmt: skip


def chunks(*deltas: dict[str, Any]) -> bytes:
    events = [
        {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "magistral-small-latest",
         "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]  # fmt: skip
    events[-1]["choices"][0]["finish_reason"] = "stop"  # type: ignore[index]
    events[-1]["usage"] = USAGE
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"


def message_of(answer: Any) -> Any:
    assert answer.unified is not None
    return answer.unified["choices"][0]["message"]


def test_a_prefix_and_safe_prompt_stay_in_the_view() -> None:
    """A prefix is the beginning of the answer: another one is another request."""
    body = {
        "model": "m", "safe_prompt": True,
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Sure", "prefix": True}],
    }  # fmt: skip

    unified = decode_request(CHAT, body)  # type: ignore[arg-type]  # JSON

    assert (True, body["messages"]) == (unified["safe_prompt"], unified["messages"])


def test_a_content_of_chunks_has_its_text_its_thoughts_and_its_references() -> None:
    content = [THOUGHTS, {"type": "text", "text": "Paris "}, REFERENCE, {"type": "text", "text": "it is."}]

    answer = read_response(CHAT, 200, "application/json", json.dumps(completion(content)).encode())

    message = message_of(answer)
    assert ("Paris it is.", "Rivers: Seine.", content) == (message["content"], message["reasoning"], message["parts"])
    assert [] == find_unstable(CHAT, answer)


def test_a_stream_of_thoughts_and_text_is_put_together() -> None:
    """Thoughts come as a list, and text as text."""
    first, more = ({"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("Riv", "ers"))
    stream = chunks(
        {"role": "assistant", "content": [first]}, {"content": [more]}, {"content": "Pa"}, {"content": "ris"}
    )

    answer = read_response(CHAT, 200, SSE, stream)

    message = message_of(answer)
    assert (ResponseEnding.COMPLETE, "Paris", "Rivers") == (answer.ending, message["content"], message["reasoning"])
    assert [] == find_unstable(CHAT, answer)


def test_cached_tokens_are_counted_under_their_usual_name() -> None:
    unified: Any = decode_response(CHAT, completion("Paris"))

    assert 4 == unified["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert USAGE.items() <= unified["usage"].items()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_text_to_fill_in_is_answered_with_a_completion(streamed: bool) -> None:
    body: Any = {"model": "codestral-latest", "prompt": "def f(", "suffix": "return a+b", "max_tokens": 5}
    data = chunks({"role": "assistant", "content": "a,"}, {"content": " b"}) if streamed else b""

    request: Any = decode_request(FILL_IN, body)
    answer = read_response(FILL_IN, 200, SSE, data or json.dumps(completion("a, b")).encode())

    assert ("def f(", "return a+b", 5) == (request["prompt"], request["suffix"], request["max_tokens"])
    assert "a, b" == message_of(answer)["content"]
    assert [] == find_unstable(FILL_IN, answer)


def test_an_agent_stands_in_for_a_model() -> None:
    unified = decode_request(AGENT, {"agent_id": "ag_1", "messages": [{"role": "user", "content": "Hi"}]})

    assert "ag_1" == unified["model"]


def test_the_pages_of_a_document_are_its_text() -> None:
    """The pages themselves stay, with their images and sizes."""
    pages = [
        {"index": 0, "markdown": "# Menu", "images": [], "dimensions": {"dpi": 200}},
        {"index": 1, "markdown": "x"},
    ]
    counted = {"pages_processed": 2, "doc_size_bytes": 4096}
    document: Any = {"type": "document_url", "document_url": "https://example.com/menu.pdf"}

    request = decode_request(OCR, {"model": "mistral-ocr-latest", "document": document})
    body = {"pages": pages, "model": "mistral-ocr-2505", "usage_info": counted}
    answer = read_response(OCR, 200, "application/json", json.dumps(body).encode())

    unified: Any = answer.unified
    assert document == request["input"]
    assert ("# Menu\n\nx", pages) == (message_of(answer)["content"], unified["pages"])
    assert ("mistral-ocr-2505", counted) == (unified["model"], unified["usage"]["provider"])


def test_the_results_of_a_moderation_are_listed() -> None:
    results = [{"categories": {"sexual": False}, "category_scores": {"sexual": 0.01}}]
    body: Any = {"id": "mod-1", "model": "mistral-moderation-latest", "results": results, "usage": USAGE}

    unified: Any = decode_response(MODERATION, body)

    assert ("classification", results, 9) == (
        unified["object"],
        unified["results"],
        unified["usage"]["prompt_tokens"],
    )


@pytest.mark.parametrize("endpoint", [CHAT, FILL_IN, AGENT, OCR, MODERATION], ids=lambda endpoint: str(endpoint.kind))
@pytest.mark.parametrize("value", [None, 5, "x", [], [None], {}, {"content": 5}, [{"markdown": 5}]])
def test_no_body_ends_in_an_exception(endpoint: Any, value: Any) -> None:
    """A field of any type."""
    for name in ("choices", "pages", "usage", "usage_info", "results", "messages", "document", "agent_id", "model"):
        assert isinstance(decode_response(endpoint, {name: value}), dict)
        assert isinstance(decode_request(endpoint, {name: value}), dict)


def test_every_recorded_call_of_mistral_is_understood() -> None:
    """Of real traffic."""
    calls = [call for call in interactions(need_shared("corpus/llm")) if "mistral.ai" in call.url]
    answered = [call for call in calls if call.status < 400 and call.method == "POST"]

    for call in answered:
        answer = call.read()
        assert answer.unified is not None, call.name
        assert answer.unified.get("choices") or answer.unified.get("data"), call.name
        assert [] == find_unstable(call.endpoint, answer) or "data" in answer.unified, call.name
    assert len(answered) > 20
