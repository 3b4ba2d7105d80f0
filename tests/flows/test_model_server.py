"""The model server: the real SDKs accept it as a provider, and its answers depend only on the request."""

from __future__ import annotations

import copy
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx
import jsonschema
import ollama
import openai
import pydantic
import pytest
from google import genai
from google.genai import types as genai_types

from support.model_servers import EXAMPLES, ModelServer, model_server, model_server_process
from support.sdk_calls import KEY, SDK_CALLS, SdkCall
from support.tool_agents import AGENTS, QUESTION, anthropic_text
from traceforge.wire import bedrock
from traceforge.wire.binary_frames import FrameParser

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """One for all tests of this file."""
    with model_server() as running:
        yield running


# -- every SDK, every way


@pytest.mark.parametrize("call", SDK_CALLS, ids=lambda call: call.name)
def test_every_sdk_gets_the_same_answer_every_time(server: ModelServer, call: SdkCall) -> None:
    """Plain and streaming, sync and async; a stream has several chunks."""
    served = server.served
    first, second = (call.call(server.url, lambda event: None) for _ in range(2))

    assert first == second
    assert 2 == server.served - served
    assert not call.streaming or len(first) > 2


@pytest.mark.slow
@pytest.mark.parametrize("call", SDK_CALLS, ids=lambda call: call.name)
def test_a_salt_gives_other_answers(server: ModelServer, call: SdkCall) -> None:
    """Like another version of the model."""
    with model_server(salt="v2") as other:
        assert call.call(server.url, lambda event: None) != call.call(other.url, lambda event: None)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.__name__)
def test_an_agent_calls_its_tool_and_gets_an_answer_from_the_result(
    server: ModelServer, agent: Callable[[str], str]
) -> None:
    """The arguments fit the schema, and come from the question."""
    assert "The order id is A-1001, the status is delivered, the total is 59.9." in agent(server.url)


# -- what else the APIs can do


class Verdict(pydantic.BaseModel):
    """An answer that must be JSON."""

    refund: bool
    reason: str
    steps: list[str]


def test_answers_fit_the_requested_schema(server: ModelServer) -> None:
    """With each SDK."""
    prompt: Any = [{"role": "user", "content": QUESTION}]
    schema = Verdict.model_json_schema()
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
        chat = client.chat.completions.parse(model="m", messages=prompt, response_format=Verdict)
        response = client.responses.parse(model="m", input=QUESTION, text_format=Verdict)
        loose = client.chat.completions.create(model="m", messages=prompt, response_format={"type": "json_object"})
    with anthropic.Anthropic(base_url=server.url, api_key=KEY) as claude:
        output: Any = {"format": {"type": "json_schema", "schema": schema}}
        message = claude.messages.create(model="m", max_tokens=200, messages=prompt, output_config=output)
    with genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=server.url)) as gemini:
        config = genai_types.GenerateContentConfig(response_mime_type="application/json", response_schema=Verdict)
        content = gemini.models.generate_content(model="m", contents=QUESTION, config=config)
    local = ollama.Client(host=server.url)
    with local._client:
        llama = local.chat(model="m", messages=prompt, format=schema)

    assert isinstance(chat.choices[0].message.parsed, Verdict)
    assert isinstance(response.output_parsed, Verdict)
    assert isinstance(json.loads(loose.choices[0].message.content or ""), dict)
    assert Verdict.model_validate_json(anthropic_text(message))
    assert isinstance(content.parsed, Verdict)
    assert Verdict.model_validate_json(llama.message.content or "")


def test_completions_and_embeddings(server: ModelServer) -> None:
    """The calls without a conversation, with each SDK that has them."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
        completion = client.completions.create(model="m", prompt="Once upon a time", max_tokens=7)
        stream = client.completions.create(model="m", prompt="Once upon a time", max_tokens=7, stream=True)
        text = "".join(chunk.choices[0].text for chunk in stream)
        packed = client.embeddings.create(model="m", input=["a", "b", "a"], dimensions=5)
        loose = client.embeddings.create(model="m", input="a", encoding_format="float")
    with genai.Client(api_key=KEY, http_options=genai_types.HttpOptions(base_url=server.url)) as gemini:
        embedded = gemini.models.embed_content(model="m", contents=["a", "b"])
    local = ollama.Client(host=server.url)
    with local._client:
        vectors = local.embed(model="m", input=["a", "b"]).embeddings
        generated = local.generate(model="m", prompt="Why?")
        pieces = [part.response for part in local.generate(model="m", prompt="Why?", stream=True)]

    assert ("length", 7) == (
        completion.choices[0].finish_reason,
        len(completion.choices[0].text.split()),
    )
    assert 7 == len(text.split())
    assert [5, 5, 5] == [len(item.embedding) for item in packed.data]
    assert packed.data[0].embedding == packed.data[2].embedding != packed.data[1].embedding
    assert 1 == pytest.approx(sum(value**2 for value in loose.data[0].embedding), abs=1e-6)
    assert 2 == len(embedded.embeddings or []) == len(vectors)
    assert generated.response
    assert len(pieces) > 3


def test_bedrock_streams_the_answer_of_converse_in_frames(server: ModelServer) -> None:
    """The plain answer and the stream have their own words, and both call the tool that the question mentions."""
    tool = {"toolSpec": {"name": "look_up", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
    body = {
        "system": [{"text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"text": "Use look_up."}]}],
        "toolConfig": {"tools": [tool]},
    }
    with httpx.Client(base_url=f"{server.url}/model/anthropic.m-v1%3A0") as client:
        plain = client.post("/converse", json=body).json()
        stream = client.post("/converse-stream", json=body)
        refused = client.post("/converse", json={**body, "inferenceConfig": {"temperature": 2}})
    assembler = bedrock.new_assembler()
    for event in FrameParser().feed(stream.content):
        assembler.add_event(json.loads(event.data), event.name)
    streamed = assembler.finish()

    assert ("application/vnd.amazon.eventstream", True) == (stream.headers["content-type"], assembler.is_complete)
    assert "tool_use" == plain["stopReason"] == streamed["stopReason"]
    assert plain["usage"].keys() == streamed["usage"].keys()  # type: ignore[union-attr]
    assert ["text", "toolUse"] == [name for block in plain["output"]["message"]["content"] for name in block]
    assert (400, "ValidationException") == (refused.status_code, refused.json()["code"])


def test_gemini_streams_an_array_without_alt_sse(server: ModelServer) -> None:
    """As the REST API does by default: the same documents."""
    url = f"{server.url}/v1beta/models/m:streamGenerateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}

    plain, sse = (httpx.post(url + query, json=body) for query in ("", "?alt=sse"))

    frames = [json.loads(frame.removeprefix("data: ")) for frame in sse.text.split("\r\n\r\n") if frame]
    assert plain.json() == frames
    assert len(frames) > 2


def test_a_stream_has_usage_only_on_request(server: ModelServer) -> None:
    """In a last chunk without choices."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
        call: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        without = [chunk.usage for chunk in client.chat.completions.create(**call)]
        chunks = list(client.chat.completions.create(**call, stream_options={"include_usage": True}))

    assert not any(without)
    assert [] == chunks[-1].choices
    assert chunks[-1].usage is not None
    assert not any(chunk.usage for chunk in chunks[:-1])


@pytest.mark.parametrize(
    ("path", "data", "status"),
    [("/v1/chat/completions", b"{", 400), ("/v1/messages", b"[]", 400), ("/v1/nothing", b"{}", 404),
     ("/v1/chat/completions", b'{"messages": 1}', 400)],
)  # fmt: skip
def test_a_malformed_request_is_refused_and_not_counted(
    server: ModelServer, path: str, data: bytes, status: int
) -> None:
    """With the error object that SDKs read."""
    served = server.served
    refused = httpx.post(server.url + path, content=data)

    assert status == refused.status_code
    assert refused.json()["error"]["message"]
    assert served == server.served


def test_the_command_prints_its_url_and_counts_calls() -> None:
    """One line, a free port, and a salt."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with model_server_process() as plain, model_server_process("--salt", "x") as other:
        answers = [httpx.post(f"{url}/v1/chat/completions", json=body).json() for url in (plain.url, other.url)]
        counts = [plain.count_served(), other.count_served()]

    assert answers[0]["choices"][0]["message"]["content"] != answers[1]["choices"][0]["message"]["content"]
    assert [1, 1] == counts


def test_a_client_that_resets_its_connection_is_not_printed(
    server: ModelServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """The next request is answered; any other fault of the server is printed."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.send(b"POST / HTTP/1.1\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # Closing sends a reset.
    gone, wrong = ConnectionResetError(104, "reset by peer"), ValueError("a fault")
    for error in (gone, wrong):
        try:
            raise error
        except (ConnectionError, ValueError):
            server.handle_error(None, ("127.0.0.1", 1))

    assert httpx.get(server.url, trust_env=False).status_code < 500
    printed = capfd.readouterr().err
    assert ("ValueError: a fault" in printed, "ConnectionResetError" in printed) == (True, False)


def test_the_model_server_needs_the_standard_library_only() -> None:
    """It starts from a checkout without any installed package."""
    command = [sys.executable, "-S", str(EXAMPLES / "model_server"), "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (0, "") == (result.returncode, result.stderr)
    assert "Run a model server without a model" in result.stdout


def test_a_lone_surrogate_is_answered_with_an_escape(server: ModelServer) -> None:
    """JSON can hold it and UTF-8 cannot: the answer that repeats it is still UTF-8."""
    body = b'{"model": "m", "messages": [{"role": "user", "content": "half \\ud83d"}]}'
    answer = httpx.post(f"{server.url}/v1/chat/completions", content=body)

    assert "half \ud83d" in json.loads(answer.content.decode())["choices"][0]["message"]["content"]


# -- the answer depends on the whole request


BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "m-1", "temperature": 0, "seed": 7, "max_tokens": 90, "stop": ["END"], "user": "u",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
    },
    "/v1/responses": {"model": "m-1", "instructions": "Be kind.", "input": "hello", "max_output_tokens": 90},
    "/v1/completions": {"model": "m-1", "prompt": "hello", "max_tokens": 90, "temperature": 0.5},
    "/v1/messages": {
        "model": "m-1", "max_tokens": 90, "system": "Be kind.", "messages": [{"role": "user", "content": "hello"}],
    },
    "/gateway/v1/messages": {
        "model": "m-1", "max_tokens": 90, "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"name": "act", "input_schema": {
            "type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "required": ["a"],
        }}],
    },
    "/v1/models/m-1:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "generationConfig": {"temperature": 0, "topK": 3, "maxOutputTokens": 90},
    },
    "/api/chat": {
        "model": "m-1", "stream": False, "messages": [{"role": "user", "content": "hello"}],
        "options": {"temperature": 0, "seed": 7},
    },
    "/api/generate": {"model": "m-1", "stream": False, "prompt": "hello", "options": {"seed": 7}},
    "/v1/embeddings": {"model": "m-1", "input": "hello"},
}  # fmt: skip


def changes(body: Any) -> Iterator[Any]:
    """The body with one leaf changed by one character, each leaf once."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from ({**body, key: other} for other in changes(value))
    elif isinstance(body, list):
        for at, value in enumerate(body):
            yield from ([*body[:at], other, *body[at + 1 :]] for other in changes(value))
    elif isinstance(body, str):
        yield f"{body}."
    elif not isinstance(body, bool):
        yield body + 1


def answer_words(reply: bytes) -> set[str]:
    """The words and vectors of an answer, without ids and counts."""
    leaves: set[str] = set()

    def walk(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, key)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, name)
        elif name in ("content", "text", "response", "embedding"):
            leaves.add(str(value))

    walk(json.loads(reply), "")
    return leaves - {"None"}


@pytest.mark.parametrize("path", BODIES)
def test_one_changed_character_of_the_request_changes_the_answer(server: ModelServer, path: str) -> None:
    """Any character, in every API; also one of the path."""
    body = BODIES[path]
    mutants = [(path, changed) for changed in changes(body)] + [(path.replace("m-1", "m-2"), body)] * ("m-1" in path)
    reply = [
        answer_words(server.reply(at, "", json.dumps(item).encode()).chunks[0])
        for at, item in [(path, body), *mutants]
    ]

    assert all(reply)
    assert len(mutants) + 1 == len({frozenset(item) for item in reply})


@pytest.mark.parametrize("path", BODIES)
def test_key_order_and_white_space_do_not_change_the_answer(server: ModelServer, path: str) -> None:
    """Nor does the notation of a number."""

    def reverse_keys(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: reverse_keys(value[key]) for key in reversed(value)}
        return [reverse_keys(item) for item in value] if isinstance(value, list) else value

    body = BODIES[path]
    loose = json.dumps(reverse_keys(copy.deepcopy(body)), indent=3).replace(": 90", ": 9e1").encode()

    assert server.reply(path, "", json.dumps(body).encode()) == server.reply(path, "", loose)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 4}}, "required": ["n"]},
    {"type": "object", "properties": {"n": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": 1}}},
    {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}, "fixed": {"const": 4}}, "required": ["unit"]},
    {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}, "minItems": 2}}},
    {"type": "object", "properties": {"code": {"type": "string", "pattern": "^[A-F]{2}-\\d{3}$"}}},
    {"type": "object", "properties": {"text": {"type": "string", "minLength": 40, "maxLength": 50}}},
    {"type": "object", "properties": {"maybe": {"anyOf": [{"type": "null"}, {"type": "boolean"}]}}},
    {"type": "object", "properties": {"day": {"type": ["string", "null"], "format": "date"}}},
    {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}},
        "required": ["root"],
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"allOf": [{"type": "string"}, {"minLength": 1}]},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name"],
            }
        },
    },
]


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: next(iter(schema["properties"])))
def test_arguments_fit_the_schema_of_the_tool(server: ModelServer, schema: dict[str, Any]) -> None:
    """For any seed."""
    tool = {"type": "function", "function": {"name": "act", "parameters": schema}}
    for seed in range(30):
        body = {"model": "m", "messages": [{"role": "user", "content": "do"}], "tools": [tool], "seed": seed}
        (reply,) = server.reply("/v1/chat/completions", "", json.dumps(body).encode()).chunks
        (call,) = json.loads(reply)["choices"][0]["message"]["tool_calls"]

        jsonschema.validate(json.loads(call["function"]["arguments"]), schema)


def test_tool_choice_is_respected(server: ModelServer) -> None:
    """None, any, or a named tool; and each tool that the question mentions, in turn."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("look_up_order", "compute_refund")]
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:

        def called(choice: Any) -> list[str]:
            call: Any = {"model": "m", "messages": messages, "tools": tools, "tool_choice": choice}
            message = client.chat.completions.create(**call).choices[0].message
            calls: Any = message.tool_calls or []
            if calls:
                messages.append(message)
                messages.append({"role": "tool", "tool_call_id": calls[0].id, "content": "{}"})
            return [call.function.name for call in calls]

        named = {"type": "function", "function": {"name": "compute_refund"}}
        assert [] == called("none")
        assert [["look_up_order"], ["compute_refund"], []] == [called("auto") for _ in range(3)]
        assert ["look_up_order"] == called("required")
        assert ["compute_refund"] == called(named)
