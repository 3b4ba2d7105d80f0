"""Anthropic messages as small transcripts: every block, every delta, and every failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.wire_transcripts import COMPLETE, MESSAGES, calls_of, choice_of, message_of, read_body, read_stream, sse
from traceforge.wire.anthropic import decode_request
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding

START_USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 1}


def message(*blocks: dict[str, Any], stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    """A message that is not streamed."""
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    return {**head, "content": list(blocks), "stop_reason": stop, "stop_sequence": None, "usage": START_USAGE, **more}


def start(**more: Any) -> dict[str, Any]:
    """The first event."""
    return {"type": "message_start", "message": {**message(stop=None), **more}}


def block(index: int, opening: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of one block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": opening},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(*pieces: str, index: int = 0) -> list[dict[str, Any]]:
    """The events of a text block."""
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def end(stop: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    """The last two events."""
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9, **usage}},
        {"type": "message_stop"},
    ]


PING = {"type": "ping"}
TOOL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}


def json_deltas(*pieces: str) -> list[dict[str, Any]]:
    """Deltas of a tool's input."""
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def view(answer: ParsedResponse) -> dict[str, Any]:
    assert answer.unified is not None
    return answer.unified


def test_a_stream_equals_the_message_without_streaming() -> None:
    """Text in pieces, pings between them, usage in the first and the last event."""
    answer = read_stream(MESSAGES, sse(start(), PING, *text("Par", "is 😀"), PING, *end()))

    assert ResponseEnding.COMPLETE is answer.ending
    assert message({"type": "text", "text": "Paris 😀"}, usage={**START_USAGE, "output_tokens": 9}) == answer.body
    assert not answer.unknown_events


def test_the_unified_view_has_openai_s_names() -> None:
    """Id, model, text and both finish reasons; a field that OpenAI lacks keeps its name."""
    unified = view(read_body(MESSAGES, message({"type": "text", "text": "Paris"})))

    assert ("msg_1", "claude-sonnet-4-5", "chat.completion") == (unified["id"], unified["model"], unified["object"])
    assert [
        {"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop",
         "provider_finish_reason": "end_turn"},
    ] == unified["choices"]  # fmt: skip
    assert unified["stop_sequence"] is None


def test_cached_tokens_are_part_of_the_prompt() -> None:
    """Anthropic counts them separately; a total without them would be too small."""
    usage = view(read_body(MESSAGES, message()))["usage"]

    assert {
        "prompt_tokens": 15,
        "completion_tokens": 1,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
        "provider": START_USAGE,
    } == usage


def test_a_later_count_replaces_an_earlier_one_and_null_does_not() -> None:
    """`message_delta` repeats the counts that have grown."""
    answer = read_stream(MESSAGES, sse(start(), *text("a"), *end(input_tokens=12, cache_read_input_tokens=None)))

    assert {**START_USAGE, "output_tokens": 9, "input_tokens": 12} == view(answer)["usage"]["provider"]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"),
     ("refusal", "content_filter"), ("pause_turn", "pause_turn"), ("new_reason", "new_reason"), (None, None)],
)  # fmt: skip
def test_finish_reasons_are_translated_and_kept(stop: str | None, finish: str | None) -> None:
    """A reason that OpenAI has no word for is not translated."""
    choice = choice_of(read_body(MESSAGES, message(stop=stop)))

    assert (finish, stop) == (choice["finish_reason"], choice["provider_finish_reason"])


def test_the_input_of_a_tool_call_is_joined_from_pieces() -> None:
    answer = read_stream(MESSAGES, sse(start(), *block(0, TOOL, *json_deltas("", '{"a": ', "1}")), *end("tool_use")))

    assert [("toolu_1", "look", '{"a":1}')] == calls_of(answer)
    assert {**TOOL, "input": {"a": 1}} == answer.body["content"][0]  # type: ignore[index,call-overload]
    assert message_of(answer)["content"] is None


@pytest.mark.parametrize("deltas", [[], json_deltas(""), json_deltas("", "")])
def test_a_tool_call_without_deltas_keeps_the_input_of_its_first_event(deltas: list[dict[str, Any]]) -> None:
    empty = read_stream(MESSAGES, sse(start(), *block(0, TOOL, *deltas), *end("tool_use")))
    with_input = read_stream(
        MESSAGES, sse(start(), *block(0, {**TOOL, "input": {"b": 2}}, *deltas), *end("tool_use"))
    )

    assert [("toolu_1", "look", "{}")] == calls_of(empty)
    assert [("toolu_1", "look", '{"b":2}')] == calls_of(with_input)


def test_a_truncated_tool_input_is_kept_as_text() -> None:
    """`max_tokens` in the middle of a call leaves text that is not JSON."""
    body = sse(start(), *block(0, TOOL, *json_deltas('{"a": "Par')), *end("max_tokens"))
    cut = sse(start(), *block(0, TOOL, *json_deltas('{"a": "Par'))[:-1])

    assert [("toolu_1", "look", '{"a": "Par')] == calls_of(read_stream(MESSAGES, body))
    assert [("toolu_1", "look", '{"a": "Par')] == calls_of(read_stream(MESSAGES, cut))
    assert ResponseEnding.CUT is read_stream(MESSAGES, cut).ending


def test_thinking_and_its_signature_are_kept() -> None:
    """The provider accepts a signature only unchanged and at its place among the blocks."""
    deltas = [{"type": "thinking_delta", "thinking": "let "}, {"type": "thinking_delta", "thinking": "me"},
              {"type": "signature_delta", "signature": "EqQB"}]  # fmt: skip
    opening = {"type": "thinking", "thinking": "", "signature": ""}
    answer = read_stream(MESSAGES, sse(start(), *block(0, opening, *deltas), *text("4", index=1), *end()))

    assert ("4", "let me") == (message_of(answer)["content"], message_of(answer)["reasoning"])
    assert {"type": "thinking", "thinking": "let me", "signature": "EqQB"} == message_of(answer)["parts"][0]


def test_redacted_thinking_is_kept_unchanged() -> None:
    """It is not text, and the provider expects it back as it is."""
    redacted = {"type": "redacted_thinking", "data": "EmwK"}
    answer = read_stream(MESSAGES, sse(start(), *block(0, redacted), *text("4", index=1), *end()))

    assert redacted == message_of(answer)["parts"][0]
    assert "reasoning" not in message_of(answer)


def test_citations_stay_with_their_text() -> None:
    """The texts are joined, the blocks are kept."""
    cited = {"type": "char_location", "cited_text": "x", "document_index": 0}
    deltas = [{"type": "text_delta", "text": "B"}, {"type": "citations_delta", "citation": cited}]
    opening = {"type": "text", "text": "", "citations": []}
    answer = read_stream(MESSAGES, sse(start(), *text("A"), *block(1, opening, *deltas), *end()))

    assert "AB" == message_of(answer)["content"]
    assert [cited] == message_of(answer)["parts"][1]["citations"]


def test_a_server_tool_is_kept_and_is_not_a_tool_call() -> None:
    """The provider runs it, so the application does not have to; its input is joined from pieces too."""
    use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    result = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result"}],
    }
    events = [*block(0, use, *json_deltas('{"query":', '"q"}')), *block(1, result), *text("found", index=2)]
    answer = read_stream(MESSAGES, sse(start(), *events, *end(server_tool_use={"web_search_requests": 1})))

    assert [{**use, "input": {"query": "q"}}, result] == message_of(answer)["parts"][:2]
    assert "tool_calls" not in message_of(answer)
    assert {"web_search_requests": 1} == view(answer)["usage"]["provider"]["server_tool_use"]


def test_gaps_between_block_indices_are_closed() -> None:
    """Some blocks are never sent; the others keep their order."""
    answer = read_stream(MESSAGES, sse(start(), *text("b", index=5), *text("a", index=2), *end()))

    assert "ab" == message_of(answer)["content"]


def test_content_in_the_first_event_is_kept() -> None:
    """A message that only continues a running program is complete in its first event."""
    called = {**TOOL, "caller": {"type": "code_execution_20250825"}}
    answer = read_stream(MESSAGES, sse(start(content=[called], stop_reason="tool_use"), {"type": "message_stop"}))

    assert [("toolu_1", "look", "{}")] == calls_of(answer)
    assert "tool_calls" == choice_of(answer)["finish_reason"]


def test_of_two_messages_the_last_is_kept_and_the_other_counted() -> None:
    """There are recordings of several calls in one file."""
    answer = read_stream(MESSAGES, sse(start(), *text("a"), *end(), start(id="msg_2"), *text("b"), *end()))

    assert ("b", "msg_2") == (message_of(answer)["content"], view(answer)["id"])
    assert 1 == answer.unknown_events["second message_start"]


def test_a_repeated_first_event_is_ignored() -> None:
    """A gateway that retries may repeat it, also late."""
    answer = read_stream(MESSAGES, sse(start(), start(), *text("Par"), start(), *text("is", index=1), *end()))

    assert "Paris" == message_of(answer)["content"]
    assert not answer.unknown_events


def test_an_error_event_keeps_the_text_before_it() -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    answer = read_stream(MESSAGES, sse(start(), *text("Par")[:2], {"type": "error", "error": error}))

    assert ResponseEnding.ERROR is answer.ending
    assert "Par" == message_of(answer)["content"]
    assert error == answer.body["error"]  # type: ignore[index,call-overload]


def test_an_error_as_the_only_event_is_an_error() -> None:
    """There is no message, so there is no view."""
    answer = read_stream(MESSAGES, sse({"type": "error", "error": {"type": "overloaded_error"}}))

    assert (ResponseEnding.ERROR, None) == (answer.ending, answer.unified)


def test_a_stream_without_message_stop_is_truncated() -> None:
    answer = read_stream(MESSAGES, sse(start(), *text("Par"), *end()[:1]))

    assert ResponseEnding.CUT is answer.ending
    assert "Par" == message_of(answer)["content"]


def test_a_cut_inside_a_character_loses_that_event_only() -> None:
    """Bytes that are not text are counted as broken."""
    data = sse(start(), *text("Par", "😀"))
    answer = read_stream(MESSAGES, data[: data.index("😀".encode()) + 2])

    assert (ResponseEnding.CUT, 1) == (answer.ending, answer.broken_events)
    assert "Par" == message_of(answer)["content"]


def test_new_events_deltas_and_blocks_are_kept_or_counted() -> None:
    odd = block(0, {"type": "hologram", "rays": ""}, {"type": "ray_delta", "rays": "///"})
    answer = read_stream(MESSAGES, sse(start(), {"type": "telemetry"}, *odd, *end()))

    assert {"telemetry": 1, "ray_delta": 1} == dict(answer.unknown_events)
    assert [{"type": "hologram", "rays": "///"}] == message_of(answer)["parts"]


def test_events_in_crlf_are_the_same() -> None:
    """A proxy may change line ends."""
    data = sse(start(), *text("a", "b"), *end())

    assert read_stream(MESSAGES, data) == read_stream(MESSAGES, data.replace(b"\n", b"\r\n"))


def test_a_legacy_completion_is_read_as_text() -> None:
    """`/v1/complete`, plain and streamed."""
    head = {"type": "completion", "id": "compl_1", "model": "claude-2.1"}
    pieces = [
        {**head, "completion": " Par", "stop_reason": None},
        {**head, "completion": "is", "stop_reason": "stop_sequence"},
    ]
    plain = {**head, "completion": " Paris", "stop_reason": "stop_sequence"}

    for answer in (read_stream(COMPLETE, sse(PING, *pieces)), read_body(COMPLETE, plain)):
        assert ResponseEnding.COMPLETE is answer.ending
        assert (" Paris", "stop") == (choice_of(answer)["text"], choice_of(answer)["finish_reason"])


def test_a_request_is_decoded_to_openai_s_messages() -> None:
    """System first, one message for each tool result, tools and tool choice in OpenAI's shape."""
    unified = decode_request(
        {
            "model": "m",
            "max_tokens": 5,
            "system": "be brief",
            "stop_sequences": ["x"],
            "tools": [{"name": "look", "description": "d", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"},
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "ok"}, TOOL]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "12"}]},
            ],
        }
    )

    assert ["system", "user", "assistant", "tool"] == [m["role"] for m in unified["messages"]]  # type: ignore[union-attr,index,call-overload]
    function = {"name": "look", "description": "d", "parameters": {"type": "object"}}
    assert [{"type": "function", "function": function}] == unified["tools"]
    assert ("required", ["x"]) == (unified["tool_choice"], unified["stop"])
    assert "toolu_1" in json.dumps(unified["messages"])
