"""Ollama as small transcripts: lines, split anywhere, and a last line with `done`."""

from __future__ import annotations

from typing import Any

import pytest

from support.wire_transcripts import (
    NDJSON,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    calls_of,
    choice_of,
    message_of,
    ndjson,
    read_body,
    read_stream,
)
from traceforge.wire.ollama import decode_request
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding

HEAD = {"model": "llama3.2", "created_at": "2025-01-01T00:00:00Z"}
LAST = {"done": True, "done_reason": "stop", "total_duration": 99, "prompt_eval_count": 5, "eval_count": 7}


def line(content: str = "", **more: Any) -> dict[str, Any]:
    """A line of a chat."""
    return {**HEAD, "message": {"role": "assistant", "content": content, **more}, "done": False}


def last(**more: Any) -> dict[str, Any]:
    """The last line of a chat."""
    return {**line(), **LAST, **more}


def generation_line(text: str, **more: Any) -> dict[str, Any]:
    return {**HEAD, "response": text, "done": False, **more}


def view(answer: ParsedResponse) -> dict[str, Any]:
    assert answer.unified is not None
    return answer.unified


@pytest.mark.parametrize("media_type", [NDJSON, "application/json", "", "text/plain"])
def test_a_stream_equals_the_plain_answer(media_type: str) -> None:
    """Under any content type; the counts are in the last line."""
    answer = read_stream(OLLAMA_CHAT, ndjson(line("Par"), line("is 😀"), last()), media_type)

    assert ResponseEnding.COMPLETE is answer.ending
    assert {**line("Paris 😀"), **LAST} == answer.body
    assert ("llama3.2", "Paris 😀") == (view(answer)["model"], message_of(answer)["content"])
    assert {
        "prompt_tokens": 5,
        "completion_tokens": 7,
        "total_tokens": 12,
        "provider": {"prompt_eval_count": 5, "eval_count": 7},
    } == view(answer)["usage"]
    assert 99 == view(answer)["total_duration"]


def test_a_plain_answer_equals_its_stream() -> None:
    plain = {**line("Paris"), **LAST}
    streamed = read_stream(OLLAMA_CHAT, ndjson(line("Par"), line("is"), last()), NDJSON)

    assert view(streamed) == read_body(OLLAMA_CHAT, plain).unified


def test_thinking_is_reasoning() -> None:
    """In chats and in generations."""
    chat = read_stream(
        OLLAMA_CHAT, ndjson(line("", thinking="let "), line("", thinking="me"), line("4"), last()), NDJSON
    )
    lines = [
        generation_line("", thinking="let "),
        generation_line("", thinking="me"),
        generation_line("4"),
        {**generation_line(""), **LAST},
    ]
    generation = read_stream(OLLAMA_GENERATE, ndjson(*lines), NDJSON)

    assert ("4", "let me") == (message_of(chat)["content"], message_of(chat)["reasoning"])
    assert ("4", "let me") == (choice_of(generation)["text"], choice_of(generation)["reasoning"])
    assert "text_completion" == view(generation)["object"]


def test_tool_calls_of_several_lines_are_collected() -> None:
    """Arguments are an object, an id is optional, and the finish reason is still `stop`."""
    first = line("", tool_calls=[{"function": {"name": "look", "arguments": {"a": 1}}}])
    second = line("", tool_calls=[{"id": "call_1", "function": {"index": 1, "name": "go", "arguments": {}}}])
    answer = read_stream(OLLAMA_CHAT, ndjson(first, second, last()), NDJSON)

    assert [(None, "look", '{"a":1}'), ("call_1", "go", "{}")] == calls_of(answer)
    assert ("tool_calls", "stop") == (choice_of(answer)["finish_reason"], choice_of(answer)["provider_finish_reason"])


@pytest.mark.parametrize("reason", ["stop", "length", "load", None])
def test_the_done_reason_is_the_finish_reason(reason: str | None) -> None:
    """Older servers send none."""
    body = {**line("a"), **LAST, "done_reason": reason}

    assert reason == choice_of(read_body(OLLAMA_CHAT, body))["finish_reason"]


def test_a_stream_without_its_last_line_is_truncated() -> None:
    answer = read_stream(OLLAMA_CHAT, ndjson(line("Par"), line("is")), NDJSON)

    assert (ResponseEnding.CUT, "Paris") == (answer.ending, message_of(answer)["content"])


def test_a_single_line_that_is_not_done_is_a_truncated_stream() -> None:
    """Although it is a complete JSON document."""
    assert ResponseEnding.CUT is read_body(OLLAMA_CHAT, line("Par")).ending


@pytest.mark.parametrize("size", range(1, 60, 7))
def test_a_cut_in_the_middle_of_a_line_loses_that_line_only(size: int) -> None:
    """It is counted as broken."""
    body = ndjson(line("Par"))
    answer = read_stream(OLLAMA_CHAT, body + ndjson(line("is"))[:size], NDJSON)

    assert (ResponseEnding.CUT, 1, "Par") == (answer.ending, answer.broken_events, message_of(answer)["content"])


def test_a_cut_inside_a_character_loses_that_line_only() -> None:
    data = ndjson(line("Par"), line("😀"))
    answer = read_stream(OLLAMA_CHAT, data[: data.index("😀".encode()) + 2], NDJSON)

    assert (ResponseEnding.CUT, 1, "Par") == (answer.ending, answer.broken_events, message_of(answer)["content"])


def test_an_error_line_keeps_the_text_before_it() -> None:
    answer = read_stream(OLLAMA_CHAT, ndjson(line("Par"), {"error": "out of memory"}), NDJSON)

    assert (ResponseEnding.ERROR, "Par") == (answer.ending, message_of(answer)["content"])
    assert "out of memory" == answer.body["error"]  # type: ignore[index,call-overload]


def test_an_error_response_has_no_view() -> None:
    answer = read_body(OLLAMA_CHAT, {"error": "model not found"}, status=404)

    assert (ResponseEnding.ERROR, None) == (answer.ending, answer.unified)


def test_a_request_streams_unless_stream_is_false() -> None:
    """And settings count only inside `options`."""
    assert decode_request({"model": "m"})["stream"] is True
    assert decode_request({"model": "m", "stream": False})["stream"] is False
    unified = decode_request({"model": "m", "options": {"num_predict": 9, "seed": 1, "stop": "x"}})
    assert (9, 1, ["x"]) == (unified["max_tokens"], unified["seed"], unified["stop"])
