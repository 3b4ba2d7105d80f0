"""OpenAI Responses as small wire transcripts: every item, from its deltas and from its last event."""

from __future__ import annotations

from typing import Any

import pytest

from support.wire_transcripts import RESPONSES, choice_of, message_of, read_body, read_stream, sse
from traceforge.wire.openai.responses import decode_request
from traceforge.wire.response_reader import ResponseEnding

USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 6,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 16,
}


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    """A response object."""
    head = {"id": "resp_1", "object": "response", "created_at": 7, "model": "gpt-5", "status": status}
    return {**head, "output": list(output), "usage": USAGE, **more}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    """A message item."""
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": list(parts)}


def text(written: str, **more: Any) -> dict[str, Any]:
    """A text part."""
    return {"type": "output_text", "text": written, "annotations": [], **more}


CREATED = {"type": "response.created", "response": {**response(status="in_progress"), "usage": None}}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'}
CUSTOM = {"id": "ct_1", "type": "custom_tool_call", "call_id": "call_2", "name": "sql", "input": "SELECT 1"}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAA",
}


def at(kind: str, **fields: Any) -> dict[str, Any]:
    """An event about the item at place 0."""
    return {"type": f"response.{kind}", "output_index": 0, **fields}


def test_a_plain_response_is_one_choice() -> None:
    """Text, refusal, reasoning and calls of all items, and the items themselves in `parts`."""
    items = [THOUGHT, said(text("Par"), text("is"), {"type": "refusal", "refusal": "no"}), CALL, CUSTOM]
    answer = read_body(RESPONSES, response(*items))

    assert {
        "role": "assistant",
        "content": "Paris",
        "refusal": "no",
        "reasoning": "First.\nThen.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}},
            {"id": "call_2", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
        ],
        "parts": items,
    } == message_of(answer)
    assert ("tool_calls", "completed") == _finish(answer)
    assert answer.unified is not None
    assert ("resp_1", "gpt-5", 7) == tuple(answer.unified[name] for name in ("id", "model", "created"))


def _finish(answer: Any) -> tuple[Any, Any]:
    choice = choice_of(answer)
    return choice["finish_reason"], choice["provider_finish_reason"]


def test_usage_is_told_in_both_languages() -> None:
    """OpenAI's chat names, and the provider's own object beside them."""
    answer = read_body(RESPONSES, response(said(text("a"))))

    assert answer.unified is not None
    assert {
        "prompt_tokens": 10,
        "completion_tokens": 6,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
        "provider": USAGE,
    } == answer.unified["usage"]


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_an_incomplete_response_says_why(reason: str, finish: str) -> None:
    """The provider's word is kept, and OpenAI's chat word stands beside it."""
    body = response(said(text("a")), status="incomplete", incomplete_details={"reason": reason})
    stream = sse(CREATED, {"type": "response.incomplete", "response": body})

    for answer in (read_body(RESPONSES, body), read_stream(RESPONSES, stream)):
        assert (finish, "incomplete") == _finish(answer)
        assert answer.unified is not None
        assert {"reason": reason} == answer.unified["incomplete_details"]


def test_the_terminal_event_is_the_answer() -> None:
    """Whatever the deltas said."""
    body = response(said(text("Paris")))
    stream = sse(CREATED, at("output_item.added", item=said()), at("output_text.delta", content_index=0, delta="Par"),
                 {"type": "response.completed", "response": body})  # fmt: skip

    answer = read_stream(RESPONSES, stream)
    assert (ResponseEnding.COMPLETE, body) == (answer.ending, answer.body)
    assert read_body(RESPONSES, body).unified == answer.unified


TEXT_EVENTS = [
    at("output_item.added", item={**said(), "status": "in_progress"}),
    at("content_part.added", content_index=0, part=text("")),
    at("output_text.delta", content_index=0, delta="Par", obfuscation="x"),
    at("output_text.delta", content_index=0, delta="is"),
    at("output_text.annotation.added", content_index=0, annotation_index=0, annotation={"type": "url_citation"}),
]


def test_a_terminal_event_with_empty_output_leaves_the_deltas() -> None:
    """Some servers do not repeat themselves."""
    answer = read_stream(
        RESPONSES, sse(CREATED, *TEXT_EVENTS, {"type": "response.completed", "response": response()})
    )

    assert ResponseEnding.COMPLETE is answer.ending
    assert "Paris" == message_of(answer)["content"]
    assert [{"type": "url_citation"}] == message_of(answer)["parts"][0]["content"][0]["annotations"]


def test_a_cut_stream_keeps_its_deltas() -> None:
    """There is no terminal event, and `[DONE]` alone is none."""
    answer = read_stream(RESPONSES, sse(CREATED, *TEXT_EVENTS, done=True))

    assert ResponseEnding.CUT is answer.ending
    assert "Paris" == message_of(answer)["content"]
    assert answer.unified is not None
    assert "resp_1" == answer.unified["id"]


def test_every_kind_of_delta_builds_its_item() -> None:
    """Refusal, reasoning, its summary, calls of functions and custom tools, code."""

    def begin(place: int, item: dict[str, Any]) -> dict[str, Any]:
        return {"type": "response.output_item.added", "output_index": place, "item": item}

    def delta(place: int, kind: str, piece: str, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": place, "delta": piece, **more}

    answer = read_stream(
        RESPONSES,
        sse(CREATED,
            begin(0, {**THOUGHT, "summary": []}),
            delta(0, "reasoning_summary_text", "Fir", summary_index=0),
            delta(0, "reasoning_summary_text", "st.", summary_index=0),
            delta(0, "reasoning_summary_text", "Then.", summary_index=1),
            delta(0, "reasoning_text", "raw", content_index=0),
            begin(1, said()), delta(1, "refusal", "n", content_index=0), delta(1, "refusal", "o", content_index=0),
            begin(2, {**CALL, "arguments": ""}), delta(2, "function_call_arguments", '{"a"'),
            delta(2, "function_call_arguments", ":1}"),
            begin(3, {**CUSTOM, "input": ""}), delta(3, "custom_tool_call_input", "SELECT 1"),
            begin(4, {"id": "ci", "type": "code_interpreter_call", "code": ""}),
            delta(4, "code_interpreter_call_code", "print()")),
    )  # fmt: skip

    built = message_of(answer)
    assert "First.\nThen.\nraw" == built["reasoning"]
    assert "no" == built["refusal"]
    assert {"name": "look", "arguments": '{"a":1}'} == built["tool_calls"][0]["function"]
    assert {"name": "sql", "input": "SELECT 1"} == built["tool_calls"][1]["custom"]
    assert "print()" == built["parts"][4]["code"]
    assert ResponseEnding.CUT is answer.ending


def test_items_are_told_apart_by_place_not_by_id() -> None:
    """Some servers give an item another id in every event."""
    answer = read_stream(
        RESPONSES,
        sse(CREATED, at("output_item.added", item={**said(), "id": "one"}),
            at("output_text.delta", item_id="two", content_index=0, delta="Par"),
            at("output_text.delta", item_id="three", content_index=0, delta="is")),
    )  # fmt: skip

    assert "Paris" == message_of(answer)["content"]


def test_a_server_tool_is_kept_whole() -> None:
    """It is nobody's call to answer: it stands in `parts`, not in `tool_calls`."""
    search = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    answer = read_body(RESPONSES, response(search, said(text("a"))))

    assert search == message_of(answer)["parts"][0]
    assert "tool_calls" not in message_of(answer)
    assert ("stop", "completed") == _finish(answer)


def test_progress_is_known_and_a_new_event_is_counted() -> None:
    """A new event type is never a crash."""
    stream = sse(CREATED, at("web_search_call.searching"), at("hologram.delta", delta="?"), {"type": "keepalive"},
                 {"type": "response.completed", "response": response(said(text("a")))})  # fmt: skip

    answer = read_stream(RESPONSES, stream)
    assert {"response.hologram.delta": 1} == dict(answer.unknown_events)
    assert "a" == message_of(answer)["content"]


def test_events_without_a_name_line_are_the_same() -> None:
    """The type in the data is enough."""
    events = [CREATED, *TEXT_EVENTS]
    named = sse(*events)
    bare = b"".join(line + b"\n" for line in named.split(b"\n") if not line.startswith(b"event:"))

    assert read_stream(RESPONSES, named) == read_stream(RESPONSES, bare)


def test_an_error_event_ends_the_stream_with_what_came() -> None:
    """The text so far is kept, the error too."""
    error = {"type": "error", "code": "server_error", "message": "gone", "sequence_number": 3}
    answer = read_stream(RESPONSES, sse(CREATED, *TEXT_EVENTS, error))

    assert ResponseEnding.ERROR is answer.ending
    assert "Paris" == message_of(answer)["content"]
    assert {"code": "server_error", "message": "gone"} == answer.body["error"]  # type: ignore[index,call-overload]


def test_a_failed_response_is_an_error() -> None:
    """`response.failed` is a terminal event."""
    failed = response(status="failed", error={"code": "server_error", "message": "gone"})

    assert (
        ResponseEnding.ERROR
        is read_stream(RESPONSES, sse(CREATED, {"type": "response.failed", "response": failed})).ending
    )


def test_a_second_answer_under_one_call_is_counted() -> None:
    """The last one stands, unmixed with the first."""
    answer = read_stream(
        RESPONSES,
        sse(CREATED, *TEXT_EVENTS, CREATED, {"type": "response.completed", "response": response(said(text("b")))}),
    )

    assert "b" == message_of(answer)["content"]
    assert 1 == answer.unknown_events["second response.created"]


def test_a_request_is_messages() -> None:
    """Instructions come first, an output of a tool is a message of role `tool`, the rest keeps its name."""
    unified = decode_request(
        {
            "model": "m",
            "instructions": "be brief",
            "max_output_tokens": 9,
            "input": [
                {"role": "user", "content": "hi"},
                CALL,  # type: ignore[list-item]  # JSON
                {"type": "function_call_output", "call_id": "call_1", "output": "12"},
            ],
        }
    )

    assert ["developer", "user", "assistant", "tool"] == [m["role"] for m in unified["messages"]]  # type: ignore[union-attr,index,call-overload]
    assert 9 == unified["max_tokens"]
    assert [{"role": "user", "content": "x"}] == decode_request({"model": "m", "input": "x"})["messages"]
