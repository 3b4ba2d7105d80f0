"""A call as a curl command, a Python program and a test: what is pasted is what was sent, and nothing more runs."""

from __future__ import annotations

import ast
import shlex
from typing import Any

import pytest

from support.stored_traces import call
from traceforge.canon import JSONObject, parse_json
from traceforge.redact.redactor import Redactor
from traceforge.traces.trace_composer import TraceComposer
from traceforge.traces.trace_format import Trace, read_trace
from traceforge.ui.views.call_copy import LANGUAGES, copy_call

HOSTILE = '\'; rm -rf / #\n$(id) `id` """ \\\' %s {x} \u202e\u200b </script>'


def trace(prompt: str = "Hello", **options: Any) -> Trace:
    return read_trace(TraceComposer(Redactor(), None).compose(call(1, prompt, **options)).trace)


def change(original: Trace, **fields: Any) -> Trace:
    """The same trace with other fields of its `wire`."""
    wire: Any = original.body["wire"]
    body: JSONObject = {**original.body, "wire": {**wire, **fields}}
    return original._replace(body=body)


def python_request(text: str) -> dict[str, Any]:
    """The arguments of the request in a program; only literals, except for the header with the key."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (request,) = [node for node in calls if "httpx.request" == ast.unparse(node.func)]
    named = {keyword.arg: keyword.value for keyword in request.keywords}
    return {"method": ast.literal_eval(request.args[0]), "url": ast.literal_eval(request.args[1]), **{
        str(name): ast.literal_eval(value) for name, value in named.items() if name != "headers"
    }}  # fmt: skip


@pytest.mark.parametrize("prompt", ["Hello", HOSTILE])
def test_the_shell_reads_the_body_as_one_word(prompt: str) -> None:
    """The key is a variable, and no other word holds anything that a shell would expand."""
    text = copy_call(trace(prompt), "curl")
    assert text is not None
    words = shlex.split(text)

    assert ["curl", "-X", "POST", "https://api.openai.com/v1/chat/completions"] == words[:4]
    assert "authorization: Bearer $OPENAI_API_KEY" in words
    assert "content-type: application/json" in words
    body: Any = parse_json(words[words.index("--data-raw") + 1].encode())
    assert prompt == body["messages"][0]["content"]
    assert not set("\u202e\u200b") & set(text)


@pytest.mark.parametrize("prompt", ["Hello", HOSTILE, "long " * 200])
@pytest.mark.parametrize("language", ["python", "test"])
def test_python_reads_the_body_as_one_literal(prompt: str, language: str) -> None:
    text = copy_call(trace(prompt), language)
    assert text is not None
    request = python_request(text)

    assert prompt == request["json"]["messages"][0]["content"]
    assert ("POST", 120) == (request["method"], request["timeout"])
    assert "os.environ['OPENAI_API_KEY']" in text
    assert not set("\u202e\u200b") & set(text)


def test_a_hostile_name_of_a_provider_or_header_runs_nothing() -> None:
    """Both may come from a file that somebody else wrote."""
    original = change(
        trace(), request_headers=["x-api-key: [REDACTED]", 'x": os.system("id"), "y: z', "authorization"]
    )
    hostile = original._replace(body={**original.body, "provider": '$(id)"]; import os'})
    for language in LANGUAGES:
        text = copy_call(hostile, language)
        assert text is not None
        assert "id)" not in text.replace("(id_", "")
        if language != "curl":
            ast.parse(text)


def test_a_stream_is_not_buffered() -> None:
    text = copy_call(trace(answer=["a", "b"]), "curl")

    assert text is not None
    assert text.startswith("curl -N ")


def test_a_call_that_was_not_stored_as_it_was_sent_has_no_copy() -> None:
    """An address that is none, a method that is none, a body that is no text."""
    binary = trace()._replace(body={**trace().body, "provider_request": {"b64": "AAE="}})
    for damaged in (change(trace(), url=""), change(trace(), url="file:///x"), change(trace(), method="A B"), binary):
        assert [None, None, None] == [copy_call(damaged, language) for language in LANGUAGES]


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_address_has_no_hidden_character(language: str) -> None:
    """It is percent-encoded, as a client sends it."""
    text = copy_call(change(trace(), url="https://a.example/v1/\u202e\u200b x/chat/completions"), language)

    assert text is not None
    assert "https://a.example/v1/%E2%80%AE%E2%80%8B%20x/chat/completions" in text
