"""The hub: which watcher is told about a call?

In: watchers that come and go, calls that begin. Out: the call, told to one watcher. Never: tells two watchers of one
call, or raises; or lets a call pass a watcher that plays because something failed.

The innermost watcher of the calling context counts. A thread that was started without its context belongs to no
watcher that we could see there: the one whose test is running is taken, else the one that was installed for the whole
process, else the only one there is; where there are several, the outermost is taken and the call is counted as
unknown. A watcher that plays takes every call inside it, also those that an inner one would only record.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sized
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from .callsite import CallSites, current_test
from .guarded_call import Asking, Pairs, Told, dropped, error_text, faults, pairs, refuse, sweep
from .model_calls import host_names, is_known_host, is_model_call, is_telemetry, verdicts

_MODEL_SOCKETS = r"/(?:realtime|responses)/?\Z|GenerateContent\Z"  # compiled where a socket is opened


class Watch:
    """A watcher at work. Leave it with `stop`."""

    def __init__(
        self,
        watcher: Any,
        *,
        root: str = ".",
        skip: Iterable[str] = (),
        hosts: Iterable[str] = (),
        everywhere: bool = False,
    ) -> None:
        self.watcher = watcher
        self.plays: bool = getattr(watcher, "plays", False)
        self.places: bool = getattr(watcher, "places", True)  # does it want to know where a call was made?
        self.strict: bool = getattr(watcher, "strict", False)  # does it answer every call, so that none goes on?
        self.spared: Sized = getattr(watcher, "spared", ())  # a strict one: scopes that it may leave alone
        self.sites = CallSites(root, tuple(skip))
        self.hosts = host_names(hosts)
        self.everywhere = everywhere  # for the whole process, not for one context
        self.scope = current_test()
        self.unknown = 0  # calls of which it is not known that they are ours
        self.alive = False
        self.outer: Watch | None = None


_context: ContextVar[Watch | None] = ContextVar("traceforge_watch", default=None)
_active: list[Watch] = []  # outermost first
_lock = threading.RLock()


def enter(watch: Watch) -> None:
    """Begin to tell a watcher."""
    with _lock:
        watch.alive = True
        if not watch.everywhere:
            watch.outer = _context.get()
            _context.set(watch)
        _active.append(watch)


def leave(watch: Watch) -> bool:
    """Tell it no more. Is there no other?"""
    with _lock:
        sweep()
        watch.alive = False
        if watch in _active:
            _active.remove(watch)
        if _context.get() is watch:
            _context.set(watch.outer)
        return not _active


def begin(method: str, url: str, raw_headers: Iterable[tuple[bytes, bytes]]) -> Told | None:
    """A client begins a call. None: nobody wants to know."""
    if not _active:
        return None
    try:
        if dropped:
            sweep()
        watch, known = _context.get(), True
        if watch is None and len(_active) == 1:
            watch = _active[0]
        elif watch is None or not watch.plays or not watch.alive:  # Else it is the one, without a search.
            watch, known = _choose()
        if watch is None:
            return None
        if not (verdicts.get((method, url, watch.hosts)) or is_model_call(method, url, watch.hosts)):
            return Told(_Silenced()) if watch.plays and is_telemetry(url, watch.hosts) else None
        if not known:
            watch.unknown += 1
        if watch.strict:
            if watch.spared and watch.watcher.spares():
                return None
            return Asking(watch.watcher, method, url, raw_headers if type(raw_headers) is list else [*raw_headers])
        headers = pairs(raw_headers)
        call = watch.watcher.begin(method, url, headers, watch.sites.find(2) if watch.places else "")
        return None if call is None else Told(call)
    except Exception as exc:  # noqa: BLE001 (nothing of ours may reach the application)
        return failed(exc)


def failed(exc: BaseException) -> Told | None:
    """Something failed before a call could be told. It goes on unseen; where calls are replayed, it does not."""
    player = _last(lambda one: one.plays)
    if player is not None:
        return Told(_Refused(player.watcher, f"the call could not be replayed ({error_text(exc)})"))
    faults.add(exc)
    return None


def plays() -> bool:
    """Is there anybody who answers calls from recordings?"""
    return _last(lambda one: one.plays) is not None


class _Silenced:
    """What a provider's SDK reports about itself: it goes nowhere, and is not missed."""

    plays = True
    headers: Pairs = ()
    reply_headers: Pairs = ()
    why = "what an SDK reports to its provider is not sent"

    def play(self, body: bytes) -> Any:
        """Not sent."""
        return refuse(self, self.why)

    def refused(self, why: str) -> None:
        """Nobody counts it."""


class _Refused(_Silenced):
    """A call that failed before it began."""

    def __init__(self, watcher: Any, why: str) -> None:
        self._watcher = watcher
        self.why = why

    def refused(self, why: str) -> None:
        """Counted."""
        self._watcher.refused(why)


def note(what: str) -> None:
    """Something happened that we cannot see into: the watcher may want to say so."""
    try:
        watch = _choose()[0]
        if watch is not None:
            watch.watcher.note(what)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)


def note_socket(url: str) -> None:
    """A WebSocket is opened; where a model answers on it, its messages are not seen.

    Raises:
        ConnectionRefusedError: calls are replayed, and this cannot be.
    """
    why = ""
    try:
        watch = _choose()[0]
        parts = urlsplit(url)
        if watch is not None and (is_known_host(parts.netloc, watch.hosts) or re.search(_MODEL_SOCKETS, parts.path)):
            what = f"a WebSocket to {parts.netloc.rpartition('@')[2]}"
            if watch.plays:
                why = f"{what} cannot be replayed"
                watch.watcher.refused(why)
            else:
                watch.watcher.note(what)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        why = why or (f"a WebSocket could not be looked at ({error_text(exc)})" if plays() else "")
    if why:
        raise ConnectionRefusedError(f"TraceForge replay: {why}")


def _choose() -> tuple[Watch | None, bool]:
    """The watch for this call, and whether it is known to be the right one."""
    watch, known = _nearest()
    if watch is None or watch.plays:
        return watch, known
    return _player_around(watch, known) or watch, known


def _player_around(watch: Watch, known: bool) -> Watch | None:
    """The innermost that plays, of those around a watch that does not."""
    outer = watch.outer
    while outer is not None:
        if outer.alive and outer.plays:
            return outer
        outer = outer.outer
    return _last(lambda one: one.plays and (one.everywhere or not known))


def _nearest() -> tuple[Watch | None, bool]:
    watch = told = _context.get()
    while watch is not None and not watch.alive:
        watch = watch.outer
    if watch is not None:
        return watch, True
    candidates = _active[:]
    if len(candidates) == 1 and (told is None or candidates[0].everywhere):
        return candidates[0], True
    test = current_test()
    if test:
        of_test = [one for one in candidates if one.scope == test and not one.everywhere]
        if len(of_test) == 1:
            return of_test[0], True
    installed = _last(lambda one: one.everywhere)  # for the whole process
    if installed is not None:
        return installed, True
    return (candidates[0], False) if candidates else (None, True)


def _last(wanted: Callable[[Watch], bool]) -> Watch | None:
    """The one that came last, of those that are wanted."""
    return next((one for one in reversed(_active) if wanted(one)), None)
