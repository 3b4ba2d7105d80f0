"""One worker process: an event loop with a proxy server, until a signal stops it.

Never: says that it is ready before its recorder reads, within a time limit; exits before the recorder has written its
exchanges, within its time limit, unless a second signal comes.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from traceforge.capture.proxy.call_recording import CallRecording
from traceforge.capture.proxy.proxy_server import ProxyServer
from traceforge.capture.proxy.upstream_routes import UpstreamRoutes
from traceforge.capture.proxy.worker_state import WorkerState
from traceforge.capture.recorder import WRITE_SECONDS_MAX, ProcessRecorder, Recorder
from traceforge.capture.replay_responder import ReplayResponder
from traceforge.http.access import AccessPolicy
from traceforge.http.server_limits import PROXY_LIMITS, ServerLimits, raise_descriptor_limit
from traceforge.http.serving import run_event_loop, set_on_signals

TOKEN_VARIABLE = "TRACEFORGE_PROXY_TOKEN"  # noqa: S105 (the name of a variable)
START_SECONDS_MAX = 15.0  # For the recorder to start on a busy machine. Then the proxy is ready without it.
START_POLL_SECONDS = 0.01
CLOSE_SECONDS_MAX = WRITE_SECONDS_MAX  # For the recorder to write its exchanges, and to make files of them.


class ProxySettings(NamedTuple):
    """The options of `traceforge proxy`."""

    host: str
    port: int
    upstreams: Mapping[str, str]
    token: str = ""
    workers: int = 1
    drain_s: float = 10.0
    replay: ReplayResponder | None = None
    limits: ServerLimits = PROXY_LIMITS


OpenRecorder = Callable[[], Recorder | None]


def run_worker(
    settings: ProxySettings, sock: socket.socket, open_recorder: OpenRecorder, ready: Callable[[], None],
    *, number: int = 0, lifeline: int | None = None,
) -> dict[str, int]:  # fmt: skip
    """Serve until a signal comes, or until the other end of the pipe `lifeline` closes. Returns the totals."""
    return run_event_loop(_serve(settings, sock, open_recorder, ready, number, lifeline))


async def _serve(
    settings: ProxySettings, sock: socket.socket, open_recorder: OpenRecorder, ready: Callable[[], None],
    number: int, lifeline: int | None,
) -> dict[str, int]:  # fmt: skip
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    if lifeline is not None:
        _stop_when_orphaned(stop, lifeline)
    recorder = open_recorder()
    access = AccessPolicy(settings.host, settings.token)
    raise_descriptor_limit(settings.limits.connections)
    state = WorkerState(
        UpstreamRoutes(settings.upstreams), access, recorder, worker=number, replay=settings.replay,
        limits=settings.limits,
    )  # fmt: skip
    server = ProxyServer(state)
    await server.start(sock)
    if isinstance(recorder, ProcessRecorder):
        await _wait_until_reading(recorder, stop, state.recording)
    _relax_garbage_collector()
    ready()
    with suppress(asyncio.CancelledError):  # Ctrl-C on Windows.
        await stop.wait()
    cut = await server.drain(settings.drain_s, hurry)
    if recorder is not None:
        await close_recorder(recorder, hurry, state.recording)
    return {**state.totals(), "cut_at_stop": cut}


async def _wait_until_reading(recorder: ProcessRecorder, stop: asyncio.Event, recording: CallRecording) -> None:
    """Calls that come meanwhile are answered, and wait to be recorded."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while recorder.is_starting and not stop.is_set():
        if time.monotonic() > deadline:
            recording.report("the recorder is slow to start: calls wait in memory until it has")
            break
        await asyncio.sleep(START_POLL_SECONDS)


async def close_recorder(recorder: Recorder, hurry: asyncio.Event, recording: CallRecording) -> None:
    """Let the recorder write its exchanges, in a thread that is not waited for after `hurry`."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()
    seconds = 0.0 if hurry.is_set() else CLOSE_SECONDS_MAX

    def close() -> None:
        try:
            counts = recorder.close(seconds)
            for reason, times in counts.failed.items():
                recording.report(f"{times} not recorded: {reason}")
            for reason in counts.troubles:
                recording.report(f"recorded calls stay in the spool for now: {reason}")
        except Exception as exc:  # noqa: BLE001 (reported and counted; the worker must end)
            recording.count_failure(exc, "close")
        with suppress(RuntimeError):  # The loop has ended without waiting.
            loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=close, daemon=True).start()
    waits = [loop.create_task(closed.wait())]
    if not hurry.is_set():
        waits.append(loop.create_task(hurry.wait()))
    await asyncio.wait(waits, timeout=seconds + 3, return_when=asyncio.FIRST_COMPLETED)
    for task in waits:
        task.cancel()


def _relax_garbage_collector() -> None:
    """Look for cycles less often than after every 700 objects: calls leave none behind."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _stop_when_orphaned(stop: asyncio.Event, lifeline: int) -> None:
    """Stop when the supervisor is gone: its end of the pipe is then closed."""
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        if not os.read(lifeline, 1):
            loop.remove_reader(lifeline)
            stop.set()

    loop.add_reader(lifeline, on_readable)
