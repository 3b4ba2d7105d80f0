"""OpenAI chat completions, also those of compatible servers, as small transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from support.wire_transcripts import CHAT, COMPLETIONS, calls_of, choice_of, message_of, read_body, read_stream, sse
from traceforge.wire.openai.chat import decode_request
from traceforge.wire.response_reader import ResponseEnding


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, index: int = 0, **more: Any
) -> dict[str, Any]:
    """One chunk with one choice."""
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "gpt-4o"}
    return {**head, "choices": [choice], **more}


def call(arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """A delta with a piece of a tool call."""
    name = fields.pop("name", None)
    function = {**({"name": name} if name else {}), **({} if arguments is None else {"arguments": arguments})}
    return {"tool_calls": [{**fields, "function": function}]}


END = chunk(finish="tool_calls")


def test_a_stream_equals_the_plain_answer() -> None:
    """Role, text in pieces, a finish reason, and `[DONE]`."""
    answer = read_stream(
        CHAT,
        sse(chunk({"role": "assistant", "content": ""}), chunk({"content": "Par"}), chunk({"content": "is 😀"}),
            chunk(finish="stop"), with_done=True),
    )  # fmt: skip

    assert ResponseEnding.COMPLETE is answer.ending
    assert {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "gpt-4o",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Paris 😀"}, "finish_reason": "stop"},
        ],
    } == answer.body
    assert answer.body == answer.unified


def test_a_plain_answer_is_the_unified_view() -> None:
    """Fields that a server added are kept."""
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "x_own": {"a": 1},
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "hi", "own": 2}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }

    assert body == read_body(CHAT, body).unified


def test_usage_is_read_from_a_last_chunk_without_choices() -> None:
    """`stream_options.include_usage` adds one."""
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    last = {**chunk(), "choices": [], "usage": usage}
    answer = read_stream(
        CHAT, sse(chunk({"content": "a"}, usage=None), chunk(finish="stop", usage=None), last, with_done=True)
    )

    assert answer.unified is not None
    assert usage == answer.unified["usage"]
    assert 1 == len(answer.unified["choices"])


def test_usage_is_read_from_x_groq() -> None:
    """Where there is no other."""
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    answer = read_stream(CHAT, sse(chunk({"content": "a"}), chunk(finish="stop", x_groq={"id": "r", "usage": usage})))

    assert answer.unified is not None
    assert usage == answer.unified["usage"]


def test_the_empty_id_and_model_of_azure_s_first_chunk_are_ignored() -> None:
    first = {
        "id": "",
        "object": "",
        "created": 0,
        "model": "",
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0}],
    }
    answer = read_stream(CHAT, sse(first, chunk({"content": "a"}), chunk(finish="stop"), with_done=True))

    assert answer.unified is not None
    assert ("chatcmpl-1", "gpt-4o", 7) == tuple(answer.unified[name] for name in ("id", "model", "created"))
    assert [{"prompt_index": 0}] == answer.unified["prompt_filter_results"]


def test_padding_is_dropped() -> None:
    """`obfuscation` only hides the lengths of chunks."""
    answer = read_stream(
        CHAT, sse(chunk({"content": "a"}, obfuscation="xyz"), chunk(finish="stop", obfuscation="q"), with_done=True)
    )

    assert "obfuscation" not in str(answer)


def test_a_stream_without_done_is_complete_when_every_choice_finished() -> None:
    """Some servers never send `[DONE]`."""
    assert ResponseEnding.COMPLETE is read_stream(CHAT, sse(chunk({"content": "a"}), chunk(finish="stop"))).ending


def test_a_stream_without_a_finish_reason_is_truncated() -> None:
    """The text before is kept; half an event is dropped."""
    answer = read_stream(CHAT, sse(chunk({"content": "Par"}), chunk({"content": "is"}))[:-20])

    assert ResponseEnding.CUT is answer.ending
    assert "Par" == message_of(answer)["content"]
    assert 1 == answer.broken_events


def test_an_error_inside_the_stream_keeps_the_text_before_it() -> None:
    answer = read_stream(CHAT, sse(chunk({"content": "Par"}), {"error": {"message": "overloaded", "code": 529}}))

    assert ResponseEnding.ERROR is answer.ending
    assert "Par" == message_of(answer)["content"]
    assert {"message": "overloaded", "code": 529} == answer.body["error"]  # type: ignore[index,call-overload]


def test_an_error_next_to_choices_is_an_error() -> None:
    """OpenRouter sends both in one chunk."""
    last = chunk({"content": ""}, finish="error", error={"code": 502, "message": "upstream"})
    answer = read_stream(CHAT, sse(chunk({"content": "Par"}), last, with_done=True))

    assert ResponseEnding.ERROR is answer.ending
    assert "Par" == message_of(answer)["content"]


def test_an_error_response_has_no_unified_view() -> None:
    """Under any content type, and under status 200 too."""
    error = {"error": {"message": "bad key", "type": "invalid_request_error"}}

    for answer in (read_body(CHAT, error, status=401), read_body(CHAT, error, media_type="text/event-stream")):
        assert (ResponseEnding.ERROR, error, None) == (answer.ending, answer.body, answer.unified)


def test_comments_are_skipped_and_unknown_chunks_counted() -> None:
    data = b": OPENROUTER PROCESSING\n\n" + sse(
        {"ping": 1}, "{broken", chunk({"content": "a"}), chunk(finish="stop"), with_done=True
    )
    answer = read_stream(CHAT, data)

    assert "a" == message_of(answer)["content"]
    assert 1 == answer.unknown_events.total()
    assert 1 == answer.broken_events


def test_several_choices_may_come_in_any_order() -> None:
    """Each is joined by its index."""
    answer = read_stream(
        CHAT,
        sse(chunk({"content": "b"}, index=1), chunk({"content": "a"}), chunk({"content": "B"}, index=1),
            chunk(finish="length", index=1), chunk({"content": "A"}), chunk(finish="stop"), with_done=True),
    )  # fmt: skip

    assert [("aA", "stop"), ("bB", "length")] == [
        (message_of(answer, place)["content"], choice_of(answer, place)["finish_reason"]) for place in (0, 1)
    ]


def test_a_refusal_and_logprobs_are_joined() -> None:
    def probable(name: str, token: str) -> dict[str, Any]:
        return {"content": None, "refusal": None, name: [{"token": token, "logprob": -0.5, "top_logprobs": []}]}

    first, second = chunk({"refusal": "I "}), chunk({"refusal": "can't"})
    first["choices"][0]["logprobs"], second["choices"][0]["logprobs"] = (
        probable("refusal", "I "),
        probable("refusal", "can't"),
    )
    answer = read_stream(CHAT, sse(first, second, chunk(finish="stop"), with_done=True))

    assert "I can't" == message_of(answer)["refusal"]
    assert ["I ", "can't"] == [token["token"] for token in choice_of(answer)["logprobs"]["refusal"]]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_has_one_name(name: str) -> None:
    """Servers have two names for it; both are kept, and `reasoning` is always there."""
    stream = sse(
        chunk({name: "let "}), chunk({name: "me"}), chunk({"content": "4"}), chunk(finish="stop"), with_done=True
    )
    plain = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "4", name: "let me"}}]}

    for answer in (read_stream(CHAT, stream), read_body(CHAT, plain)):
        assert ("let me", "let me") == (message_of(answer)["reasoning"], message_of(answer)[name])


def test_a_content_list_is_split_into_text_and_reasoning() -> None:
    """Mistral sends thoughts as parts of the content, and then plain text."""

    def thought(text: str) -> dict[str, Any]:
        return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}

    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "2+2"}]}, {"type": "text", "text": "it is 4"}]
    stream = sse(
        chunk({"role": "assistant", "content": ""}),
        chunk(thought("2+")),
        chunk(thought("2")),
        chunk({"content": "it "}),
        chunk({"content": [{"type": "text", "text": "is 4"}]}),
        chunk({"content": ""}),
        chunk(finish="stop"),
    )
    plain = {"choices": [{"index": 0, "message": {"role": "assistant", "content": parts}}]}

    for answer in (read_stream(CHAT, stream), read_body(CHAT, plain)):
        assert ("it is 4", "2+2", parts) == tuple(
            message_of(answer)[name] for name in ("content", "reasoning", "parts")
        )


# Tool calls.


def test_tool_calls_are_joined_by_index() -> None:
    """Id and name in the first piece, arguments in all, two calls at once."""
    answer = read_stream(
        CHAT,
        sse(chunk(call("", index=0, id="c0", type="function", name="look")),
            chunk(call("", index=1, id="c1", type="function", name="go")),
            chunk(call('{"a"', index=0)), chunk(call("{}", index=1)), chunk(call(":1}", index=0)), END,
            with_done=True),
    )  # fmt: skip

    assert [("c0", "look", '{"a":1}'), ("c1", "go", "{}")] == calls_of(answer)
    assert "tool_calls" == choice_of(answer)["finish_reason"]


def test_tool_calls_without_an_index_are_separated_by_their_names() -> None:
    """A piece with a name begins a call; one without continues the last."""
    answer = read_stream(
        CHAT,
        sse(
            chunk(call('{"a"', id="c0", name="look")), chunk(call(":1}")), chunk(call("{}", id="c1", name="go")), END
        ),
    )

    assert [("c0", "look", '{"a":1}'), ("c1", "go", "{}")] == calls_of(answer)


def test_tool_calls_with_empty_ids_stay_separate() -> None:
    """Gemini's compatible endpoint gives every call the id ''."""
    answer = read_stream(CHAT, sse(chunk(call("{}", id="", name="look")), chunk(call("{}", id="", name="go")), END))

    assert ["look", "go"] == [name for _, name, _ in calls_of(answer)]


def test_a_new_id_at_the_same_index_is_a_new_call() -> None:
    """Some servers number every call 0; pieces without an id continue the newest."""
    answer = read_stream(
        CHAT,
        sse(
            chunk(call('{"a"', index=0, id="c0", name="look")),
            chunk(call(":1}", index=0)),
            chunk(call("", index=0, id="c1", name="go")),
            chunk(call('{"b"', index=0)),
            chunk(call(":2}", index=0)),
            END,
        ),
    )

    assert [("c0", "look", '{"a":1}'), ("c1", "go", '{"b":2}')] == calls_of(answer)


def test_a_repeated_name_and_id_are_not_joined() -> None:
    """Some servers repeat them in every piece."""
    piece = {"index": 0, "id": "c0", "type": "function", "name": "look"}
    answer = read_stream(
        CHAT, sse(chunk(call("", **piece)), chunk(call("{", **piece)), chunk(call("}", **piece)), END)
    )

    assert [("c0", "look", "{}")] == calls_of(answer)


def test_arguments_that_are_not_json_are_kept_unchanged() -> None:
    answer = read_stream(CHAT, sse(chunk(call('{"a": ', index=0, id="c", name="look")), END))

    assert [("c", "look", '{"a": ')] == calls_of(answer)


def test_a_custom_tool_call_keeps_its_kind() -> None:
    """Custom tools take text, not JSON."""

    def piece(text: str, **fields: Any) -> dict[str, Any]:
        return chunk({"tool_calls": [{"index": 0, "custom": {"input": text, **fields}}]})

    answer = read_stream(CHAT, sse(piece("SELECT", name="sql"), piece(" 1"), END))

    assert {"name": "sql", "input": "SELECT 1"} == message_of(answer)["tool_calls"][0]["custom"]


def test_a_legacy_function_call_is_also_a_tool_call() -> None:
    """It has no id; the old field is kept as well."""
    stream = sse(
        chunk({"function_call": {"name": "look", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk(finish="function_call"),
        with_done=True,
    )
    called = {"name": "look", "arguments": "{}"}
    plain = {"choices": [{"index": 0, "message": {"role": "assistant", "content": None, "function_call": called}}]}

    for answer in (read_stream(CHAT, stream), read_body(CHAT, plain)):
        assert [(None, "look", "{}")] == calls_of(answer)
        assert called == message_of(answer)["function_call"]


# Legacy completions, and requests.


def test_a_legacy_completion_is_read_as_text() -> None:
    def piece(text: str, finish: str | None = None) -> dict[str, Any]:
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "choices": [{"index": 0, "text": text, "finish_reason": finish}],
        }

    answer = read_stream(COMPLETIONS, sse(piece("Par"), piece("is"), piece("", "length"), with_done=True))

    assert ("Paris", "length") == (choice_of(answer)["text"], choice_of(answer)["finish_reason"])
    assert answer.unified is not None
    assert "text_completion" == answer.unified["object"]


def test_synonyms_in_requests_are_translated_and_kept() -> None:
    """`max_completion_tokens` is the newer name, and `stop` may be one string."""
    body = {"model": "m", "messages": [], "max_completion_tokens": 9, "stop": "x", "own": 1}

    assert {**body, "max_tokens": 9, "stop": ["x"]} == decode_request(body)  # type: ignore[arg-type]  # JSON
