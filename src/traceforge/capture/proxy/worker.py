"""One worker: a loop, a server, signals, and its end.

In: settings and a bound socket. Out: what it counted. Never: exits before what was recorded is written, within the
time that it was given, unless it is told twice to stop.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from traceforge.capture.proxy.call_recording import Watcher
from traceforge.capture.proxy.proxy_server import Server
from traceforge.capture.proxy.upstream_routes import Routes
from traceforge.capture.proxy.worker_state import Site
from traceforge.capture.recorder import WRITE_SECONDS_MAX, Recorder
from traceforge.capture.replay_responder import Replay
from traceforge.http.access import Guard
from traceforge.http.serving import run_event_loop, set_on_signals

SINK_SECONDS_MAX = WRITE_SECONDS_MAX  # What the sink may take to keep everything, and to make files.


class Settings(NamedTuple):
    """What a person asked for."""

    host: str
    port: int
    upstreams: Mapping[str, str]
    token: str = ""
    workers: int = 1
    drain_s: float = 10.0
    replay: Replay | None = None


OpenSink = Callable[[], Recorder | None]


def run_worker(
    settings: Settings, sock: socket.socket, open_sink: OpenSink, ready: Callable[[], None],
    *, number: int = 0, lifeline: int | None = None,
) -> dict[str, int]:  # fmt: skip
    """Serve until a signal comes, or until the other end of `lifeline` is gone; what was counted."""
    return run_event_loop(_serve(settings, sock, open_sink, ready, number, lifeline))


async def _serve(
    settings: Settings, sock: socket.socket, open_sink: OpenSink, ready: Callable[[], None],
    number: int, lifeline: int | None,
) -> dict[str, int]:  # fmt: skip
    stop, hurry = asyncio.Event(), asyncio.Event()
    set_on_signals(stop, hurry)
    if lifeline is not None:
        _stop_when_orphaned(stop, lifeline)
    sink = open_sink()
    guard = Guard(settings.host, settings.token)
    site = Site(Routes(settings.upstreams), guard, sink, worker=number, replay=settings.replay)
    server = Server(site)
    await server.start(sock)
    _calm_collector()
    ready()
    with suppress(asyncio.CancelledError):  # Ctrl-C, where a loop knows no signals.
        await stop.wait()
    cut = await server.drain(settings.drain_s, hurry)
    if sink is not None:
        await close_sink(sink, hurry, site.watcher)
    return {**site.totals(), "cut_at_stop": cut}


async def close_sink(sink: Recorder, hurry: asyncio.Event, watcher: Watcher) -> None:
    """Have the sink write what it holds; in a thread that nobody waits for once we are in a hurry."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    seconds = 0.0 if hurry.is_set() else SINK_SECONDS_MAX

    def close() -> None:
        try:
            told = sink.close(seconds)
            for reason, times in told.failed.items():
                watcher.say(f"{times} not recorded: {reason}")
            for reason in told.troubles:
                watcher.say(f"what was recorded stays in the spool for now: {reason}")
        except Exception as exc:  # noqa: BLE001 (said and counted; the end must come)
            watcher.failed("close", exc)
        with suppress(RuntimeError):  # The loop is gone: nobody waited.
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=close, daemon=True).start()
    waits = [loop.create_task(done.wait()), loop.create_task(hurry.wait())]
    if hurry.is_set():
        waits.pop().cancel()
    await asyncio.wait(waits, timeout=seconds + 3, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()


def _calm_collector() -> None:
    """Calls leave no cycles behind, so that looking for some after every 700 objects is time lost."""
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
