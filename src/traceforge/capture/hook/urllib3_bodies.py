"""Bodies below requests and botocore, where urllib3 reads and sends them.

In: a response of urllib3, or a recorded one; the body of a request. Out: a response that reports what is read of it;
a response that urllib3 reads from an object that only looks like a socket; a request that reports what is sent.
Never: reads a response ahead, or knows which client asked.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from .body_streams import watch_request
from .guarded_call import GuardedCall
from .in_flight_call import ANSWERED, CLIENT_LEFT
from .replayed_response import ReplayedResponse, http1_chunks

_seen_above: ContextVar[_RequestAbove | None] = ContextVar("traceforge_seen_above", default=None)
_watched_classes: dict[type, type] = {}  # by the class of a response: its subclass that reports what is read


class _RequestAbove:
    """A request of a client that has a hook of its own, on its way through urllib3."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._pool: Any = None  # which sends it, and sends it again

    def is_sent_by(self, pool: Any, target: str, headers: Any) -> bool:
        """Whether it is this request, and not another that the application makes meanwhile, such as in a generator
        of its body or in an adapter of its own. A tracer may have replaced its headers.
        """
        if self._pool is None and (headers is self._request.headers or self._has(target, headers)):
            self._pool = pool
        return self._pool is pool

    def _has(self, target: str, headers: Any) -> bool:
        """Its path, or for a proxy its URL, and at least its headers."""
        request = self._request
        is_target = target in (getattr(request, "path_url", None), getattr(request, "url", None))
        return is_target and set(request.headers or ()) <= set(headers or ())


@contextmanager
def seen_above(request: Any) -> Iterator[None]:
    """In this block, urllib3 sends a request of requests, which has a hook of its own."""
    token = _seen_above.set(_RequestAbove(request))
    try:
        yield
    finally:
        _seen_above.reset(token)


def is_seen_above(pool: Any, target: str, headers: Any) -> bool:
    """Whether a hook above urllib3 sees this call."""
    above = _seen_above.get()
    return above is not None and above.is_sent_by(pool, target, headers)


def play_http_response(method: str, replayed: ReplayedResponse, call: GuardedCall) -> Any:
    """A response of the standard library, read as far as the end of its head."""
    on_end = call.count_read_on if replayed.is_left_early else _ignore_end
    original = import_module("http.client").HTTPResponse(
        PlaybackSocket(http1_chunks(method, replayed), on_end), method=method
    )
    original.begin()
    return original


def play_urllib3_response(original: Any, method: str, **options: Any) -> Any:
    """The same as urllib3 makes it of a connection's; nothing is read of its body before the application reads it."""
    urllib3 = import_module("urllib3")
    response = urllib3.HTTPResponse(
        body=original, headers=urllib3._collections.HTTPHeaderDict(original.msg.items()), status=original.status,
        version=original.version, reason=original.reason, preload_content=False, original_response=original,
        request_method=method, **options,
    )  # fmt: skip
    if hasattr(response, "version_string"):  # urllib3 2
        response.version_string = "HTTP/1.1"
    if hasattr(response, "_sock_shutdown"):
        response._sock_shutdown = _ignore_shutdown
    return response


def read_body(body: Any) -> bytes:
    if hasattr(body, "read"):
        body = body.read()
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    data = find_bytes(body)
    if data is not None:
        return data
    return b"".join([chunk.encode() if isinstance(chunk, str) else bytes(chunk) for chunk in body])


def find_bytes(body: Any) -> bytes | None:
    """A body that is in memory, such as an array; None: it is read from somewhere."""
    try:
        return body if isinstance(body, bytes) else bytes(memoryview(body))
    except TypeError:
        return None


def watch_body(body: Any, call: GuardedCall) -> Any:
    """The body to send, which is not in memory: what it is read from, reporting each chunk. What no client can read
    stays what it is, so that the client's error names it.
    """
    if isinstance(body, io.TextIOBase):
        return WatchedTextFile(body, call)
    if hasattr(body, "read"):
        return WatchedFile(body, call)
    is_iterable = hasattr(type(body), "__iter__") or hasattr(type(body), "__getitem__")
    return WatchedBody(body, call) if is_iterable else body


def _ignore_end() -> None:
    """A response that is read to its end."""


def _ignore_shutdown(_how: int) -> None:
    """A played response has no socket to shut down."""


class PlaybackSocket(io.RawIOBase):
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


def watch_raw_response(raw: Any, call: GuardedCall) -> bool:
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
    is_counted_later = read_name == "_fp_read"  # urllib3 1.26 counts what is left after this read

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
            uncounted = len(data) if data and is_counted_later else 0
            if _is_at_end(self, amt, data, uncounted, **options):
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


def _is_at_end(raw: Any, amt: Any, data: Any, uncounted: int, read1: bool = False) -> bool:
    """Whether the last byte has been read; `uncounted` of what was read are not taken off what is left."""
    if getattr(raw, "length_remaining", None) == uncounted or (amt != 0 and not data):
        return True
    return amt is None and not read1


class WatchedBody:
    """The chunks of a request, from an iterable."""

    def __init__(self, body: Any, call: GuardedCall) -> None:
        self._body = body
        self._call = call

    def __iter__(self) -> Any:
        return watch_request(iter(self._body), self._call)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


class WatchedFile(WatchedBody):
    """A request that is read from a file."""

    def read(self, *args: Any) -> Any:
        data = self._body.read(*args)
        self._call.add_request_chunk(data.encode() if isinstance(data, str) else bytes(data))
        return data


class WatchedTextFile(WatchedFile, io.TextIOBase):
    """The same of text: urllib3 encodes it by its class, as UTF-8 in its second major version, as Latin-1 before."""
