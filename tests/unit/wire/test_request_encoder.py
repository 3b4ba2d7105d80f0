"""`wire/request_encoder.py` and the encoders it calls: an encoded request decodes to the same messages."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from support.json_texts import fuzz
from traceforge.canon import JSONObject
from traceforge.wire.dialects import decode_request
from traceforge.wire.endpoints import Dialect, find_endpoint
from traceforge.wire.parameter_encoder import encode_parameters
from traceforge.wire.request_encoder import encode_request

PIXEL = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "description": "Finds.", "parameters": {"type": "object", "properties": {}}},
}

texts = st.text(min_size=1, max_size=8)
names = st.sampled_from(["look_up", "add", "now"])
arguments = st.dictionaries(
    st.sampled_from("abc"), st.integers(-5, 5) | st.text(max_size=4) | st.booleans(), max_size=2
)


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """A message, or a message of calls with a result for each of them."""
    kind = draw(st.sampled_from(["user", "image", "assistant", "calls", "system", "developer"]))
    if kind == "image":
        return [{"role": "user", "content": [{"type": "text", "text": draw(texts)}, IMAGE]}]
    if kind != "calls":
        return [{"role": kind, "content": draw(texts)}]
    calls = [
        {
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": draw(names), "arguments": json.dumps(draw(arguments))},
        }
        for place in range(draw(st.integers(1, 3)))
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": draw(texts)} for call in calls]
    return [{"role": "assistant", "content": draw(st.none() | texts), "tool_calls": calls}, *results]


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 6))
    return [message for number in range(count) for message in draw(turns(number))]


def _content_of(message: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The parts, calls and results of a message, in the same form for every dialect."""
    role = {"developer": "system"}.get(message["role"], message["role"])
    content = message.get("content")
    if role == "tool":
        if isinstance(content, list) and content and "output" in content[0]:
            (content,) = (part["output"] for part in content)  # Gemini
        return [("result", message["tool_call_id"], content)]
    parts = [{"text": content}] if isinstance(content, str) else content or []
    contents = [(role, _part(part)) for part in parts if part.get("text") != ""]
    contents += [(role, ("image", "image/png", data)) for data in message.get("images", [])]  # Ollama
    for call in message.get("tool_calls", []):
        given_arguments = call["function"]["arguments"]
        parsed = given_arguments if isinstance(given_arguments, dict) else json.loads(given_arguments)
        contents.append(("call", call["id"], call["function"]["name"], json.dumps(parsed, sort_keys=True)))
    return contents


def _part(part: dict[str, Any]) -> tuple[str, ...]:
    if "text" in part:
        return ("text", part["text"])
    if "inlineData" in part:
        return ("image", part["inlineData"]["mimeType"], part["inlineData"]["data"])
    if "source" in part:
        return ("image", part["source"]["media_type"], part["source"]["data"])
    return ("image", "image/png", part["image_url"]["url"].rpartition(",")[2])


@pytest.mark.parametrize("dialect", list(Dialect))
@fuzz(40)
@given(chat=conversations())
def test_an_encoded_request_decodes_to_the_same_messages(dialect: Dialect, chat: list[Any]) -> None:
    """Every text, image, call and result, in order and under its id; system messages may move to the front."""
    request = encode_request(dialect, "model-1", chat, {}, stream=True)
    read: list[Any] = decode_request(find_endpoint("POST", request.path), request.body)["messages"]  # type: ignore[assignment]

    expected = [content for message in chat for content in _content_of(message)]
    actual = [content for message in read for content in _content_of(message)]
    if dialect in (Dialect.ANTHROPIC, Dialect.GEMINI):
        expected.sort(key=lambda content: content[0] != "system")
    assert expected == actual


@pytest.mark.parametrize("dialect", list(Dialect))
@fuzz(40)
@given(chat=conversations(), more=conversations())
def test_a_longer_chat_begins_with_the_same_turns(dialect: Dialect, chat: list[Any], more: list[Any]) -> None:
    """Appended messages, except instructions, leave the earlier ones as they are: a prompt cache still hits."""
    appended = [message for message in more if message["role"] not in ("system", "developer")]
    field = "contents" if dialect is Dialect.GEMINI else "messages"

    short_body: Any = encode_request(dialect, "m", chat, {}, stream=False).body
    long_body: Any = encode_request(dialect, "m", [*chat, *appended], {}, stream=False).body

    assert short_body[field] == long_body[field][: len(short_body[field])]
    assert {name: value for name, value in short_body.items() if name != field} == {
        name: value for name, value in long_body.items() if name != field
    }


CALLS: list[Any] = [
    {"role": "user", "content": "What is it, and when?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"q": "it"}'}},
            {"id": "c2", "type": "function", "function": {"name": "now", "arguments": ""}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "A cat."},
    {"role": "tool", "tool_call_id": "c2", "content": "Noon."},
]


def test_calls_and_results_in_anthropic_s_words() -> None:
    """All results of a turn are one user message."""
    body: Any = encode_request(Dialect.ANTHROPIC, "m", CALLS, {}, stream=False).body

    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": "it"}},
                {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "A cat."},
                {"type": "tool_result", "tool_use_id": "c2", "content": "Noon."},
            ],
        },
    ]


def test_calls_and_results_in_gemini_s_words() -> None:
    """A result has the name of its call, and a turn has as many results as calls."""
    body: Any = encode_request(Dialect.GEMINI, "m", CALLS, {}, stream=False).body

    assert body["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "c1", "name": "look_up", "args": {"q": "it"}}},
                {"functionCall": {"id": "c2", "name": "now", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "look_up", "response": {"output": "A cat."}}},
                {"functionResponse": {"id": "c2", "name": "now", "response": {"output": "Noon."}}},
            ],
        },
    ]


def test_calls_and_results_in_ollama_s_words() -> None:
    """Arguments are an object, and a result names its tool."""
    body: Any = encode_request(Dialect.OLLAMA, "m", CALLS, {}, stream=False).body

    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "function": {"name": "look_up", "arguments": {"q": "it"}}},
                {"id": "c2", "function": {"name": "now", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "A cat.", "tool_name": "look_up"},
        {"role": "tool", "tool_call_id": "c2", "content": "Noon.", "tool_name": "now"},
    ]


@cache
def _sdk_types() -> dict[Dialect, TypeAdapter[Any]]:
    """The type of one message in each provider's own SDK."""
    from anthropic.types import MessageParam
    from google.genai.types import Content
    from ollama import Message
    from openai.types.chat import ChatCompletionMessageParam

    return {
        Dialect.OPENAI: TypeAdapter(ChatCompletionMessageParam),
        Dialect.ANTHROPIC: TypeAdapter(MessageParam),
        Dialect.GEMINI: TypeAdapter(Content),  # Refuses a field that it does not know.
        Dialect.OLLAMA: TypeAdapter(Message),
    }


@pytest.mark.parametrize("dialect", list(Dialect))
@fuzz(25)
@given(chat=conversations())
def test_every_encoded_message_fits_the_sdk_s_type(dialect: Dialect, chat: list[Any]) -> None:
    body: Any = encode_request(dialect, "m", chat, {}, stream=False).body

    for message in body["contents" if dialect is Dialect.GEMINI else "messages"]:
        message.pop("images", None)  # Ollama's SDK makes the base64 of them itself.
        _sdk_types()[dialect].validate_python(message)


PARAMETERS: JSONObject = {
    "max_tokens": 50,
    "temperature": 0.5,
    "top_p": 0.9,
    "stop": ["END"],
    "tools": [TOOL],
    "tool_choice": "required",
}


@pytest.mark.parametrize("dialect", list(Dialect))
def test_encoded_parameters_decode_to_their_unified_names(dialect: Dialect) -> None:
    """Sampling and tools; the decoder leaves Gemini's tool choice untranslated."""
    parameters = encode_parameters(dialect, PARAMETERS)
    request = encode_request(dialect, "m", [{"role": "user", "content": "Hi"}], parameters, stream=False)
    read = decode_request(find_endpoint("POST", request.path), request.body)

    for name, value in PARAMETERS.items():
        if (dialect, name) != (Dialect.GEMINI, "tool_choice"):
            assert value == read[name], name


def test_parameters_in_each_dialect_s_words() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    wanted: JSONObject = {
        **PARAMETERS,
        "stop": "END",
        "seed": 7,
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    function = TOOL["function"]

    assert wanted == encode_parameters(Dialect.OPENAI, wanted)
    assert encode_parameters(Dialect.ANTHROPIC, wanted) == {
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop_sequences": ["END"],
        "tools": [{"name": "look_up", "description": "Finds.", "input_schema": function["parameters"]}],
        "tool_choice": {"type": "tool", "name": "look_up"},
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }
    assert encode_parameters(Dialect.GEMINI, wanted) == {
        "generationConfig": {
            "maxOutputTokens": 50,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["END"],
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": schema,
        },
        "tools": [{"functionDeclarations": [function]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look_up"]}},
    }
    assert encode_parameters(Dialect.OLLAMA, wanted) == {
        "options": {"num_predict": 50, "temperature": 0.5, "top_p": 0.9, "stop": ["END"], "seed": 7},
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "look_up"}},
        "format": schema,
    }


def test_a_parameter_in_the_dialect_s_words_overrules_its_translation() -> None:
    """And the other parameters are kept."""
    own: JSONObject = {"temperature": 0.5, "generationConfig": {"temperature": 1, "topK": 3}, "safetySettings": []}

    assert encode_parameters(Dialect.GEMINI, own) == {
        "generationConfig": {"temperature": 1, "topK": 3},
        "safetySettings": [],
    }
    assert {"options": {"seed": 2, "num_ctx": 9}, "keep_alive": 0} == encode_parameters(
        Dialect.OLLAMA, {"seed": 1, "options": {"seed": 2, "num_ctx": 9}, "keep_alive": 0}
    )
    assert {"max_tokens": 9, "thinking": {}} == encode_parameters(
        Dialect.ANTHROPIC, {"max_completion_tokens": 9, "thinking": {}}
    )


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (Dialect.OPENAI, {"response_format": {"type": "json_object"}}),
        (
            Dialect.ANTHROPIC,
            {"response_format": {"type": "json_object"}},
        ),  # It has no such parameter, and will answer with an error.
        (Dialect.GEMINI, {"generationConfig": {"responseMimeType": "application/json"}}),
        (Dialect.OLLAMA, {"format": "json"}),
    ],
)
def test_the_format_any_json_is_encoded_where_the_dialect_has_it(dialect: Dialect, expected: JSONObject) -> None:
    """The format `text` is left out."""
    assert expected == encode_parameters(dialect, {"response_format": {"type": "json_object"}})
    if dialect is not Dialect.OPENAI:
        assert {} == encode_parameters(dialect, {"response_format": {"type": "text"}})


@pytest.mark.parametrize(
    ("choice", "anthropic", "gemini"),
    [("auto", "auto", "AUTO"), ("required", "any", "ANY"), ("none", "none", "NONE")],
)
def test_a_tool_choice_is_translated(choice: str, anthropic: str, gemini: str) -> None:
    assert {"tool_choice": {"type": anthropic}} == encode_parameters(Dialect.ANTHROPIC, {"tool_choice": choice})
    assert {"toolConfig": {"functionCallingConfig": {"mode": gemini}}} == encode_parameters(
        Dialect.GEMINI, {"tool_choice": choice}
    )


def test_a_provider_s_own_tool_is_not_translated() -> None:
    """A search that the provider runs, next to a function; Gemini accepts no `strict`."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    ours = {"type": "function", "function": {"name": "f", "strict": True}}

    assert encode_parameters(Dialect.ANTHROPIC, {"tools": [search, ours]}) == {
        "tools": [search, {"name": "f", "input_schema": {"type": "object"}, "strict": True}]
    }
    assert encode_parameters(Dialect.GEMINI, {"tools": [{"googleSearch": {}}, ours]}) == {
        "tools": [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}]
    }
