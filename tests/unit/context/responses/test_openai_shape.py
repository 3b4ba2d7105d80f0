"""`context/responses/openai_shape/`: answers and streams are those that OpenAI's own SDK reads."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from support.json_texts import fuzz
from traceforge.context.responses.openai_shape import (
    AnswerHeading,
    ChatFrames,
    OpenAIAnswer,
    ResponseFrames,
    chat_completion,
    read_answer,
    read_chat,
    read_responses,
    response_object,
)
from traceforge.wire.endpoints import find_endpoint
from traceforge.wire.response_reader import ResponseEnding, read_response

HEADING = AnswerHeading("01jy3v8n2q6r4t7w9x0z5abcde", "support-bot", 1_767_000_000)
CHAT = read_chat({"model": "support-bot", "messages": [{"role": "user", "content": "Hi"}]})
USAGE = read_chat({**CHAT.body, "stream": True, "stream_options": {"include_usage": True}})
RESPONSES = read_responses({"model": "support-bot", "input": "Hi", "temperature": 0, "metadata": {"a": "b"}})
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q":1}'}}

openai_answers = st.builds(
    OpenAIAnswer,
    st.builds(
        lambda content, refusal, calls, more: {
            "role": "assistant",
            "content": content,
            **({"refusal": refusal} if refusal else {}),
            **({"tool_calls": calls} if calls else {}),
            **more,
        },
        st.none() | st.text(max_size=12),
        st.none() | st.text(min_size=1, max_size=5),
        st.lists(
            st.sampled_from([CALL, {**CALL, "id": "c2"}, {**CALL, "id": None}]),
            max_size=2,
            unique_by=lambda call: call["id"],
        ),
        st.sampled_from([{}, {"reasoning": "Hm.", "parts": [{"type": "thinking"}], "annotations": []}]),
    ),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "end_turn", None]),
    st.none() | st.integers(0, 99),
    st.none() | st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
)


@cache
def _events() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseStreamEvent)


def _frames(frames: list[bytes]) -> list[Any]:
    """The data of each frame; its event is its type where it has one."""
    read = []
    for frame in frames:
        assert frame.endswith(b"\n\n")
        lines = frame.decode().removesuffix("\n\n").split("\n")
        value = lines[-1].removeprefix("data: ")
        read.append(value if value == "[DONE]" else json.loads(value))
        if len(lines) > 1:
            assert [f"event: {read[-1]['type']}"] == lines[:-1]
    return read


def _cut(text: str, size: int = 3) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@fuzz(100)
@given(answer=openai_answers)
def test_a_completion_is_one_of_openai_s(answer: OpenAIAnswer) -> None:
    """Its SDK's own type takes it, and it has no field that the type does not know."""
    built = chat_completion(HEADING, answer)
    read = ChatCompletion.model_validate(built)

    assert read.choices[0].finish_reason == answer.finish
    assert answer.message.get("refusal") == read.choices[0].message.refusal
    assert not read.model_extra
    assert not read.choices[0].message.model_extra
    assert {"role", "content", "refusal", "annotations", "tool_calls"} >= built["choices"][0]["message"].keys()  # type: ignore[index,call-overload,union-attr]
    assert (answer.input_tokens is None or answer.output_tokens is None) == (read.usage is None)


@fuzz(100)
@given(answer=openai_answers)
def test_a_response_is_one_of_openai_s(answer: OpenAIAnswer) -> None:
    """As its own type says, down to each item; its text is the answer's."""
    read = Response.model_validate(response_object(HEADING, RESPONSES, answer))

    assert (answer.message.get("content") or "") == read.output_text
    assert ("incomplete" if answer.finish in ("length", "content_filter") else "completed") == read.status
    assert len(answer.message.get("tool_calls", [])) == len(
        [item for item in read.output if item.type == "function_call"]
    )  # type: ignore[arg-type]
    assert not read.model_extra
    assert (0, {"a": "b"}) == (read.temperature, read.metadata)


@fuzz(60)
@given(said_answer=openai_answers, streamed=st.booleans())
def test_a_chat_stream_has_the_content_of_the_plain_answer(said_answer: OpenAIAnswer, streamed: bool) -> None:
    """Chunk by chunk of OpenAI's own type; our reader puts the same answer together."""
    stream = ChatFrames(HEADING, USAGE)
    pieces = _cut(str(said_answer.message.get("content") or "")) if streamed else []

    frames = [
        *stream.start(),
        *(frame for piece in pieces for frame in stream.text(piece)),
        *stream.finish(said_answer),
    ]
    values = _frames(list(frames))
    answer = read_response(find_endpoint("POST", "/v1/chat/completions"), 200, "text/event-stream", b"".join(frames))

    assert "[DONE]" == values[-1]
    chunks = [ChatCompletionChunk.model_validate(value) for value in values[:-1]]
    assert not any(chunk.model_extra for chunk in chunks)
    assert "assistant" == chunks[0].choices[0].delta.role
    assert pieces == [chunk.choices[0].delta.content for chunk in chunks[1 : 1 + len(pieces)]]
    assert [] == chunks[-1].choices
    assert said_answer.finish == chunks[-2].choices[0].finish_reason
    assert ResponseEnding.COMPLETE is answer.ending
    choices: Any = chat_completion(HEADING, said_answer)["choices"]
    unified: Any = answer.unified
    message = unified["choices"][0]["message"]
    assert (choices[0]["message"]["content"] or "", choices[0]["message"].get("tool_calls")) == (
        message["content"],
        message.get("tool_calls"),
    )


def test_tokens_are_streamed_only_where_they_are_asked_for() -> None:
    """Without the option there is no chunk without choices, and no `usage` in any."""
    stream = ChatFrames(HEADING, CHAT)

    *chunks, last_frame = _frames(
        [*stream.start(), *stream.finish(OpenAIAnswer({"content": "Yes."}, "stream", 3, 4))]
    )

    assert "[DONE]" == last_frame
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)
    stream = ChatFrames(HEADING, USAGE)
    *chunks, last, last_frame = _frames(
        [*stream.start(), *stream.finish(OpenAIAnswer({"content": "Yes."}, "stream", 3, 4))]
    )
    assert all(chunk["usage"] is None for chunk in chunks)
    assert (3, 4, 7) == tuple(last["usage"][f"{name}_tokens"] for name in ("prompt", "completion", "total"))


@fuzz(60)
@given(answer=openai_answers, streamed=st.booleans())
def test_a_responses_stream_has_the_content_of_the_plain_answer(answer: OpenAIAnswer, streamed: bool) -> None:
    """Events of OpenAI's own types, numbered from 0; the last one is the whole, and the deltas are its text."""
    stream = ResponseFrames(HEADING, RESPONSES)
    pieces = _cut(str(answer.message.get("content") or "")) if streamed else []

    frames = [*stream.start(), *(frame for piece in pieces for frame in stream.text(piece)), *stream.finish(answer)]
    values = _frames(list(frames))
    for value in values:
        _events().validate_python(value)

    assert list(range(len(values))) == [value["sequence_number"] for value in values]
    assert ["response.created", "response.in_progress"] == [value["type"] for value in values[:2]]
    response = response_object(HEADING, RESPONSES, answer)
    assert f"response.{response['status']}" == values[-1]["type"]
    assert response == values[-1]["response"]
    assert response["output"] == [value["item"] for value in values if value["type"] == "response.output_item.done"]
    deltas = [value["delta"] for value in values if value.get("type") == "response.output_text.delta"]
    assert str(answer.message.get("content") or "") == "".join(deltas)
    assert not streamed or pieces == deltas
    announced = [value["item"]["id"] for value in values if value["type"] == "response.output_item.added"]
    assert announced == [item["id"] for item in response["output"]]  # type: ignore[union-attr,index,call-overload]


def test_the_order_of_the_events_of_a_response() -> None:
    """Text, then a call: each item is opened, filled and closed before the next."""
    stream = ResponseFrames(HEADING, RESPONSES)
    frames = [*stream.start(), *stream.text("I "), *stream.text("look.")]
    frames += stream.finish(OpenAIAnswer({"content": "I look.", "tool_calls": [CALL]}, "tool_calls"))

    assert [value["type"].removeprefix("response.") for value in _frames(list(frames))] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.parametrize("kind", [ChatFrames, ResponseFrames])
def test_a_stream_that_breaks_keeps_its_text(kind: Any) -> None:
    """Without a final answer, the streamed text is the answer; a failure has OpenAI's format."""
    stream = kind(HEADING, RESPONSES)
    frames = [*stream.start(), *stream.text("Half")]
    ended = _frames([*frames, *stream.finish(OpenAIAnswer({"role": "assistant", "content": None}))])
    failed = _frames(list(kind(HEADING, RESPONSES).fail("provider_failed", "It broke.")))

    assert '"Half"' in json.dumps(ended)
    if kind is ChatFrames:
        assert [
            {"error": {"message": "It broke.", "type": "server_error", "code": "provider_failed", "param": None}}
        ] == failed
    else:
        assert ("response.failed", "failed", "It broke.") == (
            failed[0]["type"],
            failed[0]["response"]["status"],
            failed[0]["response"]["error"]["message"],
        )


def test_an_answer_of_another_provider_is_converted() -> None:
    """From the unified view, with its counts."""
    body = {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"},
            {"type": "text", "text": "Yes."},
        ],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 4},
    }
    answer = read_response(find_endpoint("POST", "/v1/messages"), 200, "application/json", json.dumps(body).encode())
    assert answer.unified is not None

    built = read_answer(answer.unified)

    assert ("length", 9, 2, 4) == (built.finish, built.input_tokens, built.output_tokens, built.cached_tokens)
    read = ChatCompletion.model_validate(chat_completion(HEADING, built))
    assert "Yes." == read.choices[0].message.content
    assert "Hm." not in read.model_dump_json()


def _client(answer: OpenAIAnswer) -> OpenAI:
    """The official SDK, whose requests are read and answered here, without a socket."""

    def handle(request: httpx.Request) -> httpx.Response:
        chat = request.url.path.endswith("/chat/completions")
        body = json.loads(request.content)
        read_request = read_chat(body) if chat else read_responses(body)
        if not read_request.stream:
            return httpx.Response(
                200, json=chat_completion(HEADING, answer) if chat else response_object(HEADING, read_request, answer)
            )
        stream = ChatFrames(HEADING, read_request) if chat else ResponseFrames(HEADING, read_request)
        pieces = [frame for piece in _cut(str(answer.message["content"])) for frame in stream.text(piece)]
        frames = [*stream.start(), *pieces, *stream.finish(answer)]
        return httpx.Response(200, content=b"".join(frames), headers={"content-type": "text/event-stream"})

    transport = httpx.Client(transport=httpx.MockTransport(handle))
    return OpenAI(api_key="none", base_url="http://127.0.0.1:9/v1", http_client=transport)


def test_the_official_sdk_puts_the_same_answer_together() -> None:
    """Whole and streamed, by chat and by Responses: text, call and tokens."""
    answer = OpenAIAnswer({"content": "I look it up.", "tool_calls": [CALL]}, "tool_calls", 3, 4)
    messages: Any = [{"role": "user", "content": "Hi"}]
    with _client(answer) as client:
        completion = client.chat.completions.create(model="bot", messages=messages)
        with client.chat.completions.stream(
            model="bot", messages=messages, stream_options={"include_usage": True}
        ) as chat:
            streamed = chat.get_final_completion()
        response = client.responses.create(model="bot", input="Hi")
        with client.responses.stream(model="bot", input="Hi") as events:
            final = events.get_final_response()

    assert "I look it up." == completion.choices[0].message.content == streamed.choices[0].message.content
    assert completion.choices[0].message.tool_calls is not None
    assert streamed.choices[0].message.tool_calls is not None
    assert "c1" == completion.choices[0].message.tool_calls[0].id == streamed.choices[0].message.tool_calls[0].id
    assert completion.usage is not None
    assert streamed.usage is not None
    assert 7 == completion.usage.total_tokens == streamed.usage.total_tokens
    assert "I look it up." == response.output_text == final.output_text
    assert (
        ["message", "function_call"]
        == [item.type for item in response.output]
        == [item.type for item in final.output]
    )


def test_the_official_sdk_parses_an_answer_of_a_schema() -> None:
    """Its own words for a schema are read, by chat and by Responses."""

    class City(BaseModel):
        name: str

    with _client(OpenAIAnswer({"content": '{"name": "Paris"}'}, "stop", 1, 2)) as client:
        chat = client.chat.completions.parse(
            model="bot", messages=[{"role": "user", "content": "Hi"}], response_format=City
        )
        response = client.responses.parse(model="bot", input="Hi", text_format=City)

    assert City(name="Paris") == chat.choices[0].message.parsed == response.output_parsed


@pytest.mark.parametrize("kind", [ChatFrames, ResponseFrames])
def test_streamed_text_is_not_sent_again(kind: Any) -> None:
    """Not even where the whole, in the end, says it otherwise."""
    stream = kind(HEADING, RESPONSES)
    frames = [*stream.start(), *stream.text("Half"), *stream.finish(OpenAIAnswer({"content": "Other"}, "stop"))]

    deltas = [
        value.get("delta") or value["choices"][0]["delta"].get("content")
        for value in _frames(frames)
        if value != "[DONE]" and (value.get("choices") or value.get("type") == "response.output_text.delta")
    ]
    assert "Half" == "".join(filter(None, deltas))
