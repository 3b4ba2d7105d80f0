"""The real SDKs, sync and async, plain and streaming, with tools: through the proxy, in process, and under `run`.

Each way: the SDK returns, and the provider receives, the same as without TraceForge; one call is one trace on the
disk, with its call site, its answer, and the bytes of its stream.

Through the proxy one header differs: `Connection`, which is about one connection, is not passed on; and the call site
is unknown there, unless the application sends it in a header.
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
from support.extractor import read_facts
from support.missing_facts import find_missing
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
LEAVES_EARLY = "litellm-anthropic-sync-"  # stops reading at the finish reason, before the end of the stream
ROUNDS = 1 if RunLength.is_short else 3  # of real traffic, for each kind of call

each_way = pytest.mark.parametrize("way", WAYS)
MakeApplication = Callable[[], Application]


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """The provider."""
    with upstream() as provider:
        yield provider


@pytest.fixture(scope="module")
def answers() -> Answers:
    """The provider's answers; only handwritten ones where there is no corpus."""
    corpus = shared_path("corpus/llm")
    return Answers(corpus if corpus.exists() else None, ROUNDS)


@pytest.fixture(scope="module")
def unwatched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Application, str], ApplicationRun]:
    """A run without recording, made once for each application.

    In process TraceForge is importable: httpx requests `br` and `zstd` where their packages are installed, which
    TraceForge depends on. That is so with any package that depends on them, with or without recording.
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
def litellm_app(server: Upstream, answers: Answers) -> Application:
    """Litellm."""
    return Application(installed_python("litellm"), server, answers, _ways(LITELLM), "litellm_calls")


def _ways(sdks: dict[str, str]) -> dict[str, str]:
    return {f"{sdk}-{how}": shape for sdk, shape in sdks.items() for how in HOW}


@pytest.mark.slow
@each_way
def test_the_providers_sdks_notice_nothing_and_each_call_is_one_trace(
    core: Application, unwatched: Any, answers: Answers, way: str, tmp_path: Path
) -> None:
    """openai (chat and Responses), anthropic, google-genai and ollama."""
    check(
        unwatched(core, BARE), core.run(way, tmp_path), answers, way
    )  # Its environment has TraceForge's dependencies anyway.


@pytest.mark.slow
@each_way
def test_frameworks_notice_nothing_and_each_call_is_one_trace(
    frameworks: Application, unwatched: Any, answers: Answers, way: str, tmp_path: Path
) -> None:
    """LangChain on openai and anthropic, pydantic-ai on chat, Responses and anthropic."""
    recorded = frameworks.run(way, tmp_path)

    check(unwatched(frameworks, way), recorded, answers, way)
    (request,) = recorded.received[
        "langchain-openai-sync-stream.0"
    ]  # LangChain would not request it with OPENAI_BASE_URL set.
    assert {"include_usage": True} == json.loads(request.body)["stream_options"]


@pytest.mark.slow
@each_way
def test_litellm_notices_nothing_and_each_call_is_one_trace(
    litellm_app: Application, unwatched: Any, answers: Answers, way: str, tmp_path: Path
) -> None:
    """With openai and anthropic; its awaited calls go through aiohttp."""
    check(unwatched(litellm_app, way), litellm_app.run(way, tmp_path), answers, way)


def check(bare: ApplicationRun, recorded: ApplicationRun, answers: Answers, way: str) -> None:
    """Check everything that is promised, for each model."""
    wrong = [
        f"{model}: {difference}" for model in bare.results for difference in _differences(bare, recorded, model, way)
    ]
    assert not wrong, _first(wrong)
    by_model: dict[str, list[TraceOnDisk]] = {}
    for stored_trace in recorded.traces:
        by_model.setdefault(stored_trace.model, []).append(stored_trace)
    for model, received in recorded.received.items():
        traces = _in_order(by_model.pop(model, []), received)
        if len(traces) != len(received):
            wrong.append(f"{model}: {len(traces)} traces of {len(received)} calls")
            continue
        for number, (request, stored) in enumerate(zip(received, traces, strict=True)):
            result = recorded.results[model]
            wrong += [
                f"{model} call {number}: {difference}"
                for difference in _trace_errors(request, stored, result, number, answers, way)
            ]
    assert (not wrong, []) == (True, list(by_model)), _first(wrong)
    ids = [stored_trace.trace["id"] for stored_trace in recorded.traces]
    assert len(ids) == len(set(ids)) == sum(map(len, recorded.received.values()))
    assert [] == find_files_with(recorded.folder / ".ai-tests", KEY)


def _in_order(traces: list[TraceOnDisk], received: list[ReceivedRequest]) -> list[TraceOnDisk]:
    """In the order of the requests: a proxy has no steps, so traces of one millisecond are ordered by content."""
    bodies = [json.loads(request.body) for request in received]
    places = [bodies.index(body) if (body := trace.trace["provider_request"]) in bodies else 0 for trace in traces]
    paired = sorted(zip(traces, places, strict=True), key=lambda pair: (pair[0].trace["timestamp"], pair[1]))
    return [trace for trace, _ in paired]


def _differences(bare: ApplicationRun, recorded: ApplicationRun, model: str, way: str) -> Iterator[str]:
    """Between a run without and one with recording."""
    expected, actual = bare.results[model].result, recorded.results[model].result
    if model.endswith(".0") and isinstance(expected, dict) and "exception" in expected:
        yield f"our own answer is not understood: {expected}"
    if expected != actual:
        yield f"returned {_first_difference(actual, expected)}"
    sent = [_wire(request, way) for request in bare.received.get(model, [])]
    arrived = [_wire(request, way) for request in recorded.received.get(model, [])]
    if sent != arrived:
        yield f"the provider received {_first_difference(arrived, sent)}"


def _wire(received: ReceivedRequest, way: str) -> tuple[list[bytes], bytes]:
    lines = received.head.split(b"\r\n")
    return [line for line in lines if way != "proxy" or not line.lower().startswith(b"connection:")], received.body


def _trace_errors(
    request: ReceivedRequest, stored: TraceOnDisk, result: ModelResult, number: int, answers: Answers, way: str
) -> Iterator[str]:
    """The differences between a trace and its call."""
    trace, parsed = stored.trace, read_request(request)
    sent = answers.find(parsed)
    wire = trace["wire"]
    recorded = b"".join(stored.chunks)
    left_early = wire["outcome"] == "left" and bool(recorded) and sent.data.startswith(recorded)
    expected = (200, "complete", "success")
    if left_early and recorded != sent.data and parsed.model.startswith(LEAVES_EARLY) and way != "proxy":
        expected = (200, "cut", "error")
    if (wire["status"], wire["ending"], trace["metadata"]["status"]) != expected:
        yield f"{wire['status']}, {wire['ending']}, {wire['outcome']}, {trace['metadata']} ({sent.name})"
    if trace["provider_request"] != json.loads(request.body):
        yield "another request"
    source = None if way == "proxy" else result.site(number)
    if trace.get("source") != source:
        yield f"made by {trace.get('source')} and not by {source}"
    missing = find_missing(read_facts(parsed.shape, recorded if left_early else sent.data), trace["response"])
    if missing:
        yield f"the answer lacks {missing} ({sent.name})"
    if parsed.streaming and recorded != sent.data and not left_early:
        yield f"a stream of {len(recorded)} bytes and not of {len(sent.data)} ({sent.name})"
    if not parsed.streaming and stored.chunks:
        yield "chunks of an answer that was no stream"


def _first(wrong: list[str]) -> str:
    return "\n".join([f"{len(wrong)} in all", *wrong[:12]])


def _first_difference(actual: Any, expected: Any) -> str:
    """The place where two values begin to differ."""
    actual_text, expected_text = repr(actual), repr(expected)
    at = next(
        (at for at, (a, b) in enumerate(zip(actual_text, expected_text, strict=False)) if a != b),
        min(len(actual_text), len(expected_text)),
    )
    return (
        f"… {actual_text[max(0, at - 80) : at + 160]} …\n    and not … {expected_text[max(0, at - 80) : at + 160]} …"
    )
