"""The hook for requests: its adapter, and the urllib3 response below it.

In: the client module. Out: `HTTPAdapter.send`, which reports what it sees; the body is seen where urllib3 takes it
off the wire, still compressed, whichever way the application reads it. Never: reads a response ahead, or changes the
application's request: where something differs on the wire, a copy is sent. In a replay, the whole request body is
read first. A call that is replayed gets a response that the standard library and urllib3 read from an object that
only looks like a socket.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from . import dispatch
from .body_streams import watch_request
from .guarded_call import GuardedCall, call_safely, is_traceforge_header
from .held_calls import READ_TIMED_OUT, hold_call, plan_hold
from .in_flight_call import ANSWERED, CLIENT_LEFT
from .patches import Patches
from .real_address import find_real_url
from .replayed_response import ReplayedResponse, http1_chunks

_watched_classes: dict[type, type] = {}  # by the class of a response: its subclass that reports what is read


def hook(module: Any, patches: Patches) -> None:
    """Watch the adapters of `module`."""

    def wrap(send: Any) -> Any:
        def watched_send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
            url = request.url or ""
            real_url = call_safely(url, _find_real_url, url, args, options)
            head = _raw_headers(request.headers, url if real_url != url else "")
            call = dispatch.begin_call(request.method or "", real_url, head, is_above_vcrpy=True)
            if call is None:
                return send(self, request, *args, **options)
            to_send = request
            if call.replays_first:
                body = _read_body(request.body)
                replayed = call.replay(body)
                if replayed is not None:
                    timeout = call_safely(None, _read_timeout, args, options)
                    hold = call_safely(None, plan_hold, replayed, timeout)
                    if hold is not None and hold_call(hold, call):
                        raise module.exceptions.ReadTimeout(READ_TIMED_OUT, request=request)
                    return _make_response(self, request, replayed, call)
                to_send = _copy_request(request, body)
            try:
                response = send(self, call_safely(to_send, _watch_request, to_send, call), *args, **options)
            except BaseException as exc:
                call.end_unanswered(exc, module.exceptions.ReadTimeout)
                raise
            return call_safely(response, _watch_response, request, response, call)

        return watched_send

    patches.wrap(module.adapters.HTTPAdapter, "send", wrap)


def _find_real_url(url: str, args: tuple[Any, ...], options: dict[str, Any]) -> str:
    """The URL, given the other arguments of `HTTPAdapter.send`: the fifth of them are the proxies."""
    proxies = options.get("proxies") or (args[4] if len(args) > 4 else None)
    proxy = import_module("requests.utils").select_proxy(url, proxies) if proxies else None
    return find_real_url(url, proxy=proxy if proxy is None or "://" in proxy else f"http://{proxy}")


def _read_timeout(args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """How many seconds the client waits for a response: the second of the arguments is the timeout, in one of three
    forms. None: for ever.
    """
    timeout: Any = options.get("timeout", args[1] if len(args) > 1 else None)
    if isinstance(timeout, tuple):
        return timeout[1]
    if hasattr(timeout, "clone"):  # of urllib3, which tells what is left of the total only after it has connected
        timeout = timeout.clone()
        timeout.start_connect()
        return timeout.read_timeout
    return timeout


def _raw_headers(headers: Any, proxied_url: str) -> Iterator[tuple[bytes, bytes]]:
    """An iterator, because headers are read only where the call is watched; `Host` is added behind a proxy."""
    if proxied_url and "host" not in headers:
        yield b"Host", _encode(urlsplit(proxied_url).netloc.rpartition("@")[2])
    for name, value in headers.items():
        yield _encode(name), _encode(value)


def _encode(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("latin-1", "replace")


def _watch_request(request: Any, call: GuardedCall) -> Any:
    """The request to send: the application's own, or a copy of it where something must differ."""
    body = request.body
    is_ready = body is None or isinstance(body, (bytes, bytearray, str))
    if is_ready and body:
        call.add_request_chunk(body.encode() if isinstance(body, str) else bytes(body))
    own_headers = [name for name in request.headers if is_traceforge_header(_encode(name).decode("latin-1"))]
    if is_ready and not own_headers:
        return request
    copy = _copy_request(request, body)
    for name in own_headers:
        del copy.headers[name]
    if not is_ready:
        copy.body = _WatchedFile(body, call) if hasattr(body, "read") else _WatchedBody(body, call)
    return copy


def _copy_request(request: Any, body: Any) -> Any:
    copy = object.__new__(type(request))
    vars(copy).update(vars(request))
    copy.headers = request.headers.copy()
    copy.body = body
    return copy


def _read_body(body: Any) -> bytes:
    if hasattr(body, "read"):
        body = body.read()
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    return b"".join([chunk.encode() if isinstance(chunk, str) else bytes(chunk) for chunk in body])


def _make_response(adapter: Any, request: Any, fields: Any, call: GuardedCall) -> Any:
    """The client's response with a replayed one in it; where that fails, with a refusal."""
    try:
        return _build_response(adapter, request, ReplayedResponse(*fields), call)
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return _build_response(adapter, request, call.refuse(exc), call)


def _build_response(adapter: Any, request: Any, replayed: ReplayedResponse, call: GuardedCall) -> Any:
    """As urllib3 makes it of a connection's."""
    client, urllib3 = import_module("http.client"), import_module("urllib3")
    method = (request.method or "").upper()
    on_end = call.count_read_on if replayed.is_left_early else _ignore_end
    original = client.HTTPResponse(_PlaybackSocket(http1_chunks(method, replayed), on_end), method=method)
    original.begin()
    raw = urllib3.HTTPResponse(
        body=original, headers=urllib3._collections.HTTPHeaderDict(original.msg.items()), status=original.status,
        version=original.version, reason=original.reason, preload_content=False, decode_content=False,
        original_response=original, request_method=method,
    )  # fmt: skip
    return adapter.build_response(request, raw)


def _ignore_end() -> None:
    """A response that is read to its end."""


class _PlaybackSocket(io.RawIOBase):
    """What the standard library takes for a socket: chunks, each in its time, and then the end.

    `on_end` is called once, at the first read after the last chunk.
    """

    def __init__(self, chunks: list[tuple[float, bytes]], on_end: Callable[[], None]) -> None:
        self._chunks = iter(chunks)
        self._on_end = on_end
        self._unread = b""
        self._began = time.monotonic()

    def makefile(self, mode: str, *args: Any, **options: Any) -> Any:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Never more than what is left of one chunk."""
        if not self._unread:
            due_s, self._unread = next(self._chunks, (0.0, b""))
            if not self._unread:
                on_end, self._on_end = self._on_end, _ignore_end
                on_end()
            time.sleep(max(0.0, self._began + due_s - time.monotonic()))
        size = min(len(buffer), len(self._unread))
        buffer[:size] = self._unread[:size]
        self._unread = self._unread[size:]
        return size


def _watch_response(request: Any, response: Any, call: GuardedCall) -> Any:
    """The application's response, whose body reports what is read of it."""
    response.request = request  # the application's own: a copy of it may have been sent
    raw = response.raw
    headers = getattr(raw, "headers", None) or response.headers
    call.start_response(response.status_code, tuple((str(name), str(value)) for name, value in headers.items()))
    for name, value in call.extra_response_headers:
        response.headers[name] = value
    if not _watch_raw_response(raw, call):
        # The response came, so the call did not fail; with an error, the trace is marked as incomplete.
        call.end(ANSWERED, "the body of this response could not be watched")
    return response


def _watch_raw_response(raw: Any, call: GuardedCall) -> bool:
    """Replace the response's class by a watched subclass; False: it is not a response of a known urllib3."""
    kind = type(raw)
    if not (hasattr(kind, "_raw_read") or hasattr(kind, "_fp_read")) or not hasattr(kind, "_handle_chunk"):
        return False
    try:
        raw._traceforge_call = call
        raw._traceforge_is_reading = False
        raw.__class__ = _watched_classes.get(kind) or _watched_classes.setdefault(kind, _make_watched_class(kind))
    except (AttributeError, TypeError):
        return False
    return True


def _make_watched_class(kind: Any) -> type:
    read_name = "_raw_read" if hasattr(kind, "_raw_read") else "_fp_read"  # urllib3 2, urllib3 1.26
    read = getattr(kind, read_name)

    class Watched(kind):  # type: ignore[misc]
        def _handle_chunk(self, amt: Any) -> Any:
            data = self._traceforge_watch(kind._handle_chunk, amt)
            self._traceforge_call.add_response_chunk(data)
            return data

        def _update_chunk_length(self) -> None:
            self._traceforge_watch(kind._update_chunk_length)
            if self.chunk_left == 0:
                self._traceforge_call.end(ANSWERED)

        def close(self) -> None:
            if not self._traceforge_is_reading:  # urllib3 closes a broken response itself, before it raises
                self._traceforge_call.end(CLIENT_LEFT)
            kind.close(self)

        def __del__(self) -> None:
            self._traceforge_call.defer_end()
            super().__del__()

        def _traceforge_read(self, amt: Any = None, **options: Any) -> Any:
            data = self._traceforge_watch(read, amt, **options)
            if data:
                self._traceforge_call.add_response_chunk(bytes(data))
            if _is_at_end(self, amt, data, **options):
                self._traceforge_call.end(ANSWERED)
            return data

        def _traceforge_watch(self, method: Any, *args: Any, **options: Any) -> Any:
            self._traceforge_is_reading = True
            try:
                return method(self, *args, **options)
            except BaseException as exc:
                self._traceforge_call.end_on_read_error(exc)
                raise
            finally:
                self._traceforge_is_reading = False

    setattr(Watched, read_name, Watched._traceforge_read)
    Watched.__name__, Watched.__qualname__, Watched.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Watched


def _is_at_end(raw: Any, amt: Any, data: Any, read1: bool = False) -> bool:
    """Whether the last byte has been read."""
    if getattr(raw, "length_remaining", None) == 0 or (amt != 0 and not data):
        return True
    return amt is None and not read1


class _WatchedBody:
    """The chunks of a request, from an iterable."""

    def __init__(self, body: Any, call: GuardedCall) -> None:
        self._body = body
        self._call = call

    def __iter__(self) -> Any:
        return watch_request(iter(self._body), self._call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


class _WatchedFile(_WatchedBody):
    """A request that is read from a file."""

    def read(self, *args: Any) -> Any:
        data = self._body.read(*args)
        if isinstance(self._body, io.TextIOBase):
            data = data.encode()  # as urllib3 would
        self._call.add_request_chunk(data.encode() if isinstance(data, str) else bytes(data))
        return data
