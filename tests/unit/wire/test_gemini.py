"""Gemini and Vertex as small transcripts: parts, signatures, refused prompts, two ways to stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.wire_transcripts import GEMINI, calls_of, choice_of, message_of, read_body, read_stream, sse
from traceforge.wire.gemini import decode_request
from traceforge.wire.response_reader import ParsedResponse, ResponseEnding

USAGE = {
    "promptTokenCount": 10,
    "candidatesTokenCount": 4,
    "thoughtsTokenCount": 6,
    "totalTokenCount": 20,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
}


def chunk(*parts: dict[str, Any], finish: Any = None, **more: Any) -> dict[str, Any]:
    """An answer, or a piece of one: both have the same shape."""
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r1", **more}


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"text": content, **more}


def function_call(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **fields}}


def view(answer: ParsedResponse) -> dict[str, Any]:
    assert answer.unified is not None
    return answer.unified


def array(*values: object) -> bytes:
    """The stream without `alt=sse`, spaced as Google spaces it."""
    return b"[" + b"\n,\r\n".join(json.dumps(value, indent=2).encode() for value in values) + b"\n]\n"


def test_a_plain_answer_has_openai_s_names() -> None:
    """Id, model, text and usage; thoughts count as completion tokens."""
    unified = view(read_body(GEMINI, chunk(text("Paris"), finish="STOP", usageMetadata=USAGE)))

    assert ("r1", "gemini-2.5-flash") == (unified["id"], unified["model"])
    assert [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Paris"},
            "finish_reason": "stop",
            "provider_finish_reason": "STOP",
        }
    ] == unified["choices"]
    assert {
        "prompt_tokens": 10,
        "completion_tokens": 10,
        "total_tokens": 20,
        "completion_tokens_details": {"reasoning_tokens": 6},
        "provider": USAGE,
    } == unified["usage"]


PIECES = [
    chunk(text("Par"), usageMetadata={"promptTokenCount": 10}),
    chunk(text("is 😀"), finish="STOP", usageMetadata=USAGE),
]
FULL_ANSWER = chunk(text("Paris 😀"), finish="STOP", usageMetadata=USAGE)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        pytest.param(sse(*PIECES), "text/event-stream", id="events"),
        pytest.param(sse(*PIECES).replace(b"\n", b"\r\n"), "text/event-stream", id="events in CRLF"),
        pytest.param(array(*PIECES), "application/json; charset=UTF-8", id="array"),
        pytest.param(json.dumps(PIECES).encode(), "application/json", id="compact array"),
    ],
)
def test_a_stream_equals_the_plain_answer(data: bytes, media_type: str) -> None:
    """There is no terminator: a finish reason is the end. Each chunk repeats the counts."""
    answer = read_stream(GEMINI, data, media_type)

    assert ResponseEnding.COMPLETE is answer.ending
    assert FULL_ANSWER == answer.body
    assert view(read_body(GEMINI, FULL_ANSWER)) == answer.unified


@pytest.mark.parametrize("size", [1, 3, 40])
def test_a_stream_without_a_finish_reason_is_truncated(size: int) -> None:
    """As events, and as an array without its closing bracket."""
    pieces = [chunk(text("Par")), chunk(text("is"))]
    for data, kind in ((sse(*pieces), "text/event-stream"), (array(*pieces), "application/json")):
        answer = read_stream(GEMINI, data[:-size], kind)
        assert ResponseEnding.CUT is answer.ending
        assert message_of(answer)["content"] in ("Par", "Paris")


def test_thoughts_are_reasoning() -> None:
    """A part that is marked as thought is not part of the text."""
    pieces = [chunk(text("let ", thought=True)), chunk(text("me", thought=True)), chunk(text("4"), finish="STOP")]
    answer = read_stream(GEMINI, sse(*pieces))

    assert ("4", "let me") == (message_of(answer)["content"], message_of(answer)["reasoning"])


def test_a_signature_stays_with_its_part() -> None:
    """The provider expects it back with exactly that part."""
    pieces = [
        chunk(text("A", thoughtSignature="s1")),
        chunk(text("B")),
        chunk(text("", thoughtSignature="s2"), finish="STOP"),
    ]
    answer = read_stream(GEMINI, sse(*pieces))

    assert "AB" == message_of(answer)["content"]
    assert [text("A", thoughtSignature="s1"), text("B", thoughtSignature="s2")] == message_of(answer)["parts"][
        "parts"
    ]


def test_an_empty_text_part_changes_nothing() -> None:
    """Streams often end with one."""
    answer = read_stream(GEMINI, sse(chunk(text("a")), chunk(text(""), finish="STOP")))

    assert "a" == message_of(answer)["content"]
    assert "parts" not in message_of(answer)


def test_function_calls_are_tool_calls() -> None:
    """With and without an id; the reason is `STOP` all the same."""
    answer = read_body(
        GEMINI, chunk(function_call("look", args={"a": 1}), function_call("go", id="f1"), finish="STOP")
    )

    assert [(None, "look", '{"a":1}'), ("f1", "go", "{}")] == calls_of(answer)
    assert ("tool_calls", "STOP") == (choice_of(answer)["finish_reason"], choice_of(answer)["provider_finish_reason"])


def test_arguments_are_joined_from_pieces() -> None:
    """The later pieces of a call with `willContinue` have no name; strings are appended, other values are set."""

    def continued_call(*pieces: dict[str, Any], more: bool = True) -> dict[str, Any]:
        partial: dict[str, Any] = {"partialArgs": list(pieces)} if pieces else {}
        return chunk({"functionCall": {**partial, **({"willContinue": True} if more else {})}})

    answer = read_stream(
        GEMINI,
        sse(chunk({**function_call("look", willContinue=True), "thoughtSignature": "s"}),
            continued_call({"jsonPath": "$.city", "stringValue": "Par", "willContinue": True}),
            continued_call({"jsonPath": "$.city", "stringValue": "is"}),
            continued_call({"jsonPath": "$.at[1].n", "numberValue": 2}, {"jsonPath": "$.at[0]", "boolValue": True}),
            continued_call({"jsonPath": "$.none", "nullValue": "NULL_VALUE"}),
            continued_call(more=False),
            chunk(function_call("go", args={})),
            chunk(text(""), finish="STOP")),
    )  # fmt: skip

    assert ["look", "go"] == [name for _, name, _ in calls_of(answer)]
    assert {"city": "Paris", "at": [True, {"n": 2}], "none": None} == json.loads(calls_of(answer)[0][2])
    assert "partialArgs" not in str(answer.body)
    assert "s" == message_of(answer)["parts"]["parts"][0]["thoughtSignature"]


def test_a_truncated_call_keeps_the_arguments_received() -> None:
    piece = {"functionCall": {"partialArgs": [{"jsonPath": "$.city", "stringValue": "Par"}], "willContinue": True}}
    answer = read_stream(GEMINI, sse(chunk(function_call("look", willContinue=True)), chunk(piece)))

    assert (ResponseEnding.CUT, [(None, "look", '{"city":"Par"}')]) == (answer.ending, calls_of(answer))


@pytest.mark.parametrize("path", ["$", "", "city", "$.a[999999999999]", "$" + ".a" * 5000])
def test_an_argument_with_an_impossible_path_is_left_out(path: str) -> None:
    """The raw response keeps it."""
    piece = {"functionCall": {"partialArgs": [{"jsonPath": path, "numberValue": 1}]}}
    answer = read_stream(
        GEMINI, sse(chunk(function_call("look", willContinue=True)), chunk(piece), chunk(finish="STOP"))
    )

    assert "look" == calls_of(answer)[0][1]


def test_code_and_its_result_are_kept_unchanged() -> None:
    """They are neither text nor tool calls."""
    parts = [
        {"executableCode": {"language": "PYTHON", "code": "1+1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    ]
    answer = read_body(GEMINI, chunk(*parts, text("2"), finish="STOP"))

    assert [*parts, text("2")] == message_of(answer)["parts"]["parts"]
    assert "2" == message_of(answer)["content"]


def test_a_refused_prompt_has_no_candidates() -> None:
    """Plain and streamed; the view has the reason and no choice."""
    body = {
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3},
        "modelVersion": "g",
        "responseId": "r",
    }

    for answer in (read_body(GEMINI, body), read_stream(GEMINI, sse(body))):
        assert ResponseEnding.COMPLETE is answer.ending
        assert ([], {"blockReason": "SAFETY"}) == (view(answer)["choices"], view(answer)["promptFeedback"])
        assert 3 == view(answer)["usage"]["prompt_tokens"]


@pytest.mark.parametrize("content", [{}, {"role": "model"}, {"parts": []}, None])
def test_a_candidate_without_parts_has_no_content(content: Any) -> None:
    """A safety stop, or thoughts that used every token."""
    body = {"candidates": [{"content": content, "finishReason": "MAX_TOKENS", "index": 0}]}

    for answer in (read_body(GEMINI, body), read_stream(GEMINI, sse(body))):
        assert message_of(answer)["content"] is None
        assert "length" == choice_of(answer)["finish_reason"]


def test_a_chunk_with_null_content_loses_nothing() -> None:
    """The text before it stays."""
    nothing = {"candidates": [{"content": None, "index": 0}]}
    answer = read_stream(GEMINI, sse(chunk(text("Par")), nothing, chunk(text("is"), finish="STOP")))

    assert "Paris" == message_of(answer)["content"]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("STOP", "stop"), ("MAX_TOKENS", "length"), ("SAFETY", "content_filter"), ("RECITATION", "content_filter"),
     ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"), (1, "stop"), (2, "length"), (3, "content_filter")],
)  # fmt: skip
def test_finish_reasons_are_translated_and_kept(reason: Any, finish: str) -> None:
    """Vertex can be configured to send numbers."""
    choice = choice_of(read_body(GEMINI, chunk(text("a"), finish=reason)))

    assert (finish, reason) == (choice["finish_reason"], choice["provider_finish_reason"])


def test_several_candidates_are_several_choices() -> None:
    """By their index, in a stream too."""

    def two_candidates(first: str, second: str, **more: Any) -> dict[str, Any]:
        return {
            "candidates": [
                {"content": {"parts": [text(t)]}, "index": i, **more} for i, t in enumerate((first, second))
            ]
        }

    answer = read_stream(GEMINI, sse(two_candidates("a", "b"), two_candidates("A", "B", finishReason="STOP")))

    assert ["aA", "bB"] == [message_of(answer, place)["content"] for place in (0, 1)]


def test_an_error_is_found_in_events_and_arrays() -> None:
    error = {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}

    labelled = read_body(GEMINI, error, status=429, media_type="text/event-stream")
    inside = read_stream(GEMINI, sse(chunk(text("Par")), error))
    listed = read_stream(GEMINI, array(error), "application/json")
    assert [ResponseEnding.ERROR] * 3 == [labelled.ending, inside.ending, listed.ending]
    assert "Par" == message_of(inside)["content"]
    assert error == labelled.body == listed.body


def test_a_request_is_decoded_to_openai_s_messages() -> None:
    """Roles, the system instruction, calls and results, and settings by OpenAI's names."""
    unified = decode_request(
        {
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [function_call("look", args={})]},
                {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"x": 1}}}]},
            ],
            "generationConfig": {"maxOutputTokens": 9, "temperature": 0, "stopSequences": ["x"]},
            "tools": [{"functionDeclarations": [{"name": "look"}]}, {"googleSearch": {}}],
        },
        "gemini-2.5-flash",
    )

    assert ["system", "user", "assistant", "tool"] == [m["role"] for m in unified["messages"]]  # type: ignore[union-attr,index,call-overload]
    assert ("gemini-2.5-flash", 9, 0, ["x"]) == tuple(
        unified[n] for n in ("model", "max_tokens", "temperature", "stop")
    )
    assert [{"type": "function", "function": {"name": "look"}}, {"googleSearch": {}}] == unified["tools"]
