"""Recording in this process: the calls of one context, or of the whole process.

In: calls that HTTP clients of this process make. Out: their exchanges, in the project's sink. Never: opens a socket,
or keeps a client hooked after the last capture has ended.

    with traceforge.capture() as captured: ...      this context, and what it starts
    traceforge.install(); traceforge.uninstall()    the whole process
    with traceforge.session("order-17"): ...        calls in it belong together
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from traceforge.capture.engine import Engine
from traceforge.capture.hook import clients, dispatch
from traceforge.capture.hook.in_flight_call import CLIENT_LEFT, InFlightCall
from traceforge.capture.hook.pytest_scopes import current_scope
from traceforge.capture.hook.watcher import Watcher
from traceforge.capture.traceforge_headers import apply_call_site
from traceforge.capture.watched_hosts import list_watched_hosts
from traceforge.config import LoadedConfig, current_folder, load_config
from traceforge.exchange import Caller, Exchange, Headers

if TYPE_CHECKING:
    from traceforge.capture.recorder import Recorder

CLOSE_S = 5.0  # How long the end of a capture makes files; the next command makes the others.
IDS_MAX = 100_000  # Ids of traces that a capture remembers; older ones are forgotten.
CHILD_HOOK = "_traceforge_hook"  # The hook's name in a process that `traceforge run` has instrumented.


class Capture(Watcher):
    """The calls that were recorded so far. Methods of `Watcher`, and `take`, are for the hook and the engine."""

    def __init__(self, loaded: LoadedConfig, sink: Recorder, session_id: str) -> None:
        self._sink = sink
        self._begun = 0
        self._open: dict[str, tuple[int, InFlightCall]] = {}  # by id: the process in which it began, and the call
        self._engine = Engine(self, session_id=session_id)
        self._dispatch, self._clients = find_hook()
        self.exchanges = 0  # calls that have ended
        self.ids: deque[str] = deque(maxlen=IDS_MAX)  # of their traces, in the order in which they ended
        self.not_seen: Counter[str] = Counter()  # traffic that could not be watched, such as a WebSocket
        config = loaded.config
        self._options: dict[str, Any] = {
            "root": loaded.project,
            "skip": config.callsite.skip,
            "hosts": list_watched_hosts(config),
        }
        self._subscription: Any = None

    def take(self, exchange: Exchange) -> None:
        self._open.pop(exchange.id, None)
        self.exchanges += 1
        self.ids.append(exchange.id)
        self._sink.take(exchange)

    def begin_call(self, method: str, url: str, headers: Headers, source: str) -> InFlightCall | None:
        self._begun += 1
        scope = current_scope()
        tags = _session.get()
        headers, source = apply_call_site(headers, source, self._subscription.call_sites.fallback)
        if tags is None:
            caller = Caller(source, scope, scope)
        else:
            caller = Caller(source, scope, tags.session_id, None, tags.parent_trace_id, tags.state)
        call = self._engine.begin(method, url, headers, caller)
        self._open[call.id] = os.getpid(), call
        return call

    def forget_call(self, call: InFlightCall) -> None:
        """A call was answered from a recording: it is not recorded."""
        if self._open.pop(call.id, None) is not None:
            self._begun -= 1

    def note_unseen(self, description: str) -> None:
        self.not_seen[description] += 1

    @property
    def open(self) -> int:
        """How many calls have begun and not ended, such as streams that were not read to their end."""
        return self._begun - self.exchanges

    @property
    def unknown(self) -> int:
        """How many calls came from threads without a context, and may belong to another capture."""
        return int(self._subscription.uncertain_calls) if self._subscription else 0

    @property
    def lost(self) -> int:
        """How many exchanges could not be stored."""
        counts = self._sink.counts
        return counts.lost + counts.failures

    def start(self, *, process_wide: bool) -> None:
        """Begin to watch: for `capture` and `install`."""
        self._subscription = self._dispatch.Subscription(self, process_wide=process_wide, **self._options)
        self._clients.start(self._subscription)

    @property
    def engine(self) -> Engine:
        """Turns calls into exchanges of this capture; also calls that another process reports."""
        return self._engine

    def leave(self) -> None:
        """In a forked child: watch no longer; what was recorded is the parent's."""
        self._clients.stop(self._subscription)

    def stop(self) -> None:
        """Watch no longer, and store what was recorded; of calls that are open, what came so far."""
        self._clients.stop(self._subscription)
        for process, call in list(self._open.values()):
            if process == os.getpid():  # A call that began before a fork is the parent's.
                call.end(CLIENT_LEFT, "the capture ended before the response did")
        self._sink.close(CLOSE_S)


class SessionTags:
    """What `session` sets for the calls in it."""

    def __init__(self, session_id: str, state: Mapping[str, object] | None, parent: str) -> None:
        self.session_id = session_id
        self.state = dict(state) if state is not None else None
        self.parent_trace_id = parent


_session: ContextVar[SessionTags | None] = ContextVar("traceforge_session", default=None)
_lock = threading.Lock()
_installed: Capture | None = None


@contextmanager
def capture(*, session: str = "", sink: Recorder | None = None) -> Iterator[Capture]:
    """Record the calls of this context until it ends.

    `session` names the session of calls that belong to no test and no other session; by default, each capture is one.
    """
    captured = _new_capture(session, sink)
    captured.start(process_wide=False)
    try:
        yield captured
    finally:
        captured.stop()


def install(*, session: str = "", sink: Recorder | None = None) -> Capture:
    """Record the calls of the whole process from now on. A second time changes nothing."""
    global _installed  # noqa: PLW0603 (one for the process is the point)
    with _lock:
        if _installed is None:
            _installed = _new_capture(session, sink)
            _installed.start(process_wide=True)
            atexit.register(uninstall)
        return _installed


def uninstall() -> None:
    """Record no longer, and leave every client as it was."""
    global _installed
    with _lock:
        installed, _installed = _installed, None
    if installed is not None:
        atexit.unregister(uninstall)
        installed.stop()


@contextmanager
def session(session_id: str, *, state: Mapping[str, object] | None = None, parent: str = "") -> Iterator[None]:
    """Calls in this context belong to one session; `parent` is the id of the trace that led to it."""
    token = _session.set(SessionTags(session_id, state, parent))
    try:
        yield
    finally:
        _session.reset(token)


def _new_capture(session_id: str, sink: Recorder | None) -> Capture:
    loaded = load_config(current_folder())
    return Capture(loaded, sink or open_recorder(loaded), session_id or f"run-{uuid4()}")


def open_recorder(loaded: LoadedConfig) -> Recorder:
    """A recorder that stores the calls of this process in the traces of a project."""
    from traceforge.capture.recorder import open_thread_recorder  # deferred: 50 ms that a replay does not need

    return open_thread_recorder(loaded)


def find_hook() -> tuple[ModuleType, ModuleType]:
    """The `dispatch` and `clients` modules of this process: those of `traceforge run`, where it has instrumented the
    process, so that one call gives one trace.
    """
    if f"{CHILD_HOOK}.bootstrap" in sys.modules:
        sys.modules[f"{CHILD_HOOK}.bootstrap"].load_hook_now()
    if f"{CHILD_HOOK}.clients" in sys.modules:
        return sys.modules[f"{CHILD_HOOK}.dispatch"], sys.modules[f"{CHILD_HOOK}.clients"]
    return dispatch, clients
