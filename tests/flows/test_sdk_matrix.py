"""The real SDKs, sync and async, plain and streaming, with tools: through the proxy, in process, and under `run`.

In each way: what the SDK returns, and what the provider receives, is what it is without us; one call is one trace on
the disk, with the line that made it, with what the answer says, and with the bytes of its stream.

Through the proxy one header differs: `Connection`, which speaks about one connection, is not passed on; and a call
site is not known there, unless the application says it in a header.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.application import (
    BARE,
    INSTALLED,
    WAYS,
    Application,
    ApplicationRun,
    ModelResult,
    TraceOnDisk,
    find_files_with,
)
from support.corpus import shared_path
from support.environments import installed_python, linked_python
from support.example_counts import RunLength
from support.extractor import find_missing, read_facts
from support.provider_answers import Answers, read_request
from support.upstream import ReceivedRequest, Upstream, upstream

KEY = b"sk-proj-q7Zr2mVtX9LbN4cWf8KdH3yPaJ6sGuE1"
HOW = [f"{mode}-{kind}" for mode in ("sync", "async") for kind in ("plain", "stream", "tools", "tools-stream")]
CORE = {"openai": "chat", "responses": "responses", "anthropic": "messages", "gemini": "gemini", "ollama": "ollama"}
FRAMEWORKS = {
    "langchain-openai": "chat", "langchain-anthropic": "messages", "pydantic-openai": "chat",
    "pydantic-responses": "responses", "pydantic-anthropic": "messages",
}  # fmt: skip
LITELLM = {"litellm-openai": "chat", "litellm-anthropic": "messages"}
LEAVES_EARLY = "litellm-anthropic-sync-"  # reads no further once it knows why the answer ends, which is not its end
ROUNDS = 1 if RunLength.is_short else 3  # of real traffic, for each way to ask

each_way = pytest.mark.parametrize("way", WAYS)
MakeApplication = Callable[[], Application]


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """The provider."""
    with upstream() as one:
        yield one


@pytest.fixture(scope="module")
def answers() -> Answers:
    """What it says; only what we wrote by hand where there is no corpus."""
    corpus = shared_path("corpus/llm")
    return Answers(corpus if corpus.exists() else None, ROUNDS)


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Application, str], ApplicationRun]:
    """A run that nobody watches, made once for each application.

    In process it has TraceForge beside it: httpx asks for `br` and `zstd` where their packages are installed, which
    are among those that TraceForge needs. That is so with any package that brings them, whoever watches.
    """
    run = cache(lambda application, way: application.run(way, tmp_path_factory.mktemp("bare")))
    return lambda application, way: run(application, INSTALLED if way == "inprocess" else BARE)


@pytest.fixture(scope="module")
def core(server: Upstream, answers: Answers, tmp_path_factory: pytest.TempPathFactory) -> Application:
    """The SDKs of the providers."""
    python = linked_python(tmp_path_factory.mktemp("linked"))
    return Application(python, server, answers, _ways(CORE))


@pytest.fixture(scope="module")
def frameworks(server: Upstream, answers: Answers) -> Application:
    """LangChain and pydantic-ai."""
    return Application(installed_python("apps"), server, answers, _ways(FRAMEWORKS), "framework_calls")


@pytest.fixture(scope="module")
def lite(server: Upstream, answers: Answers) -> Application:
    """Litellm."""
    return Application(installed_python("litellm"), server, answers, _ways(LITELLM), "litellm_calls")


def _ways(sdks: dict[str, str]) -> dict[str, str]:
    return {f"{sdk}-{how}": shape for sdk, shape in sdks.items() for how in HOW}


@pytest.mark.parametrize("way", ["proxy", "run", pytest.param("inprocess", marks=pytest.mark.slow)])
def test_the_providers_sdks_notice_nothing_and_each_call_is_one_trace(
    core: Application, unwatched: Any, answers: Answers, way: str, tmp_path: Path
) -> None:
    """openai (chat and Responses), anthropic, google-genai and ollama."""
    check(unwatched(core, BARE), core.run(way, tmp_path), answers, way)  # It has what TraceForge needs in any case.


@pytest.mark.slow
@each_way
def test_frameworks_notice_nothing_and_each_call_is_one_trace(
    frameworks: Application, unwatched: Any, answers: Answers, way: str, tmp_path: Path
) -> None:
    """LangChain on openai and anthropic, pydantic-ai on chat, Responses and anthropic."""
    seen = frameworks.run(way, tmp_path)

    check(unwatched(frameworks, way), seen, answers, way)
    (asked,) = seen.received["langchain-openai-sync-stream.0"]  # It would not, were OPENAI_BASE_URL set.
    assert {"include_usage": True} == json.loads(asked.body)["stream_options"]


@pytest.mark.slow
@each_way
def test_litellm_notices_nothing_and_each_call_is_one_trace(
    lite: Application, unwatched: Any, answers: Answers, way: str, tmp_path: Path
) -> None:
    """With openai and anthropic; its awaited calls go through aiohttp."""
    check(unwatched(lite, way), lite.run(way, tmp_path), answers, way)


def check(bare: ApplicationRun, seen: ApplicationRun, answers: Answers, way: str) -> None:
    """Everything that is promised, for each model that was asked."""
    wrong = [f"{model}: {what}" for model in bare.results for what in _differences(bare, seen, model, way)]
    assert not wrong, _first(wrong)
    by_model: dict[str, list[TraceOnDisk]] = {}
    for one in seen.traces:
        by_model.setdefault(one.model, []).append(one)
    for model, received in seen.received.items():
        traces = _in_order(by_model.pop(model, []), received)
        if len(traces) != len(received):
            wrong.append(f"{model}: {len(traces)} traces of {len(received)} calls")
            continue
        for number, (request, stored) in enumerate(zip(received, traces, strict=True)):
            told = seen.results[model]
            wrong += [
                f"{model} call {number}: {what}" for what in _untrue(request, stored, told, number, answers, way)
            ]
    assert (not wrong, []) == (True, list(by_model)), _first(wrong)
    ids = [one.trace["id"] for one in seen.traces]
    assert len(ids) == len(set(ids)) == sum(map(len, seen.received.values()))
    assert [] == find_files_with(seen.folder / ".ai-tests", KEY)


def _in_order(traces: list[TraceOnDisk], received: list[ReceivedRequest]) -> list[TraceOnDisk]:
    """As they were asked: a proxy has no steps, so that two of one millisecond are told apart by what they ask."""
    asked = [json.loads(one.body) for one in received]
    places = [asked.index(body) if (body := one.trace["provider_request"]) in asked else 0 for one in traces]
    paired = sorted(zip(traces, places, strict=True), key=lambda pair: (pair[0].trace["timestamp"], pair[1]))
    return [one for one, _ in paired]


def _differences(bare: ApplicationRun, seen: ApplicationRun, model: str, way: str) -> Iterator[str]:
    """Between a run that nobody watched and one that was."""
    expected, got = bare.results[model].result, seen.results[model].result
    if model.endswith(".0") and isinstance(expected, dict) and "exception" in expected:
        yield f"our own answer is not understood: {expected}"
    if expected != got:
        yield f"returned {_apart(got, expected)}"
    sent = [_wire(one, way) for one in bare.received.get(model, [])]
    arrived = [_wire(one, way) for one in seen.received.get(model, [])]
    if sent != arrived:
        yield f"the provider received {_apart(arrived, sent)}"


def _wire(received: ReceivedRequest, way: str) -> tuple[list[bytes], bytes]:
    lines = received.head.split(b"\r\n")
    return [one for one in lines if way != "proxy" or not one.lower().startswith(b"connection:")], received.body


def _untrue(
    request: ReceivedRequest, stored: TraceOnDisk, told: ModelResult, number: int, answers: Answers, way: str
) -> Iterator[str]:
    """What a trace says that is not so."""
    trace, asked = stored.trace, read_request(request)
    said = answers.find(asked)
    wire = trace["wire"]
    kept = b"".join(stored.chunks)
    left_early = wire["outcome"] == "left" and bool(kept) and said.data.startswith(kept)
    expected = (200, "complete", "success")
    if left_early and kept != said.data and asked.model.startswith(LEAVES_EARLY) and way != "proxy":
        expected = (200, "cut", "error")
    if (wire["status"], wire["ending"], trace["metadata"]["status"]) != expected:
        yield f"{wire['status']}, {wire['ending']}, {wire['outcome']}, {trace['metadata']} ({said.name})"
    if trace["provider_request"] != json.loads(request.body):
        yield "another request"
    source = None if way == "proxy" else told.site(number)
    if trace.get("source") != source:
        yield f"made by {trace.get('source')} and not by {source}"
    missing = find_missing(read_facts(asked.shape, kept if left_early else said.data), trace["response"])
    if missing:
        yield f"the answer lacks {missing} ({said.name})"
    if asked.streaming and kept != said.data and not left_early:
        yield f"a stream of {len(kept)} bytes and not of {len(said.data)} ({said.name})"
    if not asked.streaming and stored.chunks:
        yield "chunks of an answer that was no stream"


def _first(wrong: list[str]) -> str:
    return "\n".join([f"{len(wrong)} in all", *wrong[:12]])


def _apart(got: Any, expected: Any) -> str:
    """Where two values begin to differ."""
    one, other = repr(got), repr(expected)
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"… {one[max(0, at - 80) : at + 160]} …\n    and not … {other[max(0, at - 80) : at + 160]} …"
