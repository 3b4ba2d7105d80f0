"""A field that does not fit the trace format costs the view that field, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges import COMPOSER, chat_answer, chat_request, make_exchange, streamed_trace, trace_body
from support.json_texts import fuzz
from support.wire_transcripts import CHAT, SSE, sse
from traceforge.traces.trace_format import check_trace
from traceforge.traces.view_repair import derive_counts, repair_views

EMBEDDINGS = "/v1/embeddings"


def recorded(address: str, request: object, answer: object, **more: Any) -> dict[str, Any]:
    """The trace of a call."""
    return trace_body(COMPOSER.compose(make_exchange(address, request, answer, **more)))


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 8, "total_tokens": 8}, 8),
        ({"total_tokens": 5}, 5),
        ({"prompt_tokens": 8, "completion_tokens": None, "total_tokens": 8}, 8),
        ({"prompt_tokens": 8, "completion_tokens": 0, "total_tokens": 8}, 8),
    ],
)
def test_an_embedding_keeps_its_view(usage: dict[str, Any], tokens: int) -> None:
    """Its usage has no completion tokens, which is nothing unusual."""
    vectors = [{"object": "embedding", "index": 0, "embedding": [0.25, -1]}]
    answer = {"object": "list", "data": vectors, "model": "text-embedding-3-small", "usage": usage}

    body = recorded(EMBEDDINGS, {"model": "text-embedding-3-small", "input": "hi"}, answer)

    response = body["response"]
    assert vectors == response["data"]
    assert "text-embedding-3-small" == body["request"]["model"] == response["model"] == body["metadata"]["model"]
    assert [tokens, 0, tokens] == [response["usage"][f"{n}_tokens"] for n in ("prompt", "completion", "total")]
    assert tokens == body["metadata"]["tokens_used"]
    assert "view_problems" not in body
    assert answer == body["provider_response"]


def test_an_embedding_without_any_count_has_no_usage() -> None:
    """Nothing is made up."""
    answer = {"object": "list", "data": [], "model": "m", "usage": {"credits": 2}}

    body = recorded(EMBEDDINGS, {"model": "m", "input": "hi"}, answer)

    assert "usage" not in body["response"]
    assert "tokens_used" not in body["metadata"]
    assert {f"$.response.usage.{name}_tokens" for name in ("prompt", "completion", "total")} == {
        problem["path"] for problem in body["view_problems"]
    }


def test_a_field_that_does_not_fit_is_named_beside_the_view() -> None:
    """Here the null that some servers send as the name of an assistant; all else of both views is there."""
    answer = chat_answer("Paris")
    answer["choices"][0]["message"]["name"] = None

    body = recorded(CHAT, chat_request("Where?"), answer)

    assert {"role": "assistant", "content": "Paris"} == body["response"]["choices"][0]["message"]
    assert "Where?" == body["request"]["messages"][0]["content"]
    assert [{"path": "$.response.choices[0].message.name", "problem": "must be string, got null"}] == body[
        "view_problems"
    ]
    assert answer == body["provider_response"]


def test_a_stream_with_a_field_that_does_not_fit_is_still_a_stream() -> None:
    """Its trace says that it was streamed, and its chunks are listed as such."""
    event = {"id": "c", "object": "chat.completion.chunk", "created": "now", "model": "m", "choices": []}
    answer = sse({**event, "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]})

    stored = COMPOSER.compose(make_exchange(CHAT, chat_request("x", stream=True), answer, media_type=SSE))

    assert stored.summary.streamed
    assert streamed_trace(1).summary.streamed
    assert [{"path": "$.response.created", "problem": "must be number or null, got string", "shown_as": None}] == (
        trace_body(stored)["view_problems"]
    )


@pytest.mark.parametrize(
    ("field", "value", "path", "shown"),
    [
        ("temperature", "warm", "$.request.temperature", None),
        ("model", 5, "$.request.model", ""),
        ("stop", ["a", 1, "b"], "$.request.stop[1]", ["a", "b"]),
        ("messages", [{"role": "user", "content": "a"}, "b"], "$.request.messages[1]",
         [{"role": "user", "content": "a"}]),
        ("messages", [{"role": "bot", "content": "a"}], "$.request.messages[0].role",
         [{"role": "user", "content": "a"}]),
        ("messages", [{"role": "user", "content": ["a"]}], "$.request.messages[0].content[0]",
         [{"role": "user", "content": [{"type": "text", "text": "a"}]}]),
    ],
)  # fmt: skip
def test_the_rest_of_a_request_stays(field: str, value: object, path: str, shown: object) -> None:
    """One field is repaired or left out; another one, beside it, is as it was sent."""
    body = recorded(CHAT, {**chat_request("hi", top_p=0.5), field: value}, chat_answer("ok"))

    assert [path] == [problem["path"] for problem in body["view_problems"]]
    assert shown == body["request"].get(field)
    assert 0.5 == body["request"]["top_p"]
    assert value == body["provider_request"][field]


def test_several_items_of_a_list_are_left_out() -> None:
    """From the last to the first, so that the right ones are."""
    messages = ["a", {"role": "user", "content": "b"}, 3, {"role": "user", "content": "c"}, None]

    body = recorded(CHAT, {"model": "m", "messages": messages}, chat_answer("ok"))

    assert ["b", "c"] == [message["content"] for message in body["request"]["messages"]]
    assert [f"$.request.messages[{place}]" for place in (0, 2, 4)] == [p["path"] for p in body["view_problems"]]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 3, "output_tokens": 4}, (3, 4, 7)),
        ({"prompt_tokens": 3, "total_tokens": 9}, (3, 6, 9)),
        ({"completion_tokens": 4, "total_tokens": 9}, (5, 4, 9)),
        ({"completion_tokens": 4}, None),
        ({"prompt_tokens": 9, "total_tokens": 3}, None),
        ({"prompt_tokens": -1, "completion_tokens": 2}, None),
        ({"prompt_tokens": True, "completion_tokens": 2}, None),
    ],
)
def test_counts_follow_from_each_other_or_are_not_there(
    usage: dict[str, Any], counts: tuple[int, ...] | None
) -> None:
    """Two counts give the third; one gives nothing."""
    derived = derive_counts(usage)

    assert counts == (tuple(derived.values()) if derived is not None else None)


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "user", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["role", "content", "name", "tool_calls", "prompt_tokens", "total_tokens", "index", "message", "text"]
    ), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_REQUEST_FIELDS = ("model", "messages", "prompt", "temperature", "stop", "stream", "n")
_RESPONSE_FIELDS = ("id", "object", "created", "model", "choices", "usage", "data")


@fuzz(400)
@given(
    st.dictionaries(st.sampled_from(_REQUEST_FIELDS), _ODD),
    st.dictionaries(st.sampled_from(_RESPONSE_FIELDS), _ODD),
    st.sampled_from([CHAT, "/v1/responses", "/v1/messages", EMBEDDINGS, "/api/chat", "/v1/other"]),
)
def test_a_view_fits_after_one_repair(request: dict[str, Any], answer: dict[str, Any], address: str) -> None:
    """Whatever was sent: no view is dropped, and each problem is named with its place in the view."""
    body = recorded(address, request, answer)

    assert [] == check_trace(body)
    assert all(problem["path"] not in ("$", "$.request", "$.response") for problem in body.get("view_problems", []))
    assert "model" in body["request"]
    kept = {name for name in request if name not in ("temperature", "stop", "stream", "n", "messages", "prompt")}
    assert kept <= body["request"].keys()


def test_a_view_that_cannot_be_repaired_is_left_out_and_named() -> None:
    """A trace is written in any case."""
    body = recorded(CHAT, chat_request("hi"), chat_answer("ok"))
    body["response"]["choices"][0]["index"] = "first"

    problems = repair_views(body, ())

    assert {"object": "other"} == body["response"]
    assert ["$.response.choices[0].index"] == [problem["path"] for problem in problems]
    assert [] == check_trace(body)
