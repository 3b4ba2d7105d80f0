"""Calls that are answered in this process: every client gets what was recorded, and nothing reaches the network."""

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
from support.drivers import DRIVERS, Aiohttp, Driver
from support.exchanges import call, chat_answer, chat_request
from support.replaying import recorded
from support.upstream import Answer, Upstream, unasked, upstream
from support.wire import CHAT, SSE
from traceforge.capture.hook import clients, dispatch, replayed_response
from traceforge.capture.hook.guarded_call import faults
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.errors import CallNotRecorded
from traceforge.exchange import CallOutcome, Chunk, Exchange
from traceforge.replay.player import Player

QUESTION = json.dumps(chat_request("hello")).encode()
NEW = json.dumps(chat_request("goodbye")).encode()
PIECES = [b"da", b'ta: {"a": 1}\n\n', b'data: {"a": 2}\n\ndata: {"a"', b": 3}\n\n", b"data: [DONE]\n\n"]

each_driver = pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider that nobody may ask."""
    with unasked() as one:
        yield one


@pytest.fixture
def url(server: Upstream) -> str:
    """Where it is asked."""
    return server.url + CHAT


@pytest.fixture(autouse=True)
def no_faults() -> Iterator[None]:
    """No test may pass because a fault of ours was swallowed."""
    before = faults.count
    yield
    assert before == faults.count, faults.first


def plain(text: str = "Paris", question: bytes = QUESTION, **more: Any) -> Exchange:
    """A call with a plain answer."""
    return call(CHAT, question, chat_answer(text), **more)


def streamed(times: list[float] | None = None, **more: Any) -> Exchange:
    """One whose answer came in pieces."""
    exchange = call(CHAT, QUESTION, b"".join(PIECES), media_type=SSE, **more)
    when = times or [1.0] * len(PIECES)
    return msgspec.structs.replace(
        exchange, chunks=tuple(Chunk(at, data) for at, data in zip(when, PIECES, strict=True))
    )


def says(got: bytes) -> str:
    """The text of a chat's answer."""
    return str(json.loads(got)["choices"][0]["message"]["content"])


@each_driver
def test_a_call_is_answered_as_it_was(driver: Driver, url: str, tmp_path: Path) -> None:
    """Status, headers and body; each answer in its turn."""
    player = recorded(tmp_path, plain("one", number=1), plain("two", number=2, status=429))
    with traceforge.replay(player=player) as replayed:
        first, second = driver.post(url, QUESTION), driver.post(url, QUESTION)

    assert (200, "one", 429, "two") == (first.status, says(first.body), second.status, says(second.body))
    assert ("content-type", "application/json") in first.headers
    assert ("content-length", str(len(first.body))) in first.headers
    assert (2, []) == (replayed.played, replayed.unmatched)


@pytest.mark.parametrize("module", [httpx, httpx2], ids=lambda module: module.__name__)
def test_a_response_is_its_applications_own(module: Any, url: str, tmp_path: Path) -> None:
    """What an application does to one response is not seen in the next, though both have the same answer."""
    with traceforge.replay(player=recorded(tmp_path, plain())), module.Client() as client:
        first = client.post(url, content=QUESTION)
        before = [first.headers.raw, dict(first.extensions)]
        first.headers["content-type"] = "text/plain"
        first.extensions["mine"] = 1
        second = client.post(url, content=QUESTION)

    assert before == [second.headers.raw, dict(second.extensions)]
    assert "Paris" == says(first.content) == says(second.content)


@each_driver
def test_a_key_that_stands_in_the_answer_is_the_live_one(driver: Driver, url: str, tmp_path: Path) -> None:
    """Headers are read whole where the answer refers to one of them."""
    answer = chat_answer("You are sk-proj-recorded0recorded0recorded0.")
    one = call(CHAT, QUESTION, answer, headers=[("X-Api-Key", "sk-proj-recorded0recorded0recorded0")])
    with traceforge.replay(player=recorded(tmp_path, one)):
        got = driver.post(url, QUESTION, {"X-Api-Key": "sk-proj-live0live0live0live0live0live0"})

    assert "You are sk-proj-live0live0live0live0live0live0." == says(got.body)


@each_driver
def test_a_client_that_speaks_to_us_is_told_which_recording_it_was(driver: Driver, url: str, tmp_path: Path) -> None:
    """And one whose headers cannot be used is told that."""
    one = plain()
    said = [{"X-TraceForge-Session-ID": "s"}, {}, {"X-TraceForge-Step-Index": "first"}]
    with pytest.raises(CallNotRecorded), traceforge.replay(player=recorded(tmp_path, one)):
        good, silent, bad = [driver.post(url, QUESTION, headers) for headers in said]

    assert ("x-traceforge-replayed", one.id) in good.headers
    assert "x-traceforge-replayed" not in dict(silent.headers)
    assert (200, 200, 418) == (good.status, silent.status, bad.status)


@each_driver
def test_headers_that_change_behaviour_are_a_part_of_the_question(driver: Driver, url: str, tmp_path: Path) -> None:
    """However they are spelled."""
    one = plain(headers=[("OpenAI-Beta", "assistants=v2")])
    said = [{"openai-BETA": "assistants=v2"}, {"OpenAI-Beta": "assistants=v3"}]
    with pytest.raises(CallNotRecorded), traceforge.replay(player=recorded(tmp_path, one)):
        same, other = [driver.post(url, QUESTION, headers) for headers in said]

    assert (200, 418) == (same.status, other.status)


@each_driver
def test_a_stream_keeps_its_pieces(driver: Driver, url: str, tmp_path: Path) -> None:
    """Each as it came, however it was cut."""
    pieces: list[bytes] = []
    with traceforge.replay(player=recorded(tmp_path, streamed())):
        driver.stream(url, QUESTION, pieces.append)

    assert PIECES == pieces


def test_a_stream_keeps_its_pieces_under_uvloop(url: str, tmp_path: Path) -> None:
    """aiohttp on another event loop."""

    async def ask() -> list[bytes]:
        async with aiohttp.ClientSession() as session, session.post(url, data=QUESTION) as response:
            return [piece async for piece in response.content.iter_any()]

    with traceforge.replay(player=recorded(tmp_path, streamed())):
        pieces = uvloop.run(ask())

    assert PIECES == pieces


@each_driver
def test_a_request_that_streams_is_read_to_its_end_first(driver: Driver, url: str, tmp_path: Path) -> None:
    """Its pieces make the same question."""
    with traceforge.replay(player=recorded(tmp_path, plain())):
        got = driver.post(url, iter([QUESTION[:9], QUESTION[9:]]))

    assert "Paris" == says(got.body)


@each_driver
def test_an_answer_that_was_cut_breaks_off_again(driver: Driver, url: str, tmp_path: Path) -> None:
    """As the client reports it, after the pieces that came."""
    pieces: list[bytes] = []
    exchange = call(CHAT, QUESTION, PIECES[1], media_type=SSE, outcome=CallOutcome.CUT, error="reset")
    with (
        traceforge.replay(player=recorded(tmp_path, exchange)),
        pytest.raises(driver.error),
    ):
        driver.stream(url, QUESTION, pieces.append)

    assert [PIECES[1]] == pieces


@each_driver
def test_at_a_pace_pieces_come_when_they_came(driver: Driver, url: str, tmp_path: Path) -> None:
    """Twice as fast as they were recorded; at once where nothing is said."""
    player = recorded(tmp_path, streamed([0.0, 100.0, 200.0, 300.0, 400.0]))
    took = {}
    for pace in ("x2", "none"):
        with traceforge.replay(player=player, pace=pace):
            began = time.monotonic()
            driver.stream(url, QUESTION, lambda _: None)
            took[pace] = time.monotonic() - began

    assert took["x2"] >= 0.2


@each_driver
def test_a_miss_is_answered_and_counted_although_it_is_swallowed(driver: Driver, url: str, tmp_path: Path) -> None:
    """The application sees 418 and everything that is to be said; the end of the replay raises."""
    with (
        pytest.raises(CallNotRecorded, match=r"1 call in a replay had no answer.*\$.messages\[0\].content"),
        traceforge.replay(player=recorded(tmp_path, plain())) as replayed,
    ):
        got = driver.post(url, NEW)

    assert 418 == got.status
    assert ("x-should-retry", "false") in got.headers
    assert 'recorded "hello", sent "goodbye"' in json.loads(got.body)["error"]["message"]
    assert 1 == len(replayed.unmatched)


def test_an_error_on_its_way_is_not_hidden_by_a_miss(url: str, tmp_path: Path) -> None:
    """The application's own says more."""
    with pytest.raises(ZeroDivisionError), traceforge.replay(player=recorded(tmp_path)):
        1 // (httpx.post(url, content=NEW).status_code - 418)


@pytest.mark.parametrize("options", [{"pace": "fast"}, {"pace": "x0"}, {"pace": "2"}, {"source": "cassettes"}])
def test_unknown_names_are_errors(options: dict[str, str], tmp_path: Path) -> None:
    """Never a guess."""
    with pytest.raises(ValueError, match=r"pace|source"), traceforge.replay(player=recorded(tmp_path), **options):
        pass


# -- nothing fails open


@each_driver
@pytest.mark.parametrize("fault", ["play", "begin", "respond", "nothing", "answer"])
def test_a_mistake_of_ours_is_an_answer_and_a_miss(
    driver: Driver, fault: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks, the network is not reached: 418, counted."""
    player = recorded(tmp_path, plain())

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
        got = driver.post(url, QUESTION)

    assert 418 == got.status
    assert "TraceForge replay: " in json.loads(got.body)["error"]["message"]
    assert 1 == len(replayed.unmatched)


@each_driver
def test_a_capture_inside_a_replay_does_not_reach_the_network(driver: Driver, url: str, tmp_path: Path) -> None:
    """The replay takes the call."""
    sink = MemoryRecorder()
    with traceforge.replay(player=recorded(tmp_path, plain())), traceforge.capture(sink=sink):
        got = driver.post(url, QUESTION)

    assert "Paris" == says(got.body)
    assert [] == list(sink.exchanges)


def test_a_thread_without_a_context_is_answered(url: str, tmp_path: Path) -> None:
    """Also where an outer capture is there, which would only record."""
    got = []
    with traceforge.capture(sink=MemoryRecorder()), traceforge.replay(player=recorded(tmp_path, plain())) as replayed:
        empty = contextvars.Context()
        thread = threading.Thread(target=lambda: empty.run(lambda: got.append(httpx.post(url, content=QUESTION))))
        thread.start()
        thread.join()

    assert ([200], 1) == ([one.status_code for one in got], replayed.played)


def test_every_call_to_a_provider_is_ours(tmp_path: Path) -> None:
    """Also one that asks no model: it is a miss, and does not go out."""
    with pytest.raises(CallNotRecorded), traceforge.replay(player=recorded(tmp_path, plain())):
        got = httpx.get("https://api.openai.com/v1/models")

    assert 418 == got.status_code


@each_driver
def test_telemetry_is_refused_silently(driver: Driver, tmp_path: Path) -> None:
    """It goes nowhere, and nobody misses it."""
    with traceforge.replay(player=recorded(tmp_path, plain())) as replayed:
        got = driver.post("https://api.openai.com/v1/traces/ingest", b"{}")

    assert (418, []) == (got.status, replayed.unmatched)


def test_other_calls_are_left_alone(tmp_path: Path) -> None:
    """A database, a web page."""
    with upstream() as other, traceforge.replay(player=recorded(tmp_path, plain())):
        other.answers(Answer([b"page"]))
        got = httpx.get(f"{other.url}/page")

    assert b"page" == got.content


def test_a_websocket_to_a_provider_is_refused_and_counted(tmp_path: Path) -> None:
    """It cannot be replayed, and must not be opened."""

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            await session.ws_connect("wss://api.openai.com/v1/realtime")

    with (
        pytest.raises(CallNotRecorded, match=r"a WebSocket to api\.openai\.com cannot be replayed"),
        traceforge.replay(player=recorded(tmp_path)),
        pytest.raises(aiohttp.ClientOSError),
    ):
        asyncio.run(ask())


def test_a_client_that_cannot_be_hooked_stops_the_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording would go on without it; a replay would let its calls out."""

    def hook(module: Any, patches: Any) -> None:
        raise AttributeError("another make")

    monkeypatch.setitem(clients.HOOKS, "requests", hook)
    with pytest.raises(ImportError, match="requests"), traceforge.replay(player=recorded(tmp_path)):
        pass

    assert not dispatch.is_replaying()
    assert "traceforge" not in repr(requests.adapters.HTTPAdapter.send)
    assert clients._import_hook not in sys.meta_path


def test_a_client_is_as_before_after_the_replay(url: str, tmp_path: Path) -> None:
    """Then it asks the provider again."""
    before = httpx.HTTPTransport.handle_request
    with traceforge.replay(player=recorded(tmp_path, plain())):
        assert before is not httpx.HTTPTransport.handle_request

    assert before is httpx.HTTPTransport.handle_request


def test_an_answer_larger_than_aiohttp_wants_at_once_comes_whole(url: str, tmp_path: Path) -> None:
    """It pauses the transport, and goes on."""
    text = "x" * 3_000_000
    with traceforge.replay(player=recorded(tmp_path, plain(text))):
        got = Aiohttp().post(url, QUESTION)

    assert text == says(got.body)
