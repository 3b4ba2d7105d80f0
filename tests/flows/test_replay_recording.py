"""`traceforge proxy --recording`: a recording answers every real SDK, matched by the hash of the prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from support.command import traceforge
from support.format_examples import example_session
from support.model_servers import model_server
from support.proxy_process import proxy
from support.sdk_calls import KEY, MESSAGES, SDK_CALLS
from support.upstream import uncalled_upstream
from traceforge.canon import canonical_bytes, digest_canonical, digest_text
from traceforge.modelio import MockAdapter, RecordingSession, write_session
from traceforge.modelio.adapter import content_to_message
from traceforge.redact.redactor import Redactor

# google-genai subclasses what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

QUESTION = "What is the capital of France?"
REPLAY = ("--mode", "replay", "--recording", "model_io.json")
GENERATING = [ask for ask in SDK_CALLS if "embed" not in ask.name and "embed" not in ask.path]


def _write(folder: Path, *pairs: tuple[str, str]) -> None:
    value = example_session(*(answer for _, answer in pairs))
    for item, (prompt_hash, _) in zip(value["interactions"], pairs, strict=True):
        item["prompt_hash"] = prompt_hash
    (folder / "model_io.json").write_bytes(write_session(value))


def _ignore_event(_: Any) -> None:
    """For SDK calls whose events are not needed."""


def _texts(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


@pytest.mark.slow
def test_every_sdk_is_answered_from_a_recording(tmp_path: Path) -> None:
    """Plain and streamed, in its provider's shape, with the answers of its traces."""
    with model_server() as server, proxy(tmp_path, "--upstream", f"up={server.url}") as running:
        for ask in GENERATING:
            ask.call(f"{running.url}/up", _ignore_event)
        running.stop()
    converted = traceforge("modelio", "from-traces", "--out", "model_io.json", cwd=tmp_path)
    items = json.loads((tmp_path / "model_io.json").read_bytes())["interactions"]
    contents = {ask.name: item["response_content"] for ask, item in zip(GENERATING, items, strict=True)}
    with uncalled_upstream() as other, proxy(tmp_path, *REPLAY, "--upstream", f"up={other.url}") as running:
        results = {ask.name: _texts(ask.call(f"{running.url}/up", _ignore_event)) for ask in GENERATING}
        ended = running.stop()

    assert 0 == converted.code, converted.err
    assert all(contents.values())
    assert {} == {name: text for name, text in results.items() if not _contains_answer(text, contents[name])}
    assert 0 == ended.code, ended.err
    assert f"replayed {len(GENERATING)} calls, 0 not replayed" in ended.err


def _contains_answer(text: str, content: str) -> bool:
    """Whether a result holds the recorded answer; of a message that is more than text, its text and its tools."""
    message: Any = content_to_message(content) or {"content": content}
    names = [call["function"]["name"] for call in message.get("tool_calls", [])]
    return all(part in text for part in [json.dumps(message["content"] or "", ensure_ascii=False)[1:-1], *names])


def test_a_recording_of_an_adapter_answers_an_sdk(tmp_path: Path) -> None:
    """A prompt that was text matches an SDK's single user message."""
    with RecordingSession(tmp_path / "model_io.json", MockAdapter(["Paris."]), redactor=Redactor()) as recording:
        recording.adapter.complete(QUESTION)
    with proxy(tmp_path, *REPLAY) as running:
        with openai.OpenAI(base_url=f"{running.url}/openai/v1", api_key=KEY, max_retries=0) as client:
            answer = client.chat.completions.create(model="any", messages=MESSAGES)
        ended = running.stop()

    assert "Paris." == answer.choices[0].message.content
    assert ("stop", "any") == (answer.choices[0].finish_reason, answer.model)
    assert 0 == ended.code


@pytest.mark.slow
def test_a_miss_has_the_hash_and_the_reason(tmp_path: Path) -> None:
    """Not recorded, requested too often, no generation; unused answers are counted; exit code 1."""
    _write(tmp_path, (digest_text(QUESTION), "Paris."), (digest_text("other"), "unused"))
    other = [{"role": "user", "content": "And Spain?"}]
    with proxy(tmp_path, *REPLAY) as running:
        url = f"{running.url}/openai/v1"
        first, repeated = (httpx.post(f"{url}/chat/completions", json={"messages": MESSAGES}) for _ in range(2))
        unknown = httpx.post(f"{url}/chat/completions", json={"messages": other})
        embedding = httpx.post(f"{url}/embeddings", json={"input": "x"})
        ended = running.stop()

    assert [200, 418, 418, 418] == [response.status_code for response in (first, repeated, unknown, embedding)]
    assert digest_canonical(other) in unknown.text  # type: ignore[arg-type]
    assert "which was not recorded" in unknown.text
    assert "only answers generation requests" in embedding.text
    assert (1, True) == (ended.code, "unused: 1 interaction" in ended.err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "find"),
    [
        ("openai/v1/completions", {"model": "m", "prompt": QUESTION}, lambda answer: answer["choices"][0]["text"]),
        (
            "ollama/api/generate",
            {"model": "m", "prompt": QUESTION, "stream": False},
            lambda answer: answer["response"],
        ),
        (
            "openai/v1/responses",
            {"model": "m", "input": QUESTION},
            lambda answer: answer["output"][0]["content"][0]["text"],
        ),
    ],
    ids=["completions", "generate", "responses"],
)
def test_other_endpoints_are_answered_in_their_shape(tmp_path: Path, path: str, body: Any, find: Any) -> None:
    """Text completions, and OpenAI's Responses: the same prompt has the same hash."""
    _write(tmp_path, (digest_text(QUESTION), "Paris."))
    with proxy(tmp_path, *REPLAY) as running:
        answer = httpx.post(f"{running.url}/{path}", json=body)
        running.stop()

    assert 200 == answer.status_code, answer.text
    assert "Paris." == find(answer.json())


def test_tool_calls_are_replayed_as_tool_calls(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    message: Any = {"role": "assistant", "content": None, "tool_calls": [call]}
    _write(tmp_path, *[(digest_text(QUESTION), canonical_bytes(message).decode())] * 2)
    with proxy(tmp_path, *REPLAY) as running:
        chat = httpx.post(f"{running.url}/openai/v1/chat/completions", json={"messages": MESSAGES}).json()
        body = {"model": "m", "max_tokens": 5, "messages": MESSAGES}
        other = httpx.post(f"{running.url}/anthropic/v1/messages", json=body).json()
        running.stop()

    assert ([call], "tool_calls") == (
        chat["choices"][0]["message"]["tool_calls"],
        chat["choices"][0]["finish_reason"],
    )
    assert {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}} == other["content"][0]


def test_a_prompt_with_a_secret_matches_its_recording(tmp_path: Path) -> None:
    """Both sides are redacted before they are hashed."""
    secret, other = ("sk-proj-" + text * 16 for text in ("Ab1", "Zy9"))
    with RecordingSession(tmp_path / "model_io.json", MockAdapter(["Yes."]), redactor=Redactor()) as recording:
        recording.adapter.complete([{"role": "user", "content": f"Is {secret} a key?"}])
    with proxy(tmp_path, *REPLAY) as running:
        body = {"messages": [{"role": "user", "content": f"Is {other} a key?"}]}
        answer = httpx.post(f"{running.url}/openai/v1/chat/completions", json=body)
        running.stop()

    assert 200 == answer.status_code, answer.text


@pytest.mark.slow
def test_a_secret_in_another_dialect_is_redacted_alike_on_both_sides(tmp_path: Path) -> None:
    """In a trace of Gemini, which becomes a recording, and in the live request."""
    secret = "sk-proj-" + "Ab1" * 16
    body = {"contents": [{"role": "user", "parts": [{"text": f"Is {secret} a key?"}]}]}
    path = "/v1beta/models/m:generateContent"
    with model_server() as server, proxy(tmp_path, "--upstream", f"up={server.url}") as running:
        first = httpx.post(f"{running.url}/up{path}", json=body).json()
        running.stop()
    traceforge("modelio", "from-traces", "--out", "model_io.json", cwd=tmp_path)
    with proxy(tmp_path, *REPLAY) as running:
        replayed = httpx.post(f"{running.url}/gemini{path}", json=body).json()
        running.stop()

    text = first["candidates"][0]["content"]["parts"][0]["text"]
    assert text.replace(secret, "[REDACTED]") == replayed["candidates"][0]["content"]["parts"][0]["text"]


def test_volatile_fields_are_part_of_the_prompt_hash(tmp_path: Path) -> None:
    """As in the recording."""
    (tmp_path / "traceforge.config.json").write_text('{"match": {"ignore_patterns": ["capital"]}}')
    _write(tmp_path, (digest_text(QUESTION), "Paris."))
    with proxy(tmp_path, *REPLAY) as running:
        answer = httpx.post(f"{running.url}/openai/v1/chat/completions", json={"messages": MESSAGES})
        running.stop()

    assert 200 == answer.status_code, answer.text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--mode", "record"), 2, "--recording needs --mode replay"),
        (("--mode", "replay", "--session", "s"), 2, "--recording needs --mode replay"),
        (("--mode", "replay", "--from", "snapshots"), 2, "--recording needs --mode replay"),
        (("--mode", "replay"), 1, "model_io.json: $.interactions[0].response_hash: response_hash mismatch"),
    ],
)
def test_wrong_usage_or_an_invalid_recording_is_an_error_at_the_start(
    tmp_path: Path, words: tuple[str, ...], code: int, message: str
) -> None:
    _write(tmp_path, (digest_text("a"), "Paris."))
    file = tmp_path / "model_io.json"
    file.write_text(file.read_text().replace("Paris.", "Nice."))
    ran = traceforge("proxy", "--port", "0", *words, "--recording", "model_io.json", cwd=tmp_path)

    assert code == ran.code
    assert message in ran.err
