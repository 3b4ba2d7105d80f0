"""The options of every provider's SDK: the model server honours each, ignores it on purpose, or refuses it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import ollama
import openai
import pytest
from anthropic.resources import Messages
from anthropic.resources.beta.messages import Messages as BetaMessages
from google.genai import types as genai_types
from openai.resources import Completions, Embeddings
from openai.resources.chat import Completions as ChatCompletions
from openai.resources.responses import Responses

from support.model_servers import ModelServer, model_server
from traceforge.model_server import request_options
from traceforge.model_server.fake_gemini import MODES
from traceforge.model_server.provider_io import BadRequest
from traceforge.model_server.request_options import OptionRules

QUESTION = "Where is order A-1001?"
OF_THE_CLIENT = {"self", "extra_headers", "extra_query", "extra_body", "timeout", "http_options"}
TOOL_NAMES = ("look_up_order", "compute_refund")
CHAT, RESPONSES, MESSAGES, GEMINI, OLLAMA = (
    "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/m:generateContent", "/api/chat",
)  # fmt: skip
CONVERSATION = [{"role": "user", "content": QUESTION}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": CONVERSATION},
    "/v1/completions": {"model": "m", "prompt": QUESTION, "max_tokens": 100},
    "/v1/embeddings": {"model": "m", "input": QUESTION},
    RESPONSES: {"model": "m", "input": QUESTION},
    MESSAGES: {"model": "m", "max_tokens": 200, "messages": CONVERSATION},
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
    OLLAMA: {"model": "m", "messages": CONVERSATION, "stream": False},
    "/api/generate": {"model": "m", "prompt": QUESTION, "stream": False},
}
TOOLS: dict[str, Any] = {
    CHAT: [{"type": "function", "function": {"name": name}} for name in TOOL_NAMES],
    RESPONSES: [{"type": "function", "name": name} for name in TOOL_NAMES],
    MESSAGES: [{"name": name, "input_schema": {"type": "object"}} for name in TOOL_NAMES],
    GEMINI: [{"functionDeclarations": [{"name": name} for name in TOOL_NAMES]}],
    OLLAMA: [{"type": "function", "function": {"name": name}} for name in TOOL_NAMES],
}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    """A model server."""
    with model_server() as server:
        yield server


def parameters_of(function: Callable[..., object]) -> set[str]:
    """The options of an SDK's method."""
    return set(inspect.signature(function).parameters) - OF_THE_CLIENT


def camel_names(fields: dict[str, Any]) -> set[str]:
    """The fields of a type of google-genai as it sends them."""
    return {re.sub("_([a-z])", lambda match: match[1].upper(), name) for name in set(fields) - OF_THE_CLIENT}


# What the SDK of google-genai does itself, and what it sends beside `generationConfig`.
GENAI_OWN = {"shouldReturnHttpResponse", "automaticFunctionCalling", "automaticContinuation"}
CONFIG = camel_names(genai_types.GenerateContentConfig.model_fields) - GENAI_OWN


@pytest.mark.parametrize(
    ("sent", "rules"),
    [
        (parameters_of(ChatCompletions.create), [request_options.CHAT]),
        (parameters_of(Completions.create), [request_options.COMPLETIONS]),
        (parameters_of(Embeddings.create), [request_options.EMBEDDINGS]),
        (parameters_of(Responses.create), [request_options.RESPONSES]),
        (parameters_of(Messages.create), [request_options.MESSAGES]),
        (parameters_of(BetaMessages.create), [request_options.MESSAGES]),
        (parameters_of(ollama.Client.chat), [request_options.OLLAMA_CHAT]),
        (parameters_of(ollama.Client.generate), [request_options.OLLAMA_GENERATE]),
        (parameters_of(ollama.Client.embed), [request_options.OLLAMA_EMBED]),
        (CONFIG, [request_options.GEMINI, request_options.GEMINI_CONFIG]),
        (camel_names(genai_types.FunctionCallingConfig.model_fields), [request_options.GEMINI_CALLING]),
    ],
    ids=[
        "chat", "completions", "embeddings", "responses", "messages", "beta-messages", "ollama-chat",
        "ollama-generate", "ollama-embed", "gemini", "gemini-calling",
    ],
)  # fmt: skip
def test_every_option_of_an_sdk_is_known(sent: set[str], rules: list[OptionRules]) -> None:
    """An option that a new SDK brings fails here until somebody has decided about it; each is in one list."""
    lists = [names for rule in rules for names in rule]

    assert set() == sent - set().union(*lists)
    assert sum(map(len, lists)) == len(set().union(*lists))


def test_every_mode_of_gemini_is_known() -> None:
    """The SDK names them."""
    assert {mode.value for mode in genai_types.FunctionCallingConfigMode} == set(MODES)


@pytest.mark.parametrize(
    ("path", "rules"),
    [
        (CHAT, request_options.CHAT), ("/v1/completions", request_options.COMPLETIONS),
        (RESPONSES, request_options.RESPONSES), (MESSAGES, request_options.MESSAGES),
        (GEMINI, request_options.GEMINI), (OLLAMA, request_options.OLLAMA_CHAT),
        ("/api/generate", request_options.OLLAMA_GENERATE),
    ],
    ids=["chat", "completions", "responses", "messages", "gemini", "ollama-chat", "ollama-generate"],
)  # fmt: skip
def test_a_refused_option_is_an_error_that_names_it(server: ModelServer, path: str, rules: OptionRules) -> None:
    """Unless it asks for nothing."""
    for name in sorted(rules.refused):
        answer(server, path, {name: None})
        answer(server, path, {name: False})
        for value in ({"a": 1}, {}):  # `web_search_options: {}` is a search with the defaults.
            with pytest.raises(BadRequest, match=f"`{name}`"):
                answer(server, path, {name: value})


def answer(server: ModelServer, path: str, more: dict[str, Any]) -> Any:
    """The answer to a question with more options."""
    reply = server.reply(path, "", json.dumps({**BODIES[path], **more}).encode())
    return json.loads(reply.chunks[0])


def called(server: ModelServer, path: str, **more: Any) -> str:
    """The tool that is called where two are offered, or "" for an answer of text."""
    text = json.dumps(answer(server, path, {"tools": TOOLS[path], **more})[OUTPUT[path]])
    found = [name for name in TOOL_NAMES if f'"name": "{name}"' in text]
    return found[0] if found else ""


OUTPUT = {CHAT: "choices", RESPONSES: "output", MESSAGES: "content", GEMINI: "candidates", OLLAMA: "message"}


def calling(mode: str, *names: str) -> dict[str, Any]:
    """Gemini's `toolConfig`."""
    allowed = {"allowedFunctionNames": list(names)} if names else {}
    return {"toolConfig": {"functionCallingConfig": {"mode": mode, **allowed}}}


def test_log_probabilities_are_those_of_the_words(server: ModelServer) -> None:
    """In an answer and in its stream; none where they are not asked for."""
    choice = answer(server, CHAT, {"logprobs": True})["choices"][0]
    stream = server.reply(CHAT, "", json.dumps({**BODIES[CHAT], "logprobs": True, "stream": True}).encode())
    events = [json.loads(chunk[6:]) for chunk in stream.chunks if b"[DONE]" not in chunk]
    chunks = [event["choices"][0] for event in events]

    assert choice["message"]["content"] == "".join(token["token"] for token in choice["logprobs"]["content"])
    for chunk in chunks:
        tokens = (chunk["logprobs"] or {"content": []})["content"]
        assert (chunk["delta"].get("content") or "") == "".join(token["token"] for token in tokens)
    assert len([chunk for chunk in chunks if chunk["logprobs"]]) > 1
    assert answer(server, CHAT, {})["choices"][0]["logprobs"] is None


FIRST, SECOND = TOOL_NAMES


def allowed_in_chat(mode: str) -> dict[str, Any]:
    """Chat's `tool_choice` that allows the second tool alone."""
    tools = [{"type": "function", "function": {"name": SECOND}}]
    return {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}}


ALLOWED_IN_RESPONSES = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": SECOND}]}


@pytest.mark.parametrize(
    ("path", "more", "expected"),
    [
        (CHAT, {"tool_choice": "none"}, ""),
        (CHAT, {"tool_choice": "auto"}, FIRST),
        (CHAT, {"tool_choice": "required"}, FIRST),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": SECOND}}}, SECOND),
        (CHAT, allowed_in_chat("required"), SECOND),
        (CHAT, allowed_in_chat("auto"), SECOND),
        (RESPONSES, {"tool_choice": "none"}, ""),
        (RESPONSES, {"tool_choice": {"type": "function", "name": SECOND}}, SECOND),
        (RESPONSES, {"tool_choice": ALLOWED_IN_RESPONSES}, SECOND),
        (MESSAGES, {"tool_choice": {"type": "none"}}, ""),
        (MESSAGES, {"tool_choice": {"type": "auto"}}, FIRST),
        (MESSAGES, {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}, FIRST),
        (MESSAGES, {"tool_choice": {"type": "tool", "name": SECOND}}, SECOND),
        (GEMINI, calling("NONE"), ""),
        (GEMINI, calling("AUTO"), FIRST),
        (GEMINI, calling("MODE_UNSPECIFIED"), FIRST),
        (GEMINI, calling("VALIDATED"), FIRST),
        (GEMINI, calling("VALIDATED", SECOND), SECOND),
        (GEMINI, calling("ANY", SECOND), SECOND),
        (GEMINI, calling("ANY", SECOND, FIRST), FIRST),
        (OLLAMA, {"think": True}, FIRST),
    ],
)  # fmt: skip
def test_every_form_of_a_tool_choice_is_respected(
    server: ModelServer, path: str, more: dict[str, Any], expected: str
) -> None:
    """The tool that the API would call, or none."""
    assert expected == called(server, path, **more)


ANOTHER = "launch_rocket"


def thinking(budget: int) -> dict[str, Any]:
    """A call of Anthropic's that may think, in all with 2,000 tokens."""
    return {"max_tokens": 2000, "thinking": {"type": "enabled", "budget_tokens": budget}}


def gemini_thinking(**fields: Any) -> dict[str, Any]:
    return {"generationConfig": {"thinkingConfig": fields}}


@pytest.mark.parametrize(
    ("path", "allowed", "refused", "param"),
    [
        (CHAT, {"temperature": 2}, {"temperature": 2.1}, "temperature"),
        (CHAT, {"temperature": 0}, {"temperature": -0.1}, "temperature"),
        (CHAT, {"temperature": None}, {"temperature": "0"}, "temperature"),
        ("/v1/completions", {"temperature": 2}, {"temperature": 3}, "temperature"),
        (RESPONSES, {"temperature": 2}, {"temperature": 3}, "temperature"),
        (MESSAGES, {"temperature": 1}, {"temperature": 1.1}, "temperature"),
        (GEMINI, {"generationConfig": {"temperature": 2}}, {"generationConfig": {"temperature": 3}}, "temperature"),
        (CHAT, {"stop": list("1234")}, {"stop": list("12345")}, "stop"),
        ("/v1/completions", {"stop": list("1234")}, {"stop": list("12345")}, "stop"),
        (CHAT, {"max_tokens": 9}, {"max_tokens": 9, "max_completion_tokens": 9}, "max_tokens"),
        (CHAT, {"max_tokens": 9, "max_completion_tokens": None}, {"max_tokens": 1, "max_completion_tokens": 2},
         "max_tokens"),
        (MESSAGES, thinking(1999), thinking(2000), "thinking.budget_tokens"),
        (MESSAGES, {**thinking(4000), "tools": TOOLS[MESSAGES]}, thinking(4000), "thinking.budget_tokens"),
        (GEMINI, gemini_thinking(thinkingBudget=0), gemini_thinking(thinkingBudget=0, thinkingLevel="low"), None),
        (GEMINI, gemini_thinking(thinkingLevel="low"), gemini_thinking(thinking_budget=9, thinking_level="x"), None),
    ],
)  # fmt: skip
def test_the_last_allowed_value_is_answered_and_the_next_refused(
    server: ModelServer, path: str, allowed: dict[str, Any], refused: dict[str, Any], param: str | None
) -> None:
    answer(server, path, allowed)
    with pytest.raises(BadRequest) as caught:
        answer(server, path, refused)

    assert (400, param) == (caught.value.status, caught.value.param)


def test_two_limits_of_a_chat_have_the_error_code_of_openai(server: ModelServer) -> None:
    """The SDK shows it as `error.code`."""
    messages: list[Any] = CONVERSATION
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)

    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=messages, max_tokens=9, max_completion_tokens=9)

    assert ("invalid_parameter_combination", "max_tokens") == (caught.value.code, caught.value.param)


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {"tool_choice": "any", "tools": TOOLS[CHAT]}),
        (CHAT, {"tool_choice": "required"}),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": ANOTHER}}, "tools": TOOLS[CHAT]}),
        (CHAT, {"tool_choice": {"type": "custom", "custom": {"name": FIRST}}, "tools": TOOLS[CHAT]}),
        (CHAT, {"tools": [{"type": "custom", "custom": {"name": FIRST}}]}),
        (CHAT, {"response_format": {"type": "grammar"}}),
        (CHAT, {"stream_options": {"include_usage": True}}),
        (CHAT, {"n": 0}),
        (CHAT, {"n": True}),
        (CHAT, {"stop": [1]}),
        (CHAT, {"max_tokens": -1}),
        (CHAT, {"modalities": ["text", "audio"]}),
        ("/v1/embeddings", {"encoding_format": "int8"}),
        (RESPONSES, {"tool_choice": {"type": "web_search_preview"}, "tools": TOOLS[RESPONSES]}),
        (RESPONSES, {"tools": [{"type": "custom", "name": FIRST}]}),
        (RESPONSES, {"include": ["message.output_text.logprobs"]}),
        (RESPONSES, {"text": {"format": {"type": "grammar"}}}),
        (MESSAGES, {"tool_choice": {"type": "tool", "name": ANOTHER}, "tools": TOOLS[MESSAGES]}),
        (MESSAGES, {"tool_choice": {"type": "required"}, "tools": TOOLS[MESSAGES]}),
        (MESSAGES, {"tool_choice": {"type": "any"}}),
        (MESSAGES, {"output_config": {"format": {"type": "grammar"}}}),
        (MESSAGES, {"thinking": {"type": "deep"}}),
        (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 1023}}),
        (MESSAGES, {"thinking": {"type": "enabled"}}),
        (
            MESSAGES,
            {
                "thinking": {"type": "enabled", "budget_tokens": 1024},
                "tool_choice": {"type": "any"},
                "tools": TOOLS[MESSAGES],
            },
        ),
        (GEMINI, {**calling("SOMETIMES"), "tools": TOOLS[GEMINI]}),
        (GEMINI, {**calling("AUTO", FIRST), "tools": TOOLS[GEMINI]}),
        (GEMINI, {**calling("ANY", ANOTHER), "tools": TOOLS[GEMINI]}),
        (GEMINI, {"generationConfig": {"responseModalities": ["AUDIO"]}}),
        (GEMINI, {"generationConfig": {"responseSchema": {"type": "STRING"}}}),
        (GEMINI, {"generationConfig": {"responseLogprobs": True}}),
        (OLLAMA, {"format": "yaml"}),
        (OLLAMA, {"think": "a lot"}),
        (OLLAMA, {"options": {"stop": 1}}),
    ],
)  # fmt: skip
def test_an_option_that_the_api_refuses_is_refused(server: ModelServer, path: str, more: dict[str, Any]) -> None:
    """It is never read as something else."""
    with pytest.raises(BadRequest):
        answer(server, path, more)


@pytest.mark.parametrize(
    ("path", "read", "option"),
    [
        (CHAT, lambda got: got["choices"][0]["message"]["content"], lambda stop: {"stop": stop}),
        ("/v1/completions", lambda got: got["choices"][0]["text"], lambda stop: {"stop": [stop]}),
        (MESSAGES, lambda got: got["content"][0]["text"], lambda stop: {"stop_sequences": [stop]}),
        (GEMINI, lambda got: got["candidates"][0]["content"]["parts"][0]["text"],
         lambda stop: {"generationConfig": {"stopSequences": [stop]}}),
        (OLLAMA, lambda got: got["message"]["content"], lambda stop: {"options": {"stop": [stop]}}),
    ],
    ids=["chat", "completions", "messages", "gemini", "ollama"],
)  # fmt: skip
def test_an_answer_ends_before_a_stop_sequence(
    server: ModelServer, path: str, read: Callable[[Any], str], option: Callable[[str], dict[str, Any]]
) -> None:
    """The question is in every answer, so a word of it is a stop sequence that is always met."""
    assert "A-1001" in read(answer(server, path, {}))
    assert "A-1001" not in read(answer(server, path, option("A-1001")))
    assert read(answer(server, path, option("A-1001")))


def test_the_stop_sequence_is_named_where_the_api_names_it(server: ModelServer) -> None:
    """Anthropic says which it was."""
    message = answer(server, MESSAGES, {"stop_sequences": ["xyzzy", "A-1001"]})

    assert ("stop_sequence", "A-1001") == (message["stop_reason"], message["stop_sequence"])


def test_gemini_answers_with_candidates_and_with_a_value_of_an_enum(server: ModelServer) -> None:
    """As many as were asked for; and a bare value for the media type `text/x.enum`."""
    several = answer(server, GEMINI, {"generationConfig": {"candidateCount": 3}})
    schema = {"type": "STRING", "enum": ["red", "green"]}
    config = {"responseMimeType": "text/x.enum", "responseSchema": schema}
    bare = answer(server, GEMINI, {"generationConfig": config})

    assert [0, 1, 2] == [candidate["index"] for candidate in several["candidates"]]
    assert bare["candidates"][0]["content"]["parts"][0]["text"] in ("red", "green")


def test_ollama_thinks_where_it_is_asked_to(server: ModelServer) -> None:
    """Beside the answer, never in it."""
    assert "thinking" not in answer(server, OLLAMA, {})["message"]
    assert answer(server, OLLAMA, {"think": "low"})["message"]["thinking"]
    assert answer(server, "/api/generate", {"think": True})["thinking"]


def test_every_sdk_reads_the_error_of_its_provider(server: ModelServer) -> None:
    """The message, in the provider's own shape."""
    shapes: dict[str, Any] = {}
    wrong: dict[str, dict[str, Any]] = {
        CHAT: {"n": 0}, MESSAGES: {"container": "c"}, GEMINI: calling("NO"), OLLAMA: {"format": "x"},
    }  # fmt: skip
    for path, more in wrong.items():
        response = httpx.post(server.url + path, json={**BODIES[path], **more})
        assert 400 == response.status_code
        shapes[path] = response.json()

    assert {"message", "type", "param", "code"} == set(shapes[CHAT]["error"])
    assert ("n", None) == (shapes[CHAT]["error"]["param"], shapes[CHAT]["error"]["code"])
    assert ("error", "invalid_request_error") == (shapes[MESSAGES]["type"], shapes[MESSAGES]["error"]["type"])
    assert (400, "INVALID_ARGUMENT") == (shapes[GEMINI]["error"]["code"], shapes[GEMINI]["error"]["status"])
    assert isinstance(shapes[OLLAMA]["error"], str)
