"""Replay without a proxy: the real SDKs, in this process and in the processes of a command.

The provider now has other answers, and must see no request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvloop

import traceforge
from support.application import Application
from support.corpus import need_shared, shared_path
from support.corpus_traffic import interactions
from support.environments import linked_python
from support.example_counts import RunLength
from support.exchanges import local_url, recorded_exchange
from support.http_clients import DRIVERS, JSON_TYPE, Driver
from support.provider_answers import Answers
from support.replay_player import make_player as player_of
from support.sdk_calls import PLAIN_BODIES, SDK_CALLS, STREAM_MEDIA_TYPES, STREAM_PIECES, SdkCall
from support.unrecorded_requests import UNRECORDED_REQUESTS
from support.upstream import ScriptedResponse, Upstream, uncalled_upstream, upstream
from traceforge.errors import CallNotRecorded
from traceforge.exchange import Chunk

# google-genai subclasses what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

SHAPES = {"openai": "chat", "responses": "responses", "anthropic": "messages", "gemini": "gemini", "ollama": "ollama"}
HOW = [f"{mode}-{kind}" for mode in ("sync", "async") for kind in ("plain", "stream", "tools", "tools-stream")]
ROUNDS = 3  # of real traffic, for each kind of call

Recorded = tuple[Path, dict[str, Any]]


@pytest.fixture
def other() -> Iterator[Upstream]:
    """A second provider with other answers, which must never be called."""
    with uncalled_upstream() as provider:
        yield provider


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A project with calls of every SDK in every way, and the results of each. The provider is stopped."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".git").mkdir()
    with pytest.MonkeyPatch.context() as patch, upstream() as server:
        patch.chdir(folder)
        patch.delenv("PYTEST_CURRENT_TEST", raising=False)
        results = {}
        with traceforge.capture() as capture:
            for ask in SDK_CALLS:
                media = STREAM_MEDIA_TYPES.get(ask.provider, "text/event-stream")
                stream = ScriptedResponse(STREAM_PIECES[ask.provider], headers={"content-type": media}, chunked=True)
                server.respond_with(stream if ask.streaming else ScriptedResponse([PLAIN_BODIES[ask.provider]]))
                results[ask.name] = ask.call(server.url, lambda _: None)
        assert len(SDK_CALLS) == capture.exchanges
    return folder, results


@pytest.fixture
def project(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Enter the project; the results of the SDKs."""
    monkeypatch.chdir(recorded[0])
    return recorded[1]


@pytest.mark.slow
@pytest.mark.parametrize("pace", ["none", pytest.param("x10000", marks=pytest.mark.slow)])
@pytest.mark.parametrize("loop", ["asyncio", pytest.param("uvloop", marks=pytest.mark.slow)])
def test_every_sdk_gets_the_recorded_response(
    project: dict[str, Any], other: Upstream, loop: str, pace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sync, async and streaming."""
    if loop == "uvloop":
        monkeypatch.setattr(asyncio, "run", uvloop.run)
    with traceforge.replay(pace=pace) as replayed:
        for ask in SDK_CALLS:
            assert project[ask.name] == ask.call(other.url, lambda _: None), ask.name

    assert len(SDK_CALLS) == replayed.played


@pytest.mark.slow
@pytest.mark.parametrize("ask", [ask for ask in SDK_CALLS if ask.streaming], ids=lambda ask: ask.name)
def test_closing_a_stream_early_leaks_nothing(project: dict[str, Any], other: Upstream, ask: SdkCall) -> None:
    """Warnings are errors here, and the next call is answered."""

    def leave(_: object) -> None:
        raise KeyError

    with traceforge.replay():
        with pytest.raises(KeyError):
            ask.call(other.url, leave)
        assert project[ask.name] == ask.call(other.url, lambda _: None)


@pytest.mark.parametrize(
    ("ask", "path", "before"), UNRECORDED_REQUESTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_an_unmatched_request_is_tried_once_and_the_exception_explains_it(
    project: dict[str, Any], other: Upstream, ask: Callable[[str], Any], path: str, before: str
) -> None:
    """The path and both values, in the SDK's own exception; the replay fails, although it was swallowed."""
    with (
        pytest.raises(CallNotRecorded, match="1 call could not be replayed"),
        traceforge.replay() as replayed,
        pytest.raises(Exception, match="no recorded call matches") as caught,
    ):
        ask(other.url)

    message = str(caught.value).replace('\\"', '"')
    assert f'{path}: recorded "{before}", sent "What is the capital of Spain?"' in message
    assert (1, 0) == (len(replayed.unmatched), replayed.played)


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_recorded_streams_keep_their_chunks(
    driver: Driver, other: Upstream, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A sample of the corpus through every client: the same pieces, byte for byte."""
    streams = [
        stream
        for stream in interactions(need_shared("corpus/llm"))
        if stream.streaming and stream.request and stream.generates
    ]
    calls = []
    for number, stream in enumerate(streams[:: 240 if RunLength.is_short else 60]):
        exchange = recorded_exchange(stream, number)
        body = b"".join(chunk.data for chunk in exchange.chunks)
        step = 300 + number * 37 % 1500
        pieces = tuple(Chunk(1.0, body[at : at + step]) for at in range(0, len(body), step))
        headers = tuple(JSON_TYPE.items())
        url = local_url(exchange.url)
        calls.append(msgspec.structs.replace(exchange, url=url, chunks=pieces, request_headers=headers))
    player = player_of(tmp_path, *calls)
    equal = 0
    with traceforge.replay(player=player) as replayed:
        for exchange in calls:
            played = player.play(
                exchange.method, exchange.url, exchange.request_headers, exchange.request_body, exchange.caller
            ).response
            received: list[bytes] = []
            target = exchange.url.partition("://")[2].partition("/")[2]
            driver.stream(f"{other.url}/{target}", exchange.request_body, received.append)
            assert b"".join(received) == played.body
            equal += [chunk.data for chunk in played.chunks if chunk.data] == received
    record_property("summary", f"streams of the corpus in process, {driver.name}: {equal} of {len(calls)}")
    assert len(calls) == equal
    assert not replayed.unmatched


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Application, Any]]:
    """An application that made every kind of call, with real answers, recorded under `run`."""
    corpus = shared_path("corpus/llm")
    answers = Answers(corpus if corpus.exists() else None, ROUNDS)
    with upstream() as server:
        python = linked_python(tmp_path_factory.mktemp("linked"))
        ways = {f"{sdk}-{how}": shape for sdk, shape in SHAPES.items() for how in HOW}
        application = Application(python, server, answers, ways)
        yield application, application.run("run", tmp_path_factory.mktemp("recorded"))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["run", "inprocess"])
def test_an_application_gets_the_recorded_responses(ran: tuple[Application, Any], way: str) -> None:
    """openai (chat and Responses), anthropic, google-genai and ollama, with tools, in its own environment."""
    application, before = ran

    after = application.replay(way, before.folder)

    assert list(before.results) == list(after)
    assert [] == [model for model, result in before.results.items() if result.result != after[model].result]
    assert 0 == application.received
