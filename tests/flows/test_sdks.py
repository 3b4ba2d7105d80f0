"""The real SDKs, watched: they return what they return without us, and each call gives one exchange."""

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

# google-genai does what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

SAMPLES = 2 if RunLength.is_short else 8  # of the corpus, for each way to ask; spread over all there are
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
    with upstream() as one:
        yield one


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """No test may pass because a fault of ours was swallowed."""
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


def outcome_of(ask: SdkCall, url: str, seen: Any = lambda _: None) -> Any:
    """What the SDK returns, or how it complains."""
    try:
        return ask.call(url, seen)
    except Exception as exc:  # noqa: BLE001 (the complaint is the result)
        return type(exc), str(exc)


def watched(ask: SdkCall, url: str, seen: Any = lambda _: None) -> tuple[Any, list[Exchange]]:
    """The same under a capture."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink) as capture:
        result = outcome_of(ask, url, seen)
    assert 0 == capture.open
    return result, list(sink.exchanges)


@each_ask
def test_an_sdk_notices_nothing(ask: SdkCall, server: Upstream) -> None:
    """It returns the same, and the provider gets the same bytes; one call is one exchange, its call site is right."""
    server.respond_with(answer(ask))
    bare, received = outcome_of(ask, server.url), server.received
    server.respond_with(answer(ask))
    got, (seen,) = watched(ask, server.url)

    assert not isinstance(bare, tuple), bare
    assert bare == got
    assert received == server.received
    sent = b"".join(STREAM_PIECES[ask.provider]) if ask.streaming else PLAIN_BODIES[ask.provider]
    kept = b"".join(chunk.data for chunk in seen.chunks)
    assert kept == sent or (seen.outcome is CallOutcome.CLIENT_LEFT and sent.startswith(kept))
    assert (server.received[0].body, 200) == (seen.request_body, seen.status)
    assert seen.url.startswith(server.url)
    assert seen.caller.source.startswith("tests/support/sdk_calls.py:")


@pytest.mark.parametrize("ask", [ask for ask in SDK_CALLS if ask.streaming], ids=lambda ask: ask.name)
def test_the_events_of_a_stream_come_as_they_are_sent(ask: SdkCall, server: Upstream) -> None:
    """The provider sends the next piece only once the SDK has given out an event, or it would hang."""
    permits = threading.Semaphore(0)
    server.respond_with(answer(ask, permits))
    patient = threading.Timer(0.5, lambda: permits.release(9))  # for pieces that give out no event
    events: list[int] = []

    def seen(_: Any) -> None:
        events.append(len(server.received))
        permits.release()
        if len(events) == 1:
            patient.start()

    got, (exchange,) = watched(ask, server.url, seen)
    patient.cancel()

    assert isinstance(got, list)
    assert len(exchange.chunks) >= 2
    assert exchange.chunks[0].t_ms < exchange.chunks[-1].t_ms


@each_ask
@pytest.mark.parametrize("status", [400, 503])
def test_an_error_of_the_provider_is_the_same_error(ask: SdkCall, server: Upstream, status: int) -> None:
    """Type and text of the SDK's exception are as without us."""
    body = b'{"error": {"message": "no", "type": "invalid_request_error", "code": 400, "status": "X"}}'
    server.respond_with(ScriptedResponse([body], status))
    bare, received = outcome_of(ask, server.url), server.received
    server.respond_with(ScriptedResponse([body], status))
    got, seen = watched(ask, server.url)

    assert isinstance(bare, tuple)
    assert bare == got
    assert len(received) == len(server.received) == len(seen)
    assert {(status, CallOutcome.ANSWERED)} == {(one.status, one.outcome) for one in seen}


@each_ask
def test_real_answers_mean_the_same_to_an_sdk(ask: SdkCall, server: Upstream) -> None:
    """Recorded answers, in the pieces in which they came where known: the SDK returns, or raises, the same."""
    samples = find_samples(ask)
    if not samples:
        pytest.skip(f"the corpus has no raw answer for {ask.name}")
    for sample in samples:
        server.respond_with(_recorded(sample))
        bare = outcome_of(ask, server.url)
        server.respond_with(_recorded(sample))
        got, seen = watched(ask, server.url)

        assert repr(bare) == repr(got), sample.name  # text: a NaN is not equal to itself
        kept = b"".join(chunk.data for chunk in seen[0].chunks)
        assert kept == sample.body or (seen[0].outcome is CallOutcome.CLIENT_LEFT and sample.body.startswith(kept)), (
            sample.name
        )


def find_samples(ask: SdkCall) -> list[Interaction]:
    """Some recorded answers for this way to ask."""
    provider, label = LABELS[ask.provider]
    if ask.provider == "gemini" and ask.streaming:
        label = "streamGenerateContent"
    found = [
        one
        for one in interactions(need_shared("corpus/llm"))
        if (one.provider, one.label, one.streaming) == (provider, label, ask.streaming)
        and one.status == 200 and one.body and not one.stale_encoding and len(one.body) < 200_000
    ]  # fmt: skip
    return found[:: max(1, len(found) // SAMPLES)][:SAMPLES]


def _recorded(sample: Interaction) -> ScriptedResponse:
    sizes = sample.chunk_sizes if sum(sample.chunk_sizes) == len(sample.body) else ()
    pieces, start = [], 0
    for size in sizes or [777] * (len(sample.body) // 777 + 1):
        pieces.append(sample.body[start : start + size])
        start += size
    return ScriptedResponse(
        [p for p in pieces if p], sample.status, {"content-type": sample.media_type}, chunked=True
    )
