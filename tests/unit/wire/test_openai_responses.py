"""OpenAI Responses as small transcripts: every item, from its deltas and from its last event."""

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
    head = {"id": "resp_1", "object": "response", "created_at": 7, "model": "gpt-5", "status": status}
    return {**head, "output": list(output), "usage": USAGE, **more}


def message_item(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": list(parts)}


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": content, "annotations": [], **more}


CREATED = {"type": "response.created", "response": {**response(status="in_progress"), "usage": None}}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"a":1}'}
CUSTOM = {"id": "ct_1", "type": "custom_tool_call", "call_id": "call_2", "name": "sql", "input": "SELECT 1"}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAA",
}


def item_event(kind: str, **fields: Any) -> dict[str, Any]:
    """An event about the item with output index 0."""
    return {"type": f"response.{kind}", "output_index": 0, **fields}


def test_a_plain_response_is_one_choice() -> None:
    """Text, refusal, reasoning and calls of all items, and the items themselves in `parts`."""
    items = [THOUGHT, message_item(text("Par"), text("is"), {"type": "refusal", "refusal": "no"}), CALL, CUSTOM]
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


def test_usage_has_openai_s_chat_names_and_the_provider_s_own() -> None:
    answer = read_body(RESPONSES, response(message_item(text("a"))))

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
def test_an_incomplete_response_has_its_reason(reason: str, finish: str) -> None:
    """In the provider's word and in the word of the chat API."""
    body = response(message_item(text("a")), status="incomplete", incomplete_details={"reason": reason})
    stream = sse(CREATED, {"type": "response.incomplete", "response": body})

    for answer in (read_body(RESPONSES, body), read_stream(RESPONSES, stream)):
        assert (finish, "incomplete") == _finish(answer)
        assert answer.unified is not None
        assert {"reason": reason} == answer.unified["incomplete_details"]


def test_the_terminal_event_overrules_the_deltas() -> None:
    body = response(message_item(text("Paris")))
    stream = sse(CREATED, item_event("output_item.added", item=message_item()),
                 item_event("output_text.delta", content_index=0, delta="Par"),
                 {"type": "response.completed", "response": body})  # fmt: skip

    answer = read_stream(RESPONSES, stream)
    assert (ResponseEnding.COMPLETE, body) == (answer.ending, answer.body)
    assert read_body(RESPONSES, body).unified == answer.unified


TEXT_EVENTS = [
    item_event("output_item.added", item={**message_item(), "status": "in_progress"}),
    item_event("content_part.added", content_index=0, part=text("")),
    item_event("output_text.delta", content_index=0, delta="Par", obfuscation="x"),
    item_event("output_text.delta", content_index=0, delta="is"),
    item_event(
        "output_text.annotation.added", content_index=0, annotation_index=0, annotation={"type": "url_citation"}
    ),
]


def test_a_terminal_event_with_empty_output_leaves_the_deltas() -> None:
    """Some servers do not repeat the output."""
    answer = read_stream(
        RESPONSES, sse(CREATED, *TEXT_EVENTS, {"type": "response.completed", "response": response()})
    )

    assert ResponseEnding.COMPLETE is answer.ending
    assert "Paris" == message_of(answer)["content"]
    assert [{"type": "url_citation"}] == message_of(answer)["parts"][0]["content"][0]["annotations"]


def test_a_truncated_stream_keeps_its_deltas() -> None:
    """`[DONE]` alone is not a terminal event."""
    answer = read_stream(RESPONSES, sse(CREATED, *TEXT_EVENTS, with_done=True))

    assert ResponseEnding.CUT is answer.ending
    assert "Paris" == message_of(answer)["content"]
    assert answer.unified is not None
    assert "resp_1" == answer.unified["id"]


def test_every_kind_of_delta_builds_its_item() -> None:
    """Refusal, reasoning, its summary, calls of functions and custom tools, code."""

    def begin(index: int, item: dict[str, Any]) -> dict[str, Any]:
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    def delta(index: int, kind: str, piece: str, **more: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": index, "delta": piece, **more}

    answer = read_stream(
        RESPONSES,
        sse(CREATED,
            begin(0, {**THOUGHT, "summary": []}),
            delta(0, "reasoning_summary_text", "Fir", summary_index=0),
            delta(0, "reasoning_summary_text", "st.", summary_index=0),
            delta(0, "reasoning_summary_text", "Then.", summary_index=1),
            delta(0, "reasoning_text", "raw", content_index=0),
            begin(1, message_item()),
            delta(1, "refusal", "n", content_index=0), delta(1, "refusal", "o", content_index=0),
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


def test_items_are_identified_by_their_index_not_their_id() -> None:
    """Some servers give an item another id in every event."""
    answer = read_stream(
        RESPONSES,
        sse(CREATED, item_event("output_item.added", item={**message_item(), "id": "one"}),
            item_event("output_text.delta", item_id="two", content_index=0, delta="Par"),
            item_event("output_text.delta", item_id="three", content_index=0, delta="is")),
    )  # fmt: skip

    assert "Paris" == message_of(answer)["content"]


def test_a_server_tool_is_kept_and_is_not_a_tool_call() -> None:
    """The provider runs it: it is in `parts`, not in `tool_calls`."""
    search = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    answer = read_body(RESPONSES, response(search, message_item(text("a"))))

    assert search == message_of(answer)["parts"][0]
    assert "tool_calls" not in message_of(answer)
    assert ("stop", "completed") == _finish(answer)


def test_progress_events_are_known_and_a_new_event_is_counted() -> None:
    stream = sse(CREATED, item_event("web_search_call.searching"), item_event("hologram.delta", delta="?"),
                 {"type": "keepalive"},
                 {"type": "response.completed", "response": response(message_item(text("a")))})  # fmt: skip

    answer = read_stream(RESPONSES, stream)
    assert {"response.hologram.delta": 1} == dict(answer.unknown_events)
    assert "a" == message_of(answer)["content"]


def test_events_without_an_event_line_are_read() -> None:
    """The type in the data is enough."""
    events = [CREATED, *TEXT_EVENTS]
    named = sse(*events)
    bare = b"".join(line + b"\n" for line in named.split(b"\n") if not line.startswith(b"event:"))

    assert read_stream(RESPONSES, named) == read_stream(RESPONSES, bare)


def test_an_error_event_keeps_the_text_before_it() -> None:
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


def test_of_two_answers_the_last_is_kept_and_the_other_counted() -> None:
    answer = read_stream(
        RESPONSES,
        sse(
            CREATED,
            *TEXT_EVENTS,
            CREATED,
            {"type": "response.completed", "response": response(message_item(text("b")))},
        ),
    )

    assert "b" == message_of(answer)["content"]
    assert 1 == answer.unknown_events["second response.created"]


def test_a_request_is_decoded_to_openai_s_messages() -> None:
    """Instructions first, a tool's output as a message of role `tool`; other fields keep their names."""
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
