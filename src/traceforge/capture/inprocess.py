"""Recording in this process: from here to there, or from now on.

In: calls that HTTP clients of this process make. Out: their exchanges, in the project's sink. Never: opens a socket,
or keeps a client hooked after the last capture has ended.

    with traceforge.capture() as seen: ...          this context, and what it starts
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
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from traceforge.capture.hook import clients, dispatch
from traceforge.capture.hook.callsite import current_test
from traceforge.capture.source import apply_call_site
from traceforge.config import LoadedConfig, current_folder, load_config
from traceforge.exchange import Caller, CallOutcome, Exchange, Headers

if TYPE_CHECKING:
    from traceforge.capture.engine import Call, Engine
    from traceforge.capture.recorder import Recorder

CLOSE_S = 5.0  # How long the end of a capture makes files; the next command makes the rest.
IDS_MAX = 100_000  # Ids of traces that a capture remembers; of more, the oldest go.
ENTERED = "_traceforge_hook"  # The hook's name in a process that `traceforge run` has entered.


class Capture:
    """What was seen so far."""

    def __init__(self, loaded: LoadedConfig, sink: Recorder, session_id: str) -> None:
        self._sink = sink
        self._began = 0
        self._open: dict[str, tuple[int, Call]] = {}  # by id: the process in which it began, and the call
        self._session_id = session_id
        self._hub, self._clients = find_hook()
        self.exchanges = 0  # calls that have ended
        self.ids: deque[str] = deque(maxlen=IDS_MAX)  # of their traces, in the order in which they ended
        self.not_seen: Counter[str] = Counter()  # what could not be seen into, such as a WebSocket
        config = loaded.config
        self._options: dict[str, Any] = {
            "root": loaded.project,
            "skip": config.callsite.skip,
            "hosts": config.hosts,
        }
        self._watch: Any = None

    @cached_property
    def _engine(self) -> Engine:
        from traceforge.capture.engine import Engine  # A strict replay records nothing.

        return Engine(self, session_id=self._session_id)

    def take(self, exchange: Exchange) -> None:
        """A call has ended: for the engine alone."""
        self._open.pop(exchange.id, None)
        self.exchanges += 1
        self.ids.append(exchange.id)
        self._sink.take(exchange)

    def begin(self, method: str, url: str, headers: Headers, source: str) -> Call:
        """A call begins: for the hook alone."""
        self._began += 1
        scope = current_test()
        said = _session.get()
        headers, source = apply_call_site(headers, source, self._watch.sites.fallback)
        if said is None:
            caller = Caller(source, scope, scope)
        else:
            caller = Caller(source, scope, said.session_id, None, said.parent_trace_id, said.state)
        call = self._engine.begin(method, url, headers, caller)
        self._open[call.id] = os.getpid(), call
        return call

    def forget(self, call: Call) -> None:
        """A call that was answered without us: it is none of ours."""
        if self._open.pop(call.id, None) is not None:
            self._began -= 1

    def note(self, what: str) -> None:
        """Something that cannot be seen into: for the hook alone."""
        self.not_seen[what] += 1

    @property
    def open(self) -> int:
        """Calls that have begun and not ended, such as streams that nobody has read to their end."""
        return self._began - self.exchanges

    @property
    def unknown(self) -> int:
        """Calls of threads without a context, of which it is not known whether they belong here."""
        return int(self._watch.unknown) if self._watch else 0

    @property
    def lost(self) -> int:
        """Exchanges that were seen and could not be kept."""
        counts = self._sink.counts
        return counts.lost + sum(counts.failed.values())

    def start(self, *, everywhere: bool) -> None:
        """Begin to watch: for `capture` and `install`."""
        self._watch = self._hub.Watch(self, everywhere=everywhere, **self._options)
        self._clients.start(self._watch)

    def stop(self) -> None:
        """Watch no longer, and bring what was seen to where it stays; what is open is kept as far as it came."""
        self._clients.stop(self._watch)
        for process, call in list(self._open.values()):
            if process == os.getpid():  # One that a parent began is the parent's.
                call.ended(CallOutcome.CLIENT_LEFT, "the capture ended before the response did")
        self._sink.close(CLOSE_S)


class Said:
    """What `session` says about the calls in it."""

    def __init__(self, session_id: str, state: Mapping[str, object] | None, parent: str) -> None:
        self.session_id = session_id
        self.state = dict(state) if state is not None else None
        self.parent_trace_id = parent


_session: ContextVar[Said | None] = ContextVar("traceforge_session", default=None)
_lock = threading.Lock()
_installed: Capture | None = None


@contextmanager
def capture(*, session: str = "", sink: Recorder | None = None) -> Iterator[Capture]:
    """Record the calls of this context until it ends.

    `session` names the session of calls that belong to no test and no other session; by default, each capture is one.
    """
    seen = _new(session, sink)
    seen.start(everywhere=False)
    try:
        yield seen
    finally:
        seen.stop()


def install(*, session: str = "", sink: Recorder | None = None) -> Capture:
    """Record the calls of the whole process from now on. A second time changes nothing."""
    global _installed  # noqa: PLW0603 (one for the process is what it is)
    with _lock:
        if _installed is None:
            _installed = _new(session, sink)
            _installed.start(everywhere=True)
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
    token = _session.set(Said(session_id, state, parent))
    try:
        yield
    finally:
        _session.reset(token)


def _new(session_id: str, sink: Recorder | None) -> Capture:
    loaded = load_config(current_folder())
    return Capture(loaded, sink or open_recorder(loaded), session_id or f"run-{uuid4()}")


def open_recorder(loaded: LoadedConfig) -> Recorder:
    """What keeps the calls of this process in the traces of a project."""
    from traceforge.capture.recorder import ThreadRecorder
    from traceforge.capture.trace_writer import RecorderSettings  # What records is not needed by who replays.

    return ThreadRecorder(RecorderSettings.from_project(loaded))


def find_hook() -> tuple[ModuleType, ModuleType]:
    """The hub and the clients of this process: those of `traceforge run`, where it has entered, so that one call
    gives one trace.
    """
    if f"{ENTERED}.bootstrap" in sys.modules:
        sys.modules[f"{ENTERED}.bootstrap"].enter_now()
    if f"{ENTERED}.clients" in sys.modules:
        return sys.modules[f"{ENTERED}.dispatch"], sys.modules[f"{ENTERED}.clients"]
    return dispatch, clients
