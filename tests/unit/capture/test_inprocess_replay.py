"""Replay in this process: every client gets the recorded response, and nothing reaches the network."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx2
import msgspec
import pytest
import requests
import uvloop

import traceforge
from support.exchanges import chat_answer, chat_request, make_exchange
from support.http_clients import DRIVERS, JSON_TYPE, Aiohttp, Driver
from support.replay_player import make_player
from support.upstream import ScriptedResponse, Upstream, uncalled_upstream, upstream
from support.wire_transcripts import CHAT, SSE
from support.work_counts import run_with_deadline
from traceforge.capture.hook import clients, dispatch, replayed_response
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.replaying_capture import ReplayingCapture
from traceforge.config import load_config
from traceforge.errors import CallNotRecorded
from traceforge.exchange import CallOutcome, Chunk, Exchange
from traceforge.replay.player import Player

QUESTION = json.dumps(chat_request("hello")).encode()
NEW = json.dumps(chat_request("goodbye")).encode()
PIECES = [b"da", b'ta: {"a": 1}\n\n', b'data: {"a": 2}\n\ndata: {"a"', b": 3}\n\n", b"data: [DONE]\n\n"]

each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider that no call may reach."""
    with uncalled_upstream() as server:
        yield server


@pytest.fixture
def url(server: Upstream) -> str:
    """The URL of a model at it."""
    return server.url + CHAT


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """No test may pass because a failure of the hook was swallowed."""
    before = faults.count
    yield
    assert before == faults.count, faults.first


def plain(text: str = "Paris", question: bytes = QUESTION, **more: Any) -> Exchange:
    """A call with a plain response."""
    return make_exchange(CHAT, question, chat_answer(text), **more)


def streamed(times: list[float] | None = None, **more: Any) -> Exchange:
    """A call whose response came in chunks."""
    exchange = make_exchange(CHAT, QUESTION, b"".join(PIECES), media_type=SSE, **more)
    when = times or [1.0] * len(PIECES)
    return msgspec.structs.replace(
        exchange, chunks=tuple(Chunk(at, data) for at, data in zip(when, PIECES, strict=True))
    )


def completion_text(body: bytes) -> str:
    """The text of a chat completion."""
    return str(json.loads(body)["choices"][0]["message"]["content"])


@each_driver
def test_a_call_gets_the_recorded_response(driver: Driver, url: str, tmp_path: Path) -> None:
    """Status, headers and body; repeated requests get one response after another."""
    player = make_player(tmp_path, plain("one", number=1), plain("two", number=2, status=429))
    with traceforge.replay(player=player) as replayed:
        first, second = driver.post(url, QUESTION), driver.post(url, QUESTION)

    assert (200, "one", 429, "two") == (
        first.status,
        completion_text(first.body),
        second.status,
        completion_text(second.body),
    )
    assert ("content-type", "application/json") in first.headers
    assert ("content-length", str(len(first.body))) in first.headers
    assert (2, []) == (replayed.played, replayed.unmatched)


def test_a_response_from_upstream_has_the_request_that_the_application_made(tmp_path: Path) -> None:
    """With requests, where a call without a recording goes upstream: a copy with the body that was read is sent."""
    responder = ReplayResponder(make_player(tmp_path, plain()), allow_upstream=True)
    capture = ReplayingCapture(load_config(str(tmp_path)), responder, MemoryRecorder())
    with upstream() as provider, requests.Session() as session:
        provider.respond_with(ScriptedResponse([b"{}"]))
        request = session.prepare_request(requests.Request("POST", provider.url + CHAT, data=iter([NEW])))
        capture.start(process_wide=False)
        try:
            response = session.send(request)
        finally:
            capture.stop()

        assert (200, NEW) == (response.status_code, provider.received[0].body)
    assert request is response.request


@pytest.mark.parametrize("module", [httpx, httpx2], ids=lambda module: module.__name__)
def test_changing_a_response_does_not_change_the_next(module: Any, url: str, tmp_path: Path) -> None:
    """Although both come from the same recording."""
    with traceforge.replay(player=make_player(tmp_path, plain())), module.Client() as client:
        first = client.post(url, content=QUESTION, headers=JSON_TYPE)
        before = [first.headers.raw, dict(first.extensions)]
        first.headers["content-type"] = "text/plain"
        first.extensions["mine"] = 1
        second = client.post(url, content=QUESTION, headers=JSON_TYPE)

    assert before == [second.headers.raw, dict(second.extensions)]
    assert "Paris" == completion_text(first.content) == completion_text(second.content)


@each_driver
def test_a_redacted_key_in_a_response_is_refilled_from_the_live_request(
    driver: Driver, url: str, tmp_path: Path
) -> None:
    """Where the response refers to one of its headers."""
    answer = chat_answer("You are sk-proj-recorded0recorded0recorded0.")
    exchange = make_exchange(CHAT, QUESTION, answer, headers=[("X-Api-Key", "sk-proj-recorded0recorded0recorded0")])
    with traceforge.replay(player=make_player(tmp_path, exchange)):
        response = driver.post(url, QUESTION, {"X-Api-Key": "sk-proj-live0live0live0live0live0live0"})

    assert "You are sk-proj-live0live0live0live0live0live0." == completion_text(response.body)


@each_driver
def test_a_client_with_headers_of_traceforge_gets_the_name_of_the_recording(
    driver: Driver, url: str, tmp_path: Path
) -> None:
    """One whose headers cannot be used gets an error."""
    exchange = plain()
    header_sets = [{"X-TraceForge-Session-ID": "s"}, {}, {"X-TraceForge-Step-Index": "first"}]
    with pytest.raises(CallNotRecorded), traceforge.replay(player=make_player(tmp_path, exchange)):
        good, silent, bad = [driver.post(url, QUESTION, headers) for headers in header_sets]

    assert ("x-traceforge-replayed", exchange.id) in good.headers
    assert "x-traceforge-replayed" not in dict(silent.headers)
    assert (200, 200, 418) == (good.status, silent.status, bad.status)


@each_driver
def test_headers_that_change_behaviour_are_part_of_the_key(driver: Driver, url: str, tmp_path: Path) -> None:
    """In any case."""
    exchange = plain(headers=[("OpenAI-Beta", "assistants=v2")])
    header_sets = [{"openai-BETA": "assistants=v2"}, {"OpenAI-Beta": "assistants=v3"}]
    with pytest.raises(CallNotRecorded), traceforge.replay(player=make_player(tmp_path, exchange)):
        same, other = [driver.post(url, QUESTION, headers) for headers in header_sets]

    assert (200, 418) == (same.status, other.status)


@each_driver
def test_a_stream_keeps_its_chunks(driver: Driver, url: str, tmp_path: Path) -> None:
    """Each as it was recorded, wherever it begins and ends."""
    pieces: list[bytes] = []
    with traceforge.replay(player=make_player(tmp_path, streamed())):
        driver.stream(url, QUESTION, pieces.append)

    assert PIECES == pieces


def test_a_stream_keeps_its_chunks_under_uvloop(url: str, tmp_path: Path) -> None:
    """aiohttp on another event loop."""

    async def ask() -> list[bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=QUESTION, headers=JSON_TYPE) as response,
        ):
            return [piece async for piece in response.content.iter_any()]

    with traceforge.replay(player=make_player(tmp_path, streamed())):
        pieces = uvloop.run(ask())

    assert PIECES == pieces


@each_driver
def test_a_request_that_streams_is_read_to_its_end_first(driver: Driver, url: str, tmp_path: Path) -> None:
    """Its chunks make the same request."""
    with traceforge.replay(player=make_player(tmp_path, plain())):
        response = driver.post(url, iter([QUESTION[:9], QUESTION[9:]]))

    assert "Paris" == completion_text(response.body)


@each_driver
def test_a_response_that_was_cut_breaks_off_again(driver: Driver, url: str, tmp_path: Path) -> None:
    """With the client's own error, after the recorded chunks."""
    pieces: list[bytes] = []
    exchange = make_exchange(CHAT, QUESTION, PIECES[1], media_type=SSE, outcome=CallOutcome.CUT, error="reset")
    with (
        traceforge.replay(player=make_player(tmp_path, exchange)),
        pytest.raises(driver.error),
    ):
        driver.stream(url, QUESTION, pieces.append)

    assert [PIECES[1]] == pieces


@each_driver
def test_at_a_pace_chunks_come_at_their_times(driver: Driver, url: str, tmp_path: Path) -> None:
    """Twice as fast as recorded."""
    player = make_player(tmp_path, streamed([0.0, 100.0, 200.0, 300.0, 400.0]))
    with traceforge.replay(player=player, pace="x2"):
        began = time.monotonic()
        driver.stream(url, QUESTION, lambda _: None)
        took = time.monotonic() - began

    assert took >= 0.2


@each_driver
def test_without_a_pace_the_recorded_times_are_not_waited_for(driver: Driver, url: str, tmp_path: Path) -> None:
    """A stream that took an hour is replayed at once."""
    hour_ms = 3_600_000.0
    player = make_player(tmp_path, streamed([0.0, hour_ms / 4, hour_ms / 2, hour_ms / 1.5, hour_ms]))

    def stream() -> int:
        chunks: list[bytes] = []
        with traceforge.replay(player=player, pace="none"):
            driver.stream(url, QUESTION, chunks.append)
        return len(b"".join(chunks))

    assert run_with_deadline(stream) > 0


@each_driver
def test_an_unmatched_request_is_refused_and_counted_although_it_is_swallowed(
    driver: Driver, url: str, tmp_path: Path
) -> None:
    """The application sees 418 and the explanation; the end of the replay raises."""
    with (
        pytest.raises(
            CallNotRecorded, match=r"1 call could not be replayed: no recorded call matches.*\$.messages\[0\].content"
        ),
        traceforge.replay(player=make_player(tmp_path, plain())) as replayed,
    ):
        response = driver.post(url, NEW)

    assert 418 == response.status
    assert ("x-should-retry", "false") in response.headers
    assert 'recorded "hello", sent "goodbye"' in json.loads(response.body)["error"]["message"]
    assert 1 == len(replayed.unmatched)


def test_another_error_is_not_hidden_by_an_unmatched_request(url: str, tmp_path: Path) -> None:
    """The application's own error is more useful."""
    with pytest.raises(ZeroDivisionError), traceforge.replay(player=make_player(tmp_path)):
        1 // (httpx.post(url, content=NEW).status_code - 418)


@pytest.mark.parametrize("options", [{"pace": "fast"}, {"pace": "x0"}, {"pace": "2"}, {"source": "cassettes"}])
def test_unknown_names_are_errors(options: dict[str, str], tmp_path: Path) -> None:
    """They are not guessed."""
    with pytest.raises(ValueError, match=r"pace|source"), traceforge.replay(player=make_player(tmp_path), **options):
        pass


# -- nothing fails open


@each_driver
@pytest.mark.parametrize("fault", ["play", "begin", "respond", "nothing", "answer"])
def test_a_failure_of_ours_is_a_refusal_and_counted(
    driver: Driver, fault: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails, the network is not reached: 418, counted as unmatched."""
    player = make_player(tmp_path, plain())

    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("broken")

    if fault == "play":
        monkeypatch.setattr(Player, "play", broken)
    elif fault == "begin":
        monkeypatch.setattr(dispatch, "GuardedCall", broken)
    elif fault == "respond":
        monkeypatch.setattr(ReplayResponder, "respond", broken)
    else:
        bad = replayed_response.ReplayedResponse(200, (("a", "\u2713"),), [(0.0, b"x")])
        monkeypatch.setattr(ReplayResponder, "respond", lambda *_: bad if fault == "answer" else None)
    with pytest.raises(CallNotRecorded), traceforge.replay(player=player) as replayed:
        response = driver.post(url, QUESTION)

    assert 418 == response.status
    assert "TraceForge replay: " in json.loads(response.body)["error"]["message"]
    assert 1 == len(replayed.unmatched)


@each_driver
def test_a_capture_inside_a_replay_does_not_reach_the_network(driver: Driver, url: str, tmp_path: Path) -> None:
    """The replay answers the call."""
    sink = MemoryRecorder()
    with traceforge.replay(player=make_player(tmp_path, plain())), traceforge.capture(sink=sink):
        response = driver.post(url, QUESTION)

    assert "Paris" == completion_text(response.body)
    assert [] == list(sink.exchanges)


def test_a_thread_without_a_context_is_answered(url: str, tmp_path: Path) -> None:
    """Also where there is an outer capture, which would only record."""
    responses = []
    with (
        traceforge.capture(sink=MemoryRecorder()),
        traceforge.replay(player=make_player(tmp_path, plain())) as replayed,
    ):
        empty = contextvars.Context()
        thread = threading.Thread(
            target=lambda: empty.run(lambda: responses.append(httpx.post(url, content=QUESTION, headers=JSON_TYPE)))
        )
        thread.start()
        thread.join()

    assert ([200], 1) == ([response.status_code for response in responses], replayed.played)


def test_every_call_to_a_provider_is_answered(tmp_path: Path) -> None:
    """Also one that asks no model: it is unmatched, and does not reach the network."""
    with pytest.raises(CallNotRecorded), traceforge.replay(player=make_player(tmp_path, plain())):
        response = httpx.get("https://api.openai.com/v1/models")

    assert 418 == response.status_code


@each_driver
def test_telemetry_is_refused_silently(driver: Driver, tmp_path: Path) -> None:
    """It is not sent, and not counted."""
    with traceforge.replay(player=make_player(tmp_path, plain())) as replayed:
        response = driver.post("https://api.openai.com/v1/traces/ingest", b"{}")

    assert (418, []) == (response.status, replayed.unmatched)


def test_other_calls_are_left_alone(tmp_path: Path) -> None:
    """A database, a web page."""
    with upstream() as other, traceforge.replay(player=make_player(tmp_path, plain())):
        other.respond_with(ScriptedResponse([b"page"]))
        response = httpx.get(f"{other.url}/page")

    assert b"page" == response.content


def test_an_unrecorded_websocket_to_a_provider_is_refused_and_counted(tmp_path: Path) -> None:
    """It is not opened."""

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            await session.ws_connect("wss://api.openai.com/v1/realtime")

    with (
        pytest.raises(CallNotRecorded) as caught,
        traceforge.replay(player=make_player(tmp_path)),
        pytest.raises(aiohttp.WSServerHandshakeError) as refused,
    ):
        asyncio.run(ask())
    assert 418 == refused.value.status
    assert "nothing was recorded" in caught.value.message


def test_a_client_that_cannot_be_hooked_stops_the_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording goes on without it; a replay would let its calls reach the network."""

    def hook(module: Any, patches: Any) -> None:
        raise AttributeError("another make")

    monkeypatch.setitem(clients.HOOKS, "requests", hook)
    with pytest.raises(ImportError, match="requests"), traceforge.replay(player=make_player(tmp_path)):
        pass

    assert not dispatch.is_replaying()
    assert "traceforge" not in repr(requests.adapters.HTTPAdapter.send)
    assert clients._import_hook not in sys.meta_path


def test_a_client_is_as_before_after_the_replay(url: str, tmp_path: Path) -> None:
    """Its calls reach the provider again."""
    before = httpx.HTTPTransport.handle_request
    with traceforge.replay(player=make_player(tmp_path, plain())):
        assert before is not httpx.HTTPTransport.handle_request

    assert before is httpx.HTTPTransport.handle_request


def test_a_response_larger_than_aiohttp_reads_at_once_is_complete(url: str, tmp_path: Path) -> None:
    """aiohttp pauses the transport, and resumes it."""
    text = "x" * 3_000_000
    with traceforge.replay(player=make_player(tmp_path, plain(text))):
        response = Aiohttp().post(url, QUESTION)

    assert text == completion_text(response.body)
