"""`context/responses/rr_1.py`: the request to a provider has the blocks' content, in their order."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_texts import fuzz
from support.model_servers import ModelServer, model_server
from traceforge.canon import JSONObject
from traceforge.context.model.block_source import event_role, kind_of
from traceforge.context.model.content import ContentBlock
from traceforge.context.model.objects import EventType
from traceforge.context.responses.rr_1 import render_prompt
from traceforge.errors import StoreRefused
from traceforge.modelio.adapter import content_to_message
from traceforge.modelio.provider_adapters import (
    AnthropicAdapter,
    GeminiAdapter,
    OllamaAdapter,
    OpenAIAdapter,
    ProviderAdapter,
)
from traceforge.wire.dialects import decode_request, decode_response
from traceforge.wire.endpoints import Dialect, find_endpoint
from traceforge.wire.request_encoder import encode_request

ENDPOINTS = {
    Dialect.OPENAI: "/v1/chat/completions",
    Dialect.ANTHROPIC: "/v1/messages",
    Dialect.GEMINI: "/v1beta/models/m:generateContent",
    Dialect.OLLAMA: "/api/chat",
}
dialects = pytest.mark.parametrize("dialect", list(Dialect))


def _block(kind: str, content: Any, role: str = "user", media_type: str = "", number: int = 0) -> ContentBlock:
    return ContentBlock(f"blk_{number:026d}", role, kind_of(kind, content), content, media_type)


def _event(event_type: EventType, content: Any) -> ContentBlock:
    return _block(event_type, content, event_role(event_type))


def _messages(*blocks: ContentBlock, dialect: Dialect = Dialect.OPENAI) -> list[JSONObject]:
    return render_prompt(blocks, dialect).messages


def _call(call_id: str | None, name: str = "look_up", arguments: str = "{}") -> JSONObject:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


contents = (
    st.text(max_size=6)
    | st.dictionaries(st.sampled_from(["content", "score", "tool_call_id", "type", "text"]), st.text(max_size=3))
    | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}), max_size=2)
    | st.lists(st.integers(), max_size=2)
    | st.sampled_from([{"content": None, "tool_calls": [_call("a"), _call("b")]}, {"tool_calls": [_call(None)]}])
    | st.sampled_from([{"tool_call_id": "a", "content": "A."}, {"tool_call_id": "b", "content": "B."}])
)
TOOL_CALLS = _event(EventType.ASSISTANT_MESSAGE, {"content": None, "tool_calls": [_call("a"), _call("b")]})
TOOL_RESULTS = [_event(EventType.TOOL_RESULT, {"tool_call_id": name, "content": name}) for name in "ab"]
events = st.lists(
    st.builds(_event, st.sampled_from(EventType), contents).map(lambda event: [event])
    | st.permutations(TOOL_RESULTS).map(lambda results: [TOOL_CALLS, *results])
    | st.just([TOOL_CALLS]),
    max_size=6,
).map(lambda groups: [block for group in groups for block in group])


@dialects
@fuzz(60)
@given(blocks=events, more=events)
def test_the_messages_of_a_prefix_are_a_prefix_of_the_messages(
    dialect: Dialect, blocks: list[ContentBlock], more: list[ContentBlock]
) -> None:
    """So a fork is rendered with the same beginning as its parent, and each event is one message."""
    before = render_prompt(blocks, dialect)
    after = render_prompt([*blocks, *more], dialect)

    assert before.messages == after.messages[: len(blocks)]
    assert len(blocks) == len(before.messages)
    assert {} == before.parameters == after.parameters


@dialects
@fuzz(60)
@given(blocks=events)
def test_any_history_can_be_rendered_in_every_dialect(dialect: Dialect, blocks: list[ContentBlock]) -> None:
    """A result stands behind its call, and nowhere else: no provider takes one otherwise."""
    request = encode_request(dialect, "m", render_prompt(blocks, dialect).messages, {}, stream=False)
    read: Any = decode_request(find_endpoint("POST", request.path), request.body)["messages"]

    waiting: list[Any] = []
    for message in read:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            waiting = [call["id"] for call in message.get("tool_calls", [])]
            assert all(isinstance(call_id, str) for call_id in waiting)


def test_every_text_is_a_message_in_its_role() -> None:
    """In the order of the blocks, also where roles follow each other."""
    blocks = [
        _block("policy", "Be brief.", "system"),
        _block("document", "A page.", "developer"),
        _event(EventType.USER_MESSAGE, "Where?"),
        _event(EventType.RETRIEVAL_RESULT, "Paris is in France."),
        _event(EventType.ASSISTANT_MESSAGE, "In France."),
        _event(EventType.CHECKPOINT, "Merged."),
        _event(EventType.NOTE, "He is in a hurry."),
    ]

    assert _messages(*blocks) == [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "A page."},
        {"role": "user", "content": "Where?"},
        {"role": "user", "content": "Paris is in France."},
        {"role": "assistant", "content": "In France."},
        {"role": "user", "content": "Merged."},
        {"role": "user", "content": "He is in a hurry."},
    ]


@pytest.mark.parametrize(
    ("event_type", "content", "text"),
    [
        (EventType.RETRIEVAL_RESULT, {"score": 1, "content": "x"}, '{"content":"x","score":1}'),
        (EventType.RETRIEVAL_RESULT, [{"type": "hit", "url": "/"}], '[{"type":"hit","url":"/"}]'),
        (EventType.NOTE, {"type": "object"}, '{"type":"object"}'),
        (EventType.NOTE, [], "[]"),
        (EventType.CHECKPOINT, {"head": "evt_1"}, '{"head":"evt_1"}'),
        (EventType.USER_MESSAGE, {"role": "assistant", "content": "Hi"}, "Hi"),
        (EventType.USER_MESSAGE, {"content": {"a": 1}}, '{"a":1}'),
        (EventType.TOOL_RESULT, {"temperature": 20}, '{"temperature":20}'),
        (EventType.ASSISTANT_MESSAGE, {"content": None, "refusal": None}, ""),
        (EventType.ASSISTANT_MESSAGE, {"answer": 42}, '{"answer":42}'),
    ],
)
def test_a_value_is_sent_as_json_unless_it_is_a_message(event_type: EventType, content: Any, text: str) -> None:
    """A value that only looks a little like a message is not taken apart."""
    (message,) = _messages(_event(event_type, content))

    assert text == message["content"]
    assert {"role", "content"} == message.keys()
    assert ("assistant" if event_type is EventType.ASSISTANT_MESSAGE else "user") == message["role"]


CALLS = _event(
    EventType.ASSISTANT_MESSAGE,
    {"role": "assistant", "content": "Let me see.", "tool_calls": [_call("c1"), _call("c2", "now")]},
)


@pytest.mark.parametrize(
    ("results", "ids"),
    [
        ([{"tool_call_id": "c1", "content": "A"}, {"tool_call_id": "c2", "content": "B"}], ["c1", "c2"]),
        ([{"tool_call_id": "c2", "content": "A"}, {"tool_call_id": "c1", "content": "B"}], ["c2", "c1"]),
        (["A", "B"], ["c1", "c2"]),  # In the order of the calls.
        ([{"tool_call_id": "c2", "content": "A"}, "B"], ["c2", "c1"]),
        ([{"tool_call_id": "c1", "content": "A"}, {"tool_call_id": "c1", "content": "B"}], ["c1", None]),
        ([{"tool_call_id": "c3", "content": "A"}, "B"], [None, None]),
        (["A", "B", "C"], ["c1", "c2", None]),
    ],
)
def test_a_result_answers_a_call_in_front_of_it(results: list[Any], ids: list[str | None]) -> None:
    """By its id, or in order; a result without a call becomes a user message."""
    messages = _messages(CALLS, *(_event(EventType.TOOL_RESULT, result) for result in results))[1:]

    assert ids == [message.get("tool_call_id") for message in messages]
    assert ["user" if tool_call_id is None else "tool" for tool_call_id in ids] == [
        message["role"] for message in messages
    ]
    assert ["A", "B", "C"][: len(messages)] == [message["content"] for message in messages]


def test_a_result_that_does_not_follow_its_call_becomes_a_user_message() -> None:
    """Its call would have to stand directly in front of it."""
    (_, _, result) = _messages(
        CALLS, _event(EventType.NOTE, "Wait."), _event(EventType.TOOL_RESULT, {"tool_call_id": "c1", "content": "A"})
    )

    assert {"role": "user", "content": "A"} == result


def test_a_result_without_content_is_its_other_fields() -> None:
    """Other fields of a result are sent if the dialect has a name for them."""
    given_result = {"tool_call_id": "c1", "name": "look_up", "is_error": True, "rows": [1]}
    blocks = [CALLS, _event(EventType.TOOL_RESULT, given_result)]

    assert {
        "role": "tool",
        "content": '{"rows":[1]}',
        "tool_call_id": "c1",
        "name": "look_up",
    } == _messages(*blocks)[1]
    assert True is _messages(*blocks, dialect=Dialect.ANTHROPIC)[1]["is_error"]


THOUGHT: dict[Dialect, Any] = {
    Dialect.ANTHROPIC: {
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s1gned"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": 1}},
        ],
        "stop_reason": "tool_use",
    },
    Dialect.GEMINI: {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "I look."},
                        {"functionCall": {"name": "look_up", "args": {"q": 1}}, "thoughtSignature": "s1gned"},
                    ],
                },
                "finishReason": "STOP",
            }
        ]
    },
}


@pytest.mark.parametrize("said_by", THOUGHT)
def test_an_answer_goes_back_in_its_provider_s_own_words(said_by: Dialect) -> None:
    """With its signatures, without which the provider takes no thought back; and a result behind it."""
    unified: Any = decode_response(find_endpoint("POST", ENDPOINTS[said_by]), THOUGHT[said_by])
    answer = unified["choices"][0]["message"]
    blocks = [_event(EventType.ASSISTANT_MESSAGE, answer), _event(EventType.TOOL_RESULT, "A cat.")]

    request = encode_request(said_by, "m", render_prompt(blocks, said_by).messages, {}, stream=False)
    read: Any = decode_request(find_endpoint("POST", request.path), request.body)["messages"]

    assert "s1gned" in json.dumps(request.body)
    assert answer["tool_calls"] == read[0]["tool_calls"]
    assert ("tool", answer["tool_calls"][0]["id"]) == (read[1]["role"], read[1]["tool_call_id"])
    assert '"look_up"' in json.dumps(request.body["contents" if said_by is Dialect.GEMINI else "messages"])


@dialects
@pytest.mark.parametrize("said_by", THOUGHT)
def test_an_answer_goes_to_another_provider_in_plain_words(said_by: Dialect, dialect: Dialect) -> None:
    """Text and calls, each call with an id; nothing of the first provider's own."""
    unified: Any = decode_response(find_endpoint("POST", ENDPOINTS[said_by]), THOUGHT[said_by])
    answer = unified["choices"][0]["message"]
    blocks = [_event(EventType.ASSISTANT_MESSAGE, answer), _event(EventType.TOOL_RESULT, "A cat.")]

    message, result = _messages(*blocks, dialect=dialect)

    if dialect is not said_by:
        call_id = answer["tool_calls"][0]["id"] or "call_0"
        assert {"role", "content", "tool_calls"} == message.keys()
        assert [{**answer["tool_calls"][0], "id": call_id}] == message["tool_calls"]
        assert {"role": "tool", "content": "A cat.", "tool_call_id": call_id} == result


def test_a_refusal_goes_back_as_one_where_that_is_known() -> None:
    """And as what was said elsewhere."""
    refused = _event(EventType.ASSISTANT_MESSAGE, {"role": "assistant", "content": None, "refusal": "No."})

    assert [{"role": "assistant", "content": None, "refusal": "No."}] == _messages(refused)
    assert [{"role": "assistant", "content": "No."}] == _messages(refused, dialect=Dialect.ANTHROPIC)


TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "f", "description": "Does.", "parameters": {"type": "object"}}},
    {"type": "function", "name": "f", "description": "Does.", "parameters": {"type": "object"}},
    {"name": "f", "description": "Does.", "input_schema": {"type": "object"}},
    {"name": "f", "description": "Does.", "inputSchema": {"type": "object"}},
    {"functionDeclarations": [{"name": "f", "description": "Does.", "parameters": {"type": "object"}}]},
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "wrap", [lambda t: [t], lambda t: {"tools": [t]}, lambda t: json.dumps([t]), lambda t: json.dumps([t]).encode()]
)
def test_a_tool_bundle_is_the_tools_in_the_dialect_s_words(tool: Any, wrap: Any) -> None:
    """From any dialect, as a value, a text or bytes."""
    bundle = _block("tool_bundle_source", wrap(tool), "system", "application/json")
    question = _event(EventType.USER_MESSAGE, "Hi")

    rendered = {dialect: render_prompt([bundle, question], dialect) for dialect in Dialect}

    assert all([{"role": "user", "content": "Hi"}] == prompt.messages for prompt in rendered.values())
    assert {dialect: prompt.parameters["tools"] for dialect, prompt in rendered.items()} == {
        Dialect.OPENAI: [TOOLS[0]],
        Dialect.ANTHROPIC: [{"name": "f", "input_schema": {"type": "object"}, "description": "Does."}],
        Dialect.GEMINI: [TOOLS[4]],
        Dialect.OLLAMA: [TOOLS[0]],
    }


def test_tools_of_several_bundles_stand_in_their_order() -> None:
    """A parameter that is given counts over them."""
    blocks = [_block("tool_bundle_source", [{"name": name}], "system") for name in ("f", "g")]
    ours = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]

    assert ours == render_prompt(blocks, Dialect.OPENAI).parameters["tools"]
    assert {"tools": [], "seed": 1} == render_prompt(blocks, Dialect.OPENAI, {"tools": [], "seed": 1}).parameters


def test_a_tool_bundle_or_schema_that_is_prose_becomes_a_message() -> None:
    """It is not JSON, so the model reads it as text."""
    blocks = [
        _block("tool_bundle_source", "Use the hammer.", "system"),
        _block("response_schema", "Two lines.", "system"),
    ]

    assert ["Use the hammer.", "Two lines."] == [message["content"] for message in _messages(*blocks)]


SCHEMA = {"title": "City of the world", "type": "object", "properties": {"name": {"type": "string"}}}


def test_a_response_schema_is_the_response_format_in_the_dialect_s_words() -> None:
    """As a schema, or as OpenAI's own format."""
    block = _block("response_schema", SCHEMA, "system")
    wanted = {"type": "json_schema", "json_schema": {"name": "City_of_the_world", "schema": SCHEMA}}

    assert {dialect: render_prompt([block], dialect).parameters for dialect in Dialect} == {
        Dialect.OPENAI: {"response_format": wanted},
        Dialect.ANTHROPIC: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        Dialect.GEMINI: {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
        Dialect.OLLAMA: {"format": SCHEMA},
    }
    assert {"response_format": wanted} == render_prompt(
        [_block("response_schema", wanted)], Dialect.OPENAI
    ).parameters
    assert {"format": SCHEMA} == render_prompt(
        [_block("response_schema", json.dumps(wanted))], Dialect.OLLAMA
    ).parameters


PNG = b"\x89PNG\r\n\x1a\n"


@dialects
def test_an_image_is_read_back_by_every_dialect(dialect: Dialect) -> None:
    """As bytes of an artifact, in the user's role."""
    block = _block("binary_attachment", PNG, "user", "image/png")

    request = encode_request(dialect, "m", _messages(block, dialect=dialect), {}, stream=False)

    assert base64.b64encode(PNG).decode() in json.dumps(request.body)
    assert [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}"}}
    ] == (_messages(block)[0]["content"])


def test_bytes_that_are_text_are_sent_as_text() -> None:
    """By their media type, where they are UTF-8."""
    block = _block("document", "é".encode(), "user", "text/markdown; charset=utf-8")

    assert [{"role": "user", "content": "é"}] == _messages(block)


@pytest.mark.parametrize(
    ("block", "reason", "expected"),
    [
        (
            _block("binary_attachment", b"%PDF", "user", "application/pdf"),
            "unsupported_attachment",
            "application/pdf",
        ),
        (_block("binary_attachment", b"\xff", "user", "text/plain"), "unsupported_attachment", "text/plain"),
        (_block("binary_attachment", b"", "user"), "unsupported_attachment", "unknown"),
        (_block("binary_attachment", PNG, "system", "image/png"), "unsupported_attachment", "in the role of system"),
        (_block("tool_bundle_source", [1], "system"), "unreadable_tool_bundle", "no tools"),
        (_block("tool_bundle_source", [], "system"), "unreadable_tool_bundle", "no tools"),
        (_block("response_schema", [], "system"), "unreadable_response_schema", "not a JSON Schema"),
    ],
)
def test_content_that_cannot_be_sent_is_refused_by_block(block: ContentBlock, reason: str, expected: str) -> None:
    """The error names the block, and nothing that it holds."""
    with pytest.raises(StoreRefused, match=f"block {block.block_id} .*{expected}") as refused:
        render_prompt([block], Dialect.OPENAI)

    assert (reason, 422) == (refused.value.reason, refused.value.status)


def test_two_response_schemas_are_refused() -> None:
    """An answer has one."""
    with pytest.raises(StoreRefused, match="second response schema"):
        render_prompt([_block("response_schema", SCHEMA), _block("response_schema", SCHEMA)], Dialect.OPENAI)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all providers."""
    with model_server() as running:
        yield running


@pytest.mark.parametrize("kind", [OpenAIAdapter, AnthropicAdapter, GeminiAdapter, OllamaAdapter])
def test_a_provider_is_asked_with_what_is_rendered(server: ModelServer, kind: type[ProviderAdapter]) -> None:
    """Instructions, tools, an image, a call and its result: the provider sees the tool, and calls it again."""
    blocks = [
        _block("policy", "Be brief.", "system"),
        _block("document", "In one word.", "developer"),
        _block("tool_bundle_source", TOOLS[2], "system"),
        _block("binary_attachment", PNG, "user", "image/png"),
        _event(EventType.USER_MESSAGE, "What is it?"),
        _event(EventType.ASSISTANT_MESSAGE, {"content": None, "tool_calls": [_call("c1", "f")]}),
        _event(EventType.TOOL_RESULT, {"tool_call_id": "c1", "content": "A cat."}),
        _event(EventType.USER_MESSAGE, "And now?"),
    ]
    rendered = render_prompt(blocks, kind.dialect, {"tool_choice": "required", "max_tokens": 60})
    adapter = kind("model-1", url=server.url, api_key="test-key", parameters=rendered.parameters)

    message = content_to_message(adapter.complete(rendered.messages).text)

    assert message is not None
    assert ["f"] == [call["function"]["name"] for call in message["tool_calls"]]  # type: ignore[union-attr,index,call-overload]
    prompt = render_prompt([*blocks, _event(EventType.ASSISTANT_MESSAGE, message)], kind.dialect)
    assert rendered.messages == prompt.messages[:-1]


@pytest.mark.parametrize(
    "parts",
    [
        [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}],
        [{"type": "text", "text": "Yes, and more."}],
        {"parts": [{"text": "Yes, and more."}], "role": "model"},
        {"role": "assistant", "content": "Yes."},
    ],
)
@dialects
def test_parts_that_do_not_say_what_the_answer_says_are_not_sent(dialect: Dialect, parts: Any) -> None:
    """They are in another provider's words: the answer goes in plain ones."""
    answer = _event(EventType.ASSISTANT_MESSAGE, {"role": "assistant", "content": "Yes.", "parts": parts})

    assert [{"role": "assistant", "content": "Yes."}] == _messages(answer, dialect=dialect)
