"""Captures of one process: which call belongs to which, and what is left behind."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import httpx
import httpx2
import pytest
import requests
from aiohttp import client_reqrep, connector, http_parser, streams

import traceforge
from support.upstream import ScriptedResponse, Upstream, upstream
from traceforge.capture.hook import guarded_call
from traceforge.capture.hook.callsite import current_test
from traceforge.capture.null_recorder import NullRecorder
from traceforge.capture.recorder import MemoryRecorder
from traceforge.exchange import CallOutcome, Exchange

PATH = "/v1/messages"
HOOKED = [
    (httpx.HTTPTransport, "handle_request"),
    (httpx.AsyncHTTPTransport, "handle_async_request"),
    (httpx2.HTTPTransport, "handle_request"),
    (httpx2.AsyncHTTPTransport, "handle_async_request"),
    (requests.adapters.HTTPAdapter, "send"),
    (connector.BaseConnector, "connect"),
    (client_reqrep.ClientRequest, "send"),
    (client_reqrep.ClientRequest, "write_bytes"),
    (client_reqrep.ClientResponse, "start"),
    (client_reqrep.ClientResponse, "close"),
    (client_reqrep.ClientResponse, "release"),
    (streams.StreamReader, "__init__"),
    (streams.StreamReader, "feed_data"),
    (streams.StreamReader, "feed_eof"),
    (streams.StreamReader, "set_exception"),
    (http_parser.DeflateBuffer, "feed_data"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Upstream]:
    """A provider."""
    with upstream() as server:
        yield server


@pytest.fixture
def url(server: Upstream) -> str:
    """The URL of a model."""
    server.respond_with(ScriptedResponse([b"{}"]))
    return server.url + PATH


def bodies(sink: MemoryRecorder) -> list[bytes]:
    """The request bodies, in any order."""
    return sorted(exchange.request_body for exchange in sink.exchanges)


def post_chat(url: str, text: str = "") -> None:
    """One call, without the certificates that a client would read each time."""
    httpx.post(url, content=text.encode(), verify=False)


def test_the_innermost_capture_records_the_call(url: str) -> None:
    """A capture within a capture takes over until it ends."""
    outer, inner = MemoryRecorder(), MemoryRecorder()
    with traceforge.capture(sink=outer) as captured:
        post_chat(url, "before")
        with traceforge.capture(sink=inner):
            post_chat(url, "within")
        post_chat(url, "after")
    post_chat(url, "outside")

    assert ([b"after", b"before"], [b"within"]) == (bodies(outer), bodies(inner))
    assert (2, 0, [exchange.id for exchange in outer.exchanges]) == (
        captured.exchanges,
        captured.open,
        list(captured.ids),
    )
    assert outer.closed


def test_captures_in_tasks_are_kept_apart(url: str) -> None:
    """Fifty tasks at once, each with its own capture, each with its own calls."""

    async def one(client: httpx2.AsyncClient, name: int) -> list[bytes]:
        sink = MemoryRecorder()
        with traceforge.capture(sink=sink):
            await asyncio.gather(*(client.post(url, content=b"%d-%d" % (name, part)) for part in range(3)))
        return bodies(sink)

    async def all_of_them() -> list[list[bytes]]:
        async with httpx2.AsyncClient() as client:
            return await asyncio.gather(*(one(client, name) for name in range(50)))

    assert [[b"%d-%d" % (name, part) for part in range(3)] for name in range(50)] == asyncio.run(all_of_them())


def test_captures_in_threads_are_kept_apart(url: str) -> None:
    """Eight threads, each with its own capture."""

    def one(name: int) -> list[bytes]:
        sink = MemoryRecorder()
        with traceforge.capture(sink=sink):
            for part in range(5):
                requests.post(url, data=b"%d-%d" % (name, part))
        return bodies(sink)

    with ThreadPoolExecutor(8) as pool:
        captured = list(pool.map(one, range(24)))

    assert [[b"%d-%d" % (name, part) for part in range(5)] for name in range(24)] == captured


def test_a_thread_without_context_belongs_to_the_only_capture(url: str) -> None:
    """There is no other capture."""
    sink = MemoryRecorder()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # the thread is older than the capture
        with traceforge.capture(sink=sink) as captured:
            pool.submit(post_chat, url, "x").result()

    assert ([b"x"], 0) == (bodies(sink), captured.unknown)


def test_a_thread_in_a_copied_context_belongs_to_its_capture(url: str) -> None:
    """Two captures at once; the thread runs in a copy of the inner one's context."""
    outer, inner = MemoryRecorder(), MemoryRecorder()
    with ThreadPoolExecutor(1) as pool, traceforge.capture(sink=outer) as captured:
        with traceforge.capture(sink=inner):
            pool.submit(contextvars.copy_context().run, post_chat, url, "x").result()

        assert ([], [b"x"], 0) == (bodies(outer), bodies(inner), captured.unknown)


def test_a_thread_without_context_among_several_captures_is_recorded_and_counted(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could belong to either: the outermost records it, and counts it as unknown."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    outer, inner = MemoryRecorder(), MemoryRecorder()
    with (
        ThreadPoolExecutor(1) as pool,
        traceforge.capture(sink=outer) as captured,
        traceforge.capture(sink=inner),
    ):
        pool.submit(post_chat, url, "x").result()

    assert ([b"x"], [], 1) == (bodies(outer), bodies(inner), captured.unknown)


def test_a_thread_without_context_belongs_to_the_test_that_runs(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest's variable is there without a context."""
    first, second = MemoryRecorder(), MemoryRecorder()
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/a.py::test_first (call)")
    with ThreadPoolExecutor(1) as pool, traceforge.capture(sink=first) as captured:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/a.py::test_second[x y] (call)")
        with traceforge.capture(sink=second):
            pool.submit(post_chat, url, "x").result()

    (exchange,) = second.exchanges
    assert ("tests/a.py::test_second[x y]", 0) == (exchange.caller.scope, captured.unknown)


def test_a_thread_without_context_belongs_to_the_installed_capture(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`install` is for the whole process."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    everywhere, local = MemoryRecorder(), MemoryRecorder()
    installed = traceforge.install(sink=everywhere)
    try:
        with ThreadPoolExecutor(1) as pool, traceforge.capture(sink=local):
            post_chat(url, "here")
            pool.submit(post_chat, url, "lost").result()
        assert installed is traceforge.install()
    finally:
        traceforge.uninstall()
        traceforge.uninstall()

    assert ([b"lost"], [b"here"], 0) == (bodies(everywhere), bodies(local), installed.unknown)


def test_a_session_names_its_calls_and_their_state(url: str) -> None:
    """Sessions nest, and steps are counted by the engine; a test is a session by default."""
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        post_chat(url)
        with traceforge.session("a", state={"mood": "good"}, parent="p"):
            post_chat(url)
            with traceforge.session("b"):
                post_chat(url)
            post_chat(url)
        post_chat(url)

    callers = [exchange.caller for exchange in sink.exchanges]
    test = "tests/unit/capture/test_inprocess.py::test_a_session_names_its_calls_and_their_state"
    assert [(test, 0), ("a", 0), ("b", 0), ("a", 1), (test, 1)] == [(c.session_id, c.step_index) for c in callers]
    assert [({"mood": "good"}, "p"), (None, "")] == [(c.state, c.parent_trace_id) for c in callers[1:3]]
    assert {test} == {c.scope for c in callers}


def test_steps_are_counted_once_each_under_threads(url: str) -> None:
    """No two calls of a session have the same step, however they overlap."""
    sink = MemoryRecorder()
    with ThreadPoolExecutor(8) as pool, traceforge.capture(sink=sink):
        list(pool.map(lambda _: post_chat(url), range(64)))

    assert list(range(64)) == sorted(exchange.caller.step_index or 0 for exchange in sink.exchanges)


def test_the_classes_are_as_before_when_the_last_capture_ends(url: str) -> None:
    """The same function objects, whatever the order in which captures end; and no import hook is left."""
    before = [vars(owner)[name] for owner, name in HOOKED]
    path = list(sys.meta_path)
    traceforge.install(sink=MemoryRecorder())
    with traceforge.capture(sink=MemoryRecorder()):
        assert not [1 for (owner, name), was in zip(HOOKED, before, strict=True) if vars(owner)[name] is was]
        traceforge.uninstall()
        assert vars(httpx.HTTPTransport)["handle_request"] is not before[0]

    assert before == [vars(owner)[name] for owner, name in HOOKED]
    assert path == sys.meta_path


def test_a_patch_on_top_of_ours_is_left_alone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours stays below it and does nothing; the next capture uses it again, and no call is recorded twice."""
    original = httpx.HTTPTransport.handle_request
    with traceforge.capture(sink=MemoryRecorder()):
        below = httpx.HTTPTransport.handle_request
        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *arguments: below(*arguments))  # noqa: PLW0108
    post_chat(url)
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        post_chat(url, "x")
    assert [b"x"] == bodies(sink)

    monkeypatch.undo()
    assert httpx.HTTPTransport.handle_request is below
    with traceforge.capture(sink=sink):
        pass
    assert httpx.HTTPTransport.handle_request is original


def test_clients_and_connections_from_before_are_recorded(url: str) -> None:
    """Classes are hooked, not instances."""
    sink = MemoryRecorder()
    with httpx.Client() as client, requests.Session() as session:
        client.post(url)
        session.post(url)
        with traceforge.capture(sink=sink):
            client.post(url, content=b"1")
            session.post(url, data=b"2")

    assert [b"1", b"2"] == bodies(sink)


def test_a_websocket_that_cannot_connect_is_recorded_and_others_are_not() -> None:
    """Through aiohttp: a failed call, as it is with HTTP."""

    async def open_sockets() -> None:
        for path in ("/v1/realtime", "/chatroom"):
            async with aiohttp.ClientSession() as session:
                with pytest.raises(aiohttp.ClientError):
                    await session.ws_connect(f"ws://127.0.0.1:1{path}")

    before = guarded_call.faults.count
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink) as captured:
        asyncio.run(open_sockets())

    (exchange,) = sink.exchanges
    assert ("http://127.0.0.1:1/v1/realtime", CallOutcome.FAILED) == (exchange.url, exchange.outcome)
    assert {} == captured.not_seen
    assert before == guarded_call.faults.count


class Broken(NullRecorder):
    """A sink that raises."""

    def take(self, exchange: Exchange) -> None:
        """Fail."""
        raise OSError("no space left on device")


def test_a_sink_that_fails_never_reaches_the_application(url: str) -> None:
    """The call goes through; the failure is counted."""
    before = guarded_call.faults.count
    with traceforge.capture(sink=Broken()):
        response = httpx.post(url)

    assert (200, b"{}", before + 1) == (response.status_code, response.content, guarded_call.faults.count)


def test_a_watcher_that_cannot_begin_never_reaches_the_application(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is not recorded, and the failure is counted."""
    before = guarded_call.faults.count
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink) as captured:
        monkeypatch.setattr(type(captured), "begin_call", lambda *_: 1 / 0)
        assert 200 == httpx.post(url).status_code
        assert 200 == requests.post(url).status_code

    assert ([], before + 2) == (bodies(sink), guarded_call.faults.count)


def test_importing_traceforge_imports_nothing_else() -> None:
    """Neither the recorder nor any client: an application loads only what it uses."""
    program = "import sys, traceforge; print(sorted(n for n in sys.modules if n.startswith('traceforge.')))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]\n" == ran.stdout


def test_a_client_that_is_imported_during_a_capture_is_hooked(url: str, tmp_path: Path) -> None:
    """A client that the application does not import is not imported."""
    program = f"""
import sys, traceforge
from traceforge.capture.recorder import MemoryRecorder
sink = MemoryRecorder()
with traceforge.capture(sink=sink):
    assert not {{"httpx", "httpx2", "aiohttp", "requests"}} & set(sys.modules)
    import httpx2, requests
    httpx2.post({url!r}, content=b"1"); requests.post({url!r}, data=b"2")
    assert type(httpx2.__loader__).__name__ == "SourceFileLoader" and "exec_module" not in vars(httpx2.__loader__)
print([e.request_body for e in sink.exchanges], httpx2.HTTPTransport.handle_request.__code__.co_filename[-10:])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "[b'1', b'2'] default.py\n" == ran.stdout, ran.stderr


def test_the_test_that_runs_is_known_where_the_environment_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest's variable is read from the environment that a test has put in place of the real one, too."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "a.py::test_é[x (call)] (call)")
    assert "a.py::test_é[x (call)]" == current_test()

    monkeypatch.setattr(os, "environ", {"PYTEST_CURRENT_TEST": "b.py::test_b (setup)"})
    assert "b.py::test_b" == current_test()

    monkeypatch.setattr(os, "environ", {})
    assert "" == current_test()
