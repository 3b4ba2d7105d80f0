"""The hook in an event loop: nothing in it blocks, and identical calls keep their order."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import httpx
import pytest

import traceforge
from support.blocking_calls import blocking_calls
from support.corpus import PROJECT
from support.exchanges import chat_answer, chat_request, make_exchange
from support.http_clients import DRIVERS, Driver
from support.loopback_models import chat_events
from support.replay_player import make_player
from support.upstream import ScriptedResponse, Upstream, upstream
from support.wire_transcripts import CHAT
from traceforge.capture.hook.callsite import CallSites
from traceforge.capture.hook.worker_thread import run_in_worker, running_loop, submit_to_worker
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.capture.run.command_runner import run_command
from traceforge.config import load_config
from traceforge.errors import CallNotRecorded
from traceforge.exchange import Exchange

ASYNC_DRIVERS = [driver for driver in DRIVERS if "async" in driver.name or driver.name == "aiohttp"]


@pytest.fixture
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as provider:
        provider.respond_with(ScriptedResponse([json.dumps(chat_answer("live")).encode()]))
        yield provider


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, entered."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    return tmp_path


def recorded(*answers: str, text: str = "hello") -> list[Exchange]:
    """The same call, with several answers."""
    return [
        make_exchange(CHAT, chat_request(text), chat_answer(answer), number=number)
        for number, answer in enumerate(answers)
    ]


@pytest.mark.parametrize("driver", ASYNC_DRIVERS, ids=lambda driver: driver.name)
def test_nothing_blocks_the_loop_of_an_application(driver: Driver, project: Path, server: Upstream) -> None:
    """Neither while a call is recorded, nor while it is replayed, nor where it has no recording."""
    body = json.dumps(chat_request("hello")).encode()
    player = make_player(project / "traces", *recorded("replayed"))
    with blocking_calls() as blocking, traceforge.capture(sink=MemoryRecorder()) as captured:
        driver.post(server.url + CHAT, body)
    with (
        suppress(CallNotRecorded),
        traceforge.replay(player=player) as replayed,
        blocking_calls() as blocking_in_replay,
    ):
        answer = driver.post(server.url + CHAT, body)
        driver.post(server.url + CHAT, b'{"model":"another"}')

    assert [] == blocking
    assert [] == blocking_in_replay
    assert (1, 1, 1) == (captured.exchanges, replayed.played, len(replayed.unmatched))
    assert b"replayed" in answer.body


@pytest.mark.parametrize("driver", ASYNC_DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("debug", ["", "1"])
def test_no_stream_blocks_the_loop_of_an_application(
    driver: Driver, project: Path, server: Upstream, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    """Also in asyncio's debug mode, which refuses what another thread schedules without a wake-up."""
    monkeypatch.setenv("PYTHONASYNCIODEBUG", debug)
    by_asyncio = {"stat"} if debug else set()  # It looks for the source of every line on the stack.
    body = json.dumps({**chat_request("hello"), "stream": True}).encode()
    events = chat_events("One", " two", " three")
    server.respond_with(ScriptedResponse(events, headers={"content-type": "text/event-stream"}, chunked=True))
    live: list[bytes] = []
    replayed: list[bytes] = []
    recorder = MemoryRecorder()
    with blocking_calls() as blocking, traceforge.capture(sink=recorder):
        driver.stream(server.url + CHAT, body, live.append)
    player = make_player(project / "traces", *recorder.exchanges)
    with traceforge.replay(player=player) as replay, blocking_calls() as blocking_in_replay:
        driver.stream(server.url + CHAT, body, replayed.append)

    assert set() == {*blocking, *blocking_in_replay} - by_asyncio
    assert (1, 1) == (len(recorder.exchanges), replay.played)
    assert b"".join(events) == b"".join(live) == b"".join(replayed)


PROGRAM = """
import asyncio, json, os, sys
sys.path.insert(0, os.environ["TESTS"])
import httpx
from support.blocking_calls import blocking_calls

async def ask():
    async with httpx.AsyncClient() as client:
        body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello"}]}
        return (await client.post(os.environ["URL"], json=body)).json()

async def main():
    return await asyncio.gather(*[ask() for _ in range(3)])

with blocking_calls() as blocking:
    answers = asyncio.run(main())
with open("got.json", "w") as file:
    json.dump([blocking, [answer["choices"][0]["message"]["content"] for answer in answers]], file)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["record", "replay", "auto"])
def test_nothing_blocks_the_loop_of_a_child_process(mode: str, project: Path, server: Upstream) -> None:
    """The hook reports to its parent, and asks it, without waiting in the loop. Identical calls keep their order."""
    (project / "app.py").write_text(PROGRAM)
    answers = ["first", "second", "third"] if mode == "replay" else ["first"]
    player = make_player(project / "traces", *recorded(*answers), repeat=False)
    sink = MemoryRecorder()
    replay = None if mode == "record" else ReplayResponder(player, 0.0, mode == "auto")
    run_command(
        [sys.executable, "app.py"], load_config(str(project)), sink,
        {**os.environ, "TESTS": str(PROJECT / "tests"), "URL": server.url + CHAT}, replay=replay,
    )  # fmt: skip
    blocking, got = json.loads((project / "got.json").read_text())

    assert [] == blocking
    expected = {"record": ["live"] * 3, "replay": answers, "auto": ["first", "live", "live"]}
    assert expected[mode] == got
    assert got.count("live") == len(sink.exchanges)


def test_identical_calls_at_once_get_their_responses_in_order(project: Path, server: Upstream) -> None:
    """The loop goes on while a recording is read, and the first call still gets the first response."""
    answers = [str(number) for number in range(12)]
    player = make_player(project / "traces", *recorded(*answers), repeat=False)

    async def ask(client: httpx.AsyncClient) -> str:
        response = await client.post(server.url + CHAT, json=chat_request("hello"))
        return str(response.json()["choices"][0]["message"]["content"])

    async def ask_all() -> list[str]:
        async with httpx.AsyncClient() as client:
            return await asyncio.gather(*[ask(client) for _ in answers])

    with traceforge.replay(player=player):
        assert answers == asyncio.run(ask_all())


def test_a_call_that_is_cancelled_while_it_is_looked_up_still_counts(project: Path, server: Upstream) -> None:
    """What a test uses does not depend on how fast a recording is read."""
    player = make_player(project / "traces", *recorded("first", "second"), repeat=False)

    async def ask_twice() -> str:
        async with httpx.AsyncClient() as client:
            first = asyncio.create_task(client.post(server.url + CHAT, json=chat_request("hello")))
            while not threads_of_replay() and not first.done():
                await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
            response = await client.post(server.url + CHAT, json=chat_request("hello"))
            return str(response.json()["choices"][0]["message"]["content"])

    with traceforge.replay(player=player) as replayed:
        answer = asyncio.run(ask_twice())

    assert ("second", 2) == (answer, replayed.played)


def threads_of_replay() -> list[str]:
    """The threads in which recordings are looked up."""
    return [thread.name for thread in threading.enumerate() if thread.name == "traceforge-replay"]


def test_work_beside_a_loop_keeps_its_order_and_its_errors() -> None:
    """One function at a time; an error reaches the coroutine that waits; afterwards there is no thread."""
    order: list[int] = []

    def work(number: int) -> int:
        order.append(number)
        if number == 3:
            raise ValueError("three")
        return number

    async def main() -> list[int | BaseException]:
        results = await asyncio.gather(*[run_in_worker(work, number) for number in range(6)], return_exceptions=True)
        submit_to_worker(lambda: order.append(6))
        await run_in_worker(work, 7)
        return results

    results = asyncio.run(main())

    assert [0, 1, 2, 4, 5] == [result for result in results if isinstance(result, int)]
    assert ["three"] == [str(result) for result in results if isinstance(result, ValueError)]
    assert [0, 1, 2, 3, 4, 5, 6, 7] == order


def test_work_without_a_loop_of_asyncio_is_done_at_once() -> None:
    """A coroutine of trio, or one that is stepped by hand."""
    coroutine = run_in_worker(threading.get_ident)

    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    assert threading.get_ident() == stop.value.value


CLOSED_LOOP = """
import asyncio, time
import traceforge.capture.hook.guarded_call as guarded_call
from traceforge.capture.hook.in_flight_call import InFlightCall
from traceforge.capture.hook.watcher import Watcher

class SlowWatcher(Watcher):
    def replay_call(self, call, body):
        time.sleep(0.1)

async def main():
    call = InFlightCall(print, "POST", "http://127.0.0.1/", ())
    coroutine = guarded_call.GuardedCall(call, SlowWatcher()).replay_async(b"")
    asyncio.get_running_loop().create_task(coroutine)
    await asyncio.sleep(0.02)

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()  # with a task that waits, as `asyncio.run` never does
time.sleep(0.3)
print("end")
"""


def test_a_process_ends_although_a_loop_was_closed_during_a_lookup() -> None:
    """Its coroutine is collected when Python ends: a thread that is started there never runs."""
    path = os.pathsep.join([str(PROJECT / "src"), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", CLOSED_LOOP], check=False, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (0, "end\n") == (ended.returncode, ended.stdout), ended


def test_a_loop_is_not_looked_for_in_a_module_that_is_being_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may import asyncio for the first time while this one makes a call."""
    monkeypatch.setitem(sys.modules, "asyncio", ModuleType("asyncio"))

    assert running_loop() is None


def test_a_coroutine_of_another_library_inside_a_loop_waits_for_no_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """`trio.run` in a notebook: trio understands only what is its own, and says so in sniffio."""
    sniffio = ModuleType("sniffio")
    monkeypatch.setitem(sys.modules, "sniffio", sniffio)

    async def step(library: str) -> bool:
        monkeypatch.setattr(sniffio, "current_async_library", lambda: library, raising=False)
        coroutine = run_in_worker(threading.get_ident)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return bool(stop.value == threading.get_ident())
        coroutine.close()
        return False

    assert [True, False] == [asyncio.run(step(library)) for library in ("trio", "asyncio")]


@pytest.mark.parametrize("enter", [lambda link, _: link, lambda _, real: real], ids=["link", "real"])
def test_a_file_has_one_name_inside_and_outside_of_a_loop(
    tmp_path: Path, enter: Callable[[Path, Path], Path]
) -> None:
    """Whether the project was entered through a link or not, and however its files are written."""
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "package").mkdir(parents=True)
    link.symlink_to(real)
    sites = CallSites(os.fspath(enter(link, real)))

    async def name(file: Path) -> str:
        return sites.relative(os.fspath(file))

    files = [real / "package" / "app.py", enter(link, real) / "app.py", tmp_path / "other.py", real]
    outside = [sites.relative(os.fspath(file)) for file in files]
    assert ["package/app.py", "app.py", "../other.py", ""] == outside
    assert outside == [asyncio.run(name(file)) for file in files]
