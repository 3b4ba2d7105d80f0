"""Which watcher a call belongs to.

In: watchers that subscribe and unsubscribe, and calls as the hooks of HTTP clients see them begin. Out: each call,
guarded, for one watcher. Never: reports a call to two watchers, lets a call pass a watcher that replays because
something failed, or raises; only `refuse_live_call_of_vcrpy` does, and `report_library_answer` and
`report_websocket_answer`, whose callers are guarded.

The innermost active subscription of the calling context counts. A thread that was started without its context has
none: its calls belong to the only subscription there is, else to the one that began in the running test, else to the
one of the whole process; where there are several others, to the outermost, and the call is counted as uncertain. The
same holds in a context whose subscriptions have all ended, but there the only one is uncertain unless it is that of
the running test or of the whole process. A watcher that replays takes every call inside its context, also those that
an inner one would only record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from enum import Enum, auto
from types import CodeType
from typing import Any

from . import tripwire
from .callsite import CallSites, current_test
from .guarded_call import (
    GuardedCall,
    RefusedCall,
    decode_headers,
    describe_error,
    dropped_calls,
    end_dropped_calls,
    faults,
    stop_conversations,
)
from .model_call_rules import (
    NO_HOSTS,
    WatchedHosts,
    is_known_host,
    is_model_call,
    is_model_socket,
    is_telemetry,
)
from .open_cassettes import open_cassettes
from .pytest_scopes import current_scope
from .token_exchange import TokenCall
from .token_urls import is_token_exchange
from .watcher import Watcher


class Subscription:
    """A watcher, and which calls it is interested in. `process_wide`: not only those of the current context."""

    def __init__(
        self,
        watcher: Watcher,
        *,
        root: str = ".",
        skip: Iterable[str] = (),
        hosts: Iterable[str] = (),
        process_wide: bool = False,
    ) -> None:
        self.watcher = watcher
        self.replays = watcher.replays
        self.call_sites = CallSites(root, tuple(skip))
        self.hosts = WatchedHosts(hosts)
        self.process_wide = process_wide
        self.test = current_test()  # in which it began; "" outside tests
        self.uncertain_calls = 0  # of threads without a context: they may belong to another watcher
        self.is_active = False
        self.outer: Subscription | None = None


_context: ContextVar[Subscription | None] = ContextVar("traceforge_subscription", default=None)
_active: list[Subscription] = []  # outermost first
_in_tool_transport: ContextVar[bool] = ContextVar("traceforge_tool_transport", default=False)
_note_inner_call: ContextVar[Callable[[], None] | None] = ContextVar("traceforge_inner_call", default=None)
_lock = threading.RLock()


def subscribe(subscription: Subscription) -> None:
    """Begin to report calls to a watcher."""
    with _lock:
        subscription.is_active = True
        if not subscription.process_wide:
            subscription.outer = _context.get()
            _context.set(subscription)
        _active.append(subscription)


def unsubscribe(subscription: Subscription) -> bool:
    """Report no more calls to a watcher. Whether it was the last one."""
    stop_conversations(subscription.watcher)
    with _lock:
        end_dropped_calls()
        subscription.is_active = False
        if subscription in _active:
            _active.remove(subscription)
        if _context.get() is subscription:
            _context.set(subscription.outer)
        return not _active


def begin_call(
    method: str, url: str, raw_headers: Iterable[tuple[bytes, bytes]], *, is_above_vcrpy: bool = False
) -> GuardedCall | None:
    """A client begins a call; None: no watcher is interested in it, or it is left to vcrpy.

    `is_above_vcrpy`: vcrpy sees calls of this client later than we do. Calls of other clients come here in a test
    only if vcrpy does not take them, although a cassette is open.
    """
    if not _active or _in_tool_transport.get():
        return None
    try:
        if dropped_calls:
            end_dropped_calls()
        subscription, is_certain = _find_subscription()
        if subscription is None:
            return None
        watcher = subscription.watcher
        if open_cassettes and (is_above_vcrpy or not _is_offline(watcher)):
            return None
        if not is_model_call(method, url, subscription.hosts):
            if subscription.replays and _is_offline(watcher) and is_token_exchange(url):
                return TokenCall(url)
            if subscription.replays and is_telemetry(url, subscription.hosts):
                return RefusedCall("what an SDK reports to its provider is not sent")  # No watcher: not counted.
            return None
        return _begin(subscription, is_certain, method, url, raw_headers)
    except Exception as exc:  # noqa: BLE001 (no error of the hook may reach the application)
        return begin_after_fault(exc)


def begin_tool_call(
    url: str, raw_headers: Iterable[tuple[bytes, bytes]], code: CodeType | None = None
) -> GuardedCall | None:
    """An MCP client begins a request, or a model's tool runs; None: no capture watches it.

    `code`: the code of the tool, which is the call site, because a framework calls it.
    """
    try:
        if dropped_calls:
            end_dropped_calls()
        subscription, is_certain = _find_subscription()
        return None if subscription is None else _begin(subscription, is_certain, "POST", url, raw_headers, code)
    except Exception as exc:  # noqa: BLE001
        return begin_after_fault(exc)


def begin_websocket(url: str, raw_headers: Iterable[tuple[bytes, bytes]]) -> GuardedCall | None:
    """A WebSocket to a model is opened, which `find_websocket_mode` said is watched."""
    try:
        if dropped_calls:
            end_dropped_calls()
        subscription, is_certain = _find_subscription()
        return None if subscription is None else _begin(subscription, is_certain, "GET", url, raw_headers)
    except Exception as exc:  # noqa: BLE001
        return begin_after_fault(exc)


def _begin(
    subscription: Subscription,
    is_certain: bool,
    method: str,
    url: str,
    raw_headers: Iterable[tuple[bytes, bytes]],
    code: CodeType | None = None,
) -> GuardedCall | None:
    watcher = subscription.watcher
    if not is_certain:
        subscription.uncertain_calls += 1
    source = ""
    if watcher.needs_call_site:
        source = subscription.call_sites.name_code(code) or subscription.call_sites.find(3)
    call = watcher.begin_call(method, url, decode_headers(raw_headers), source)
    note_inner_call = _note_inner_call.get()
    if call is not None and note_inner_call is not None:
        note_inner_call()
    return None if call is None else GuardedCall(call, watcher if subscription.replays else None)


def hide_call_sites() -> None:
    """This process makes its calls for another one, so that no line of it is a call site."""
    for subscription in _active:
        subscription.call_sites.is_hidden = True


def refuse_tool_message(reason: str) -> None:
    """A client of a tool server wrote what cannot be replayed: count it, where nothing may be sent."""
    try:
        subscription = _find_subscription()[0]
        if subscription is not None:
            subscription.watcher.count_refusal(reason, scope=current_scope())
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)


class ConnectionMode(Enum):
    """What happens to the traffic of a client that connects now: one of MCP, or of a WebSocket;
    and to a call of a tool.
    """

    UNWATCHED = auto()
    LIVE = auto()  # it connects; where calls of MCP are replayed, only new requests are sent to its server
    OFFLINE = auto()  # it does not connect, because nothing may be sent


def find_websocket_mode(url: str) -> ConnectionMode:
    """What happens to a WebSocket that is opened now."""
    try:
        subscription = _find_subscription()[0]
        if subscription is None or not is_model_socket(url, subscription.hosts):
            return ConnectionMode.UNWATCHED
        is_offline = subscription.replays and _is_offline(subscription.watcher)
        return ConnectionMode.OFFLINE if is_offline else ConnectionMode.LIVE
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return ConnectionMode.OFFLINE if is_replaying() else ConnectionMode.UNWATCHED


def find_tool_mode() -> ConnectionMode:
    """What happens to the traffic of an MCP client that connects now, and to a call of a tool."""
    try:
        subscription = _find_subscription()[0]
        if subscription is None or _in_tool_transport.get():
            return ConnectionMode.UNWATCHED
        is_offline = subscription.replays and _is_offline(subscription.watcher)
        return ConnectionMode.OFFLINE if is_offline else ConnectionMode.LIVE
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return ConnectionMode.OFFLINE if is_replaying() else ConnectionMode.UNWATCHED


@contextmanager
def inside_tool_transport() -> Iterator[None]:
    """In this block, and in the tasks that it starts, HTTP calls are not watched: they carry messages that are."""
    token = _in_tool_transport.set(True)
    try:
        yield
    finally:
        _in_tool_transport.reset(token)


def is_inside_tool_transport() -> bool:
    """Whether an MCP client opens its transport, or sends a message through it."""
    return _in_tool_transport.get()


@contextmanager
def inside_tool(note_inner_call: Callable[[], None]) -> Iterator[None]:
    """In this block, and in the tasks that it starts, a function runs that is itself a call: it learns of others."""
    token = _note_inner_call.set(note_inner_call)
    try:
        yield
    finally:
        _note_inner_call.reset(token)


def carry_tool(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function for another thread, where it runs for the tool that runs here; the same one where none does."""
    note_inner_call = _note_inner_call.get()
    if note_inner_call is None:
        return function

    def run(*args: Any, **options: Any) -> Any:
        with inside_tool(note_inner_call):
            return function(*args, **options)

    return run


def outside_tool_transport(context: Context | None) -> Context | None:
    """The context of a message from a transport as that of the application, which may call a model to answer it."""
    if context is None:
        return None
    outside = context.copy()
    outside.run(_in_tool_transport.set, False)
    return outside


def begin_after_fault(exc: BaseException) -> GuardedCall | None:
    """The hook failed before a call began: the call goes on unwatched; where calls are replayed, it is refused."""
    replaying = _last_active(lambda subscription: subscription.replays)
    if replaying is not None:
        return RefusedCall(f"the call could not be replayed ({describe_error(exc)})", replaying.watcher)
    faults.add(exc)
    return None


def is_replaying() -> bool:
    """Whether some watcher of this process answers calls from recordings."""
    return _last_active(lambda subscription: subscription.replays) is not None


def is_strict_replay() -> bool:
    """Whether a watcher that was started in this process answers the calls of this context, and sends none."""
    try:
        subscription = _find_subscription()[0]
        return subscription is not None and subscription.watcher.is_strict and tripwire.current() is None
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return False


def report_library_answer(library: str, method: str, *urls: str) -> None:
    """A recorder or a mock has answered a call: tell the watcher that would have watched it.

    `urls`: of the request, and of what a filter of the recorder has made of it.
    """
    subscription = _find_subscription()[0]
    if subscription is not None and any(is_model_call(method, url, subscription.hosts) for url in urls):
        subscription.watcher.count_library_answer(library)


def report_websocket_answer(library: str, url: str) -> None:
    """A recorder has answered a WebSocket: tell the watcher, if it would go to a model."""
    subscription = _find_subscription()[0]
    if subscription is not None and is_model_socket(url, subscription.hosts):
        subscription.watcher.count_library_answer(library)


def refuse_live_call_of_vcrpy(method: str, url: str) -> None:
    """vcrpy is about to send a call that no cassette answers: where nothing may be sent, refuse one to a model.

    Raises:
        ConnectionRefusedError: calls are replayed, and none may go upstream.
    """
    reason = ""
    try:
        subscription = _find_subscription()[0]
        if subscription is not None and subscription.replays and is_model_call(method, url, subscription.hosts):
            watcher = subscription.watcher
            is_excluded = watcher.is_strict and watcher.begin_call(method, url, (), "") is None
            if not is_excluded and _is_offline(watcher):
                reason = "no cassette answers a model call, and vcrpy would send it"
                watcher.count_refusal(reason, scope=current_scope())
    except Exception as exc:  # noqa: BLE001
        reason = _describe_fault("a call of vcrpy", exc)
    if reason:
        raise ConnectionRefusedError(f"TraceForge replay: {reason}")


def _is_offline(watcher: Watcher) -> bool:
    """Whether no call may go upstream; in a child process, the tripwire says so."""
    return watcher.is_strict or tripwire.current() is not None


def note_unseen(description: str) -> None:
    """Tell the watcher of traffic that cannot be watched."""
    try:
        subscription = _find_subscription()[0]
        if subscription is not None:
            subscription.watcher.note_unseen(description)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)


def count_refusal(reason: str) -> None:
    """Tell the watcher of a call that is refused before it begins."""
    try:
        subscription = _find_subscription()[0]
        if subscription is not None:
            subscription.watcher.count_refusal(reason, scope=current_scope())
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)


def is_watched_address(method: str, url: str) -> bool:
    """Whether a call to this address would be recorded, if its client could be watched."""
    try:
        subscription = _find_subscription()[0]
        return is_model_call(method, url, subscription.hosts if subscription is not None else NO_HOSTS)
    except Exception as exc:  # noqa: BLE001
        faults.add(exc)
        return True


def check_unrecorded(description: str, netloc: str, *, is_model: bool, is_local: bool) -> None:
    """A call is about to begin whose client cannot be watched: refuse it where it cannot be replayed, if it goes to a
    model, or in a test to another machine; note one to a model where calls are recorded.

    Raises:
        ConnectionRefusedError: nothing may be sent, and this call cannot be replayed.
    """
    reason = ""
    try:
        subscription = _find_subscription()[0]
        if subscription is None:
            return
        is_model = is_model or (not is_local and is_known_host(netloc, subscription.hosts))
        watcher = subscription.watcher
        if not subscription.replays or not _is_offline(watcher):
            if is_model:
                watcher.note_unseen(description.rstrip(","))
        elif is_model or (not is_local and tripwire.current() is not None):
            is_excluded = watcher.is_strict and watcher.begin_call("POST", f"https://{netloc}/", (), "") is None
            if not is_excluded:
                reason = f"{description} is not recorded, and cannot be replayed"
                watcher.count_refusal(reason, scope=current_scope())
    except Exception as exc:  # noqa: BLE001
        reason = reason or _describe_fault(description, exc)
    if reason:
        raise ConnectionRefusedError(f"TraceForge replay: {reason}")


def _describe_fault(subject: str, exc: BaseException) -> str:
    """The hook failed to check something: why it is refused in a replay; "" where nothing is replayed."""
    faults.add(exc)
    return f"{subject} could not be checked ({describe_error(exc)})" if is_replaying() else ""


def _find_subscription() -> tuple[Subscription | None, bool]:
    """The subscription of the calling code, and whether it is certainly the right one."""
    nearest, is_certain = _find_nearest()
    if nearest is None or nearest.replays:
        return nearest, is_certain
    return _find_replay_around(nearest, is_certain) or nearest, is_certain


def _find_replay_around(subscription: Subscription, is_certain: bool) -> Subscription | None:
    """The innermost subscription that replays, of those around one that does not."""
    outer = subscription.outer
    while outer is not None:
        if outer.is_active and outer.replays:
            return outer
        outer = outer.outer
    return _last_active(lambda other: other.replays and (other.process_wide or not is_certain))


def _find_nearest() -> tuple[Subscription | None, bool]:
    nearest = in_context = _context.get()
    while nearest is not None and not nearest.is_active:
        nearest = nearest.outer
    if nearest is not None:
        return nearest, True
    active = _active[:]
    if len(active) == 1 and (in_context is None or active[0].process_wide):
        return active[0], True
    test = current_test()
    if test:
        of_test = [other for other in active if other.test == test and not other.process_wide]
        if len(of_test) == 1:
            return of_test[0], True
    process_wide = _last_active(lambda subscription: subscription.process_wide)
    if process_wide is not None:
        return process_wide, True
    return (active[0], False) if active else (None, True)


def _last_active(is_wanted: Callable[[Subscription], bool]) -> Subscription | None:
    return next((subscription for subscription in reversed(_active) if is_wanted(subscription)), None)
