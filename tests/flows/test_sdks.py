"""The real SDKs under a capture: they return the same as without it, and each call is one exchange."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import traceforge
from support.corpus import need_shared
from support.corpus_traffic import Interaction, interactions
from support.example_counts import RunLength
from support.sdk_calls import PLAIN_BODIES, SDK_CALLS, STREAM_MEDIA_TYPES, STREAM_PIECES, SdkCall
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.recorder import MemoryRecorder
from traceforge.exchange import CallOutcome, Exchange

# google-genai subclasses what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

SAMPLES = 2 if RunLength.is_short else 8  # of the corpus, for each kind of call, spread evenly
LABELS = {
    "openai": ("openai", "chat.completions"),
    "openai-responses": ("openai", "responses"),
    "anthropic": ("anthropic", "messages"),
    "gemini": ("gemini", "generateContent"),
    "ollama": ("ollama", "api/chat"),
}

each_ask = pytest.mark.parametrize("ask", SDK_CALLS, ids=lambda ask: ask.name)


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as provider:
        yield provider


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """No test may pass because an internal error of the hook was swallowed."""
    before = faults.count
    yield
    assert before == faults.count, faults.first


def answer(ask: SdkCall, permits: threading.Semaphore | None = None) -> ScriptedResponse:
    """A good answer."""
    if not ask.streaming:
        return ScriptedResponse([PLAIN_BODIES[ask.provider]])
    media = STREAM_MEDIA_TYPES.get(ask.provider, "text/event-stream")
    return ScriptedResponse(
        STREAM_PIECES[ask.provider], headers={"content-type": media}, chunked=True, permits=permits
    )


def outcome_of(ask: SdkCall, url: str, on_event: Any = lambda _: None) -> Any:
    """The SDK's result, or its exception."""
    try:
        return ask.call(url, on_event)
    except Exception as exc:  # noqa: BLE001 (the exception is the result)
        return type(exc), str(exc)


def captured_outcome(ask: SdkCall, url: str, on_event: Any = lambda _: None) -> tuple[Any, list[Exchange]]:
    """The same under a capture, with its exchanges."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink) as capture:
        result = outcome_of(ask, url, on_event)
    assert 0 == capture.open
    return result, list(sink.exchanges)


@each_ask
def test_an_sdk_notices_nothing(ask: SdkCall, server: Upstream) -> None:
    """It returns the same, the provider gets the same bytes; one call is one exchange, with its call site."""
    server.respond_with(answer(ask))
    bare, received = outcome_of(ask, server.url), server.received
    server.respond_with(answer(ask))
    captured, (exchange,) = captured_outcome(ask, server.url)

    assert not isinstance(bare, tuple), bare
    assert bare == captured
    assert received == server.received
    sent = b"".join(STREAM_PIECES[ask.provider]) if ask.streaming else PLAIN_BODIES[ask.provider]
    recorded = b"".join(chunk.data for chunk in exchange.chunks)
    assert recorded == sent or (exchange.outcome is CallOutcome.CLIENT_LEFT and sent.startswith(recorded))
    assert (server.received[0].body, 200) == (exchange.request_body, exchange.status)
    assert exchange.url.startswith(server.url)
    assert exchange.caller.source.startswith("tests/support/sdk_calls.py:")


@pytest.mark.parametrize("ask", [ask for ask in SDK_CALLS if ask.streaming], ids=lambda ask: ask.name)
def test_the_events_of_a_stream_come_as_they_are_sent(ask: SdkCall, server: Upstream) -> None:
    """The provider sends the next piece only after the SDK has returned an event; otherwise it would hang."""
    permits = threading.Semaphore(0)
    server.respond_with(answer(ask, permits))
    patient = threading.Timer(0.5, lambda: permits.release(9))  # for pieces without an event
    events: list[int] = []

    def on_event(_: Any) -> None:
        events.append(len(server.received))
        permits.release()
        if len(events) == 1:
            patient.start()

    captured, (exchange,) = captured_outcome(ask, server.url, on_event)
    patient.cancel()

    assert isinstance(captured, list)
    assert len(exchange.chunks) >= 2
    assert exchange.chunks[0].t_ms < exchange.chunks[-1].t_ms


@pytest.mark.slow
@each_ask
@pytest.mark.parametrize("status", [400, 503])
def test_an_error_of_the_provider_is_the_same_error(ask: SdkCall, server: Upstream, status: int) -> None:
    """The type and text of the SDK's exception."""
    body = b'{"error": {"message": "no", "type": "invalid_request_error", "code": 400, "status": "X"}}'
    server.respond_with(ScriptedResponse([body], status))
    bare, received = outcome_of(ask, server.url), server.received
    server.respond_with(ScriptedResponse([body], status))
    captured, exchanges = captured_outcome(ask, server.url)

    assert isinstance(bare, tuple)
    assert bare == captured
    assert len(received) == len(server.received) == len(exchanges)
    assert {(status, CallOutcome.ANSWERED)} == {(exchange.status, exchange.outcome) for exchange in exchanges}


@pytest.mark.slow
@each_ask
def test_an_sdk_returns_the_same_for_real_answers(ask: SdkCall, server: Upstream) -> None:
    """Recorded answers, in their original pieces where known: the SDK returns, or raises, the same."""
    samples = find_samples(ask)
    if not samples:
        pytest.skip(f"the corpus has no raw answer for {ask.name}")
    for sample in samples:
        server.respond_with(_recorded(sample))
        bare = outcome_of(ask, server.url)
        server.respond_with(_recorded(sample))
        captured, exchanges = captured_outcome(ask, server.url)

        assert repr(bare) == repr(captured), sample.name  # text: a NaN is not equal to itself
        recorded = b"".join(chunk.data for chunk in exchanges[0].chunks)
        assert recorded == sample.body or (
            exchanges[0].outcome is CallOutcome.CLIENT_LEFT and sample.body.startswith(recorded)
        ), sample.name


def find_samples(ask: SdkCall) -> list[Interaction]:
    """Some recorded answers for this kind of call."""
    provider, label = LABELS[ask.provider]
    if ask.provider == "gemini" and ask.streaming:
        label = "streamGenerateContent"
    samples = [
        interaction
        for interaction in interactions(need_shared("corpus/llm"))
        if (interaction.provider, interaction.label, interaction.streaming) == (provider, label, ask.streaming)
        and interaction.status == 200 and interaction.body and not interaction.stale_encoding
        and len(interaction.body) < 200_000
    ]  # fmt: skip
    return samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]


def _recorded(sample: Interaction) -> ScriptedResponse:
    sizes = sample.chunk_sizes if sum(sample.chunk_sizes) == len(sample.body) else ()
    pieces, start = [], 0
    for size in sizes or [777] * (len(sample.body) // 777 + 1):
        pieces.append(sample.body[start : start + size])
        start += size
    return ScriptedResponse(
        [p for p in pieces if p], sample.status, {"content-type": sample.media_type}, chunked=True
    )
