"""The hook for requests: its adapter, and the urllib3 response below it.

In: the client module. Out: `HTTPAdapter.send`, which tells what it sees; the body is seen where urllib3 takes it off
the wire, still compressed, whichever way the application reads it. Never: reads ahead, or touches the application's
request: where something differs on the wire, a copy is sent. A call that is played gets a response that the standard
library and urllib3 read from a socket that is none.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from . import dispatch
from .body_streams import going_out
from .guarded_call import ANSWERED, LEFT, Told, is_ours, safely
from .patches import Patches
from .replayed_response import Answer, wire_pieces

_watched: dict[type, type] = {}  # a class of responses, and the one of ours that is put in its place


def hook(module: Any, patches: Patches) -> None:
    """Watch the adapters of `module`."""

    def make(send: Any) -> Any:
        def watched_send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
            told = dispatch.begin(request.method or "", request.url or "", _raw(request.headers))
            if told is None:
                return send(self, request, *args, **options)
            if told.plays:
                body = _read(request.body)
                answer = told.play(body)
                if answer is not None:
                    return _respond(self, request, answer, told)
                request = _copy(request, body)
            try:
                response = send(self, safely(request, _outgoing, request, told), *args, **options)
            except BaseException as exc:
                told.failed(exc)
                raise
            return safely(response, _incoming, request, response, told)

        return watched_send

    patches.wrap(module.adapters.HTTPAdapter, "send", make)


def _raw(headers: Any) -> Iterator[tuple[bytes, bytes]]:
    """Read only if the call is ours."""
    return ((_bytes(name), _bytes(value)) for name, value in headers.items())


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("latin-1", "replace")


def _outgoing(request: Any, told: Told) -> Any:
    """The request to send: the application's own, or a copy of it where something must differ."""
    body = request.body
    ready = body is None or isinstance(body, (bytes, bytearray, str))
    if ready and body:
        told.sent(body.encode() if isinstance(body, str) else bytes(body))
    ours = [name for name in request.headers if is_ours(_bytes(name).decode("latin-1"))]
    if ready and not ours:
        return request
    copy = _copy(request, body)
    for name in ours:
        del copy.headers[name]
    if not ready:
        copy.body = _FileTee(body, told) if hasattr(body, "read") else _Tee(body, told)
    return copy


def _copy(request: Any, body: Any) -> Any:
    copy = object.__new__(type(request))
    vars(copy).update(vars(request))
    copy.headers = request.headers.copy()
    copy.body = body
    return copy


def _read(body: Any) -> bytes:
    """All of a request's body."""
    if hasattr(body, "read"):
        body = body.read()
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    return b"".join([piece.encode() if isinstance(piece, str) else bytes(piece) for piece in body])


def _respond(adapter: Any, request: Any, answer: Any, told: Told) -> Any:
    """The response; where it cannot be made, one that says so."""
    try:
        return _response(adapter, request, Answer(*answer))
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return _response(adapter, request, told.refuse(exc))


def _response(adapter: Any, request: Any, answer: Answer) -> Any:
    """As urllib3 makes it of a connection's."""
    client, urllib3 = import_module("http.client"), import_module("urllib3")
    method = (request.method or "").upper()
    original = client.HTTPResponse(_Socket(wire_pieces(method, answer)), method=method)
    original.begin()
    raw = urllib3.HTTPResponse(
        body=original, headers=urllib3._collections.HTTPHeaderDict(original.msg.items()), status=original.status,
        version=original.version, reason=original.reason, preload_content=False, decode_content=False,
        original_response=original, request_method=method,
    )  # fmt: skip
    return adapter.build_response(request, raw)


class _Socket(io.RawIOBase):
    """What the standard library takes for a socket: pieces, each in its time, and then the end."""

    def __init__(self, pieces: list[tuple[float, bytes]]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""
        self._began = time.monotonic()

    def makefile(self, mode: str, *args: Any, **options: Any) -> Any:
        """The file that is read."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Never more than what is left of one piece."""
        if not self._rest:
            due, self._rest = next(self._pieces, (0.0, b""))
            time.sleep(max(0.0, self._began + due - time.monotonic()))
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _incoming(request: Any, response: Any, told: Told) -> Any:
    """The application's response; its body tells what is read of it."""
    response.request = request
    raw = response.raw
    headers = getattr(raw, "headers", None) or response.headers
    told.answered(response.status_code, tuple((str(name), str(value)) for name, value in headers.items()))
    for name, value in told.reply_headers:
        response.headers[name] = value
    if not _watch(raw, told):
        told.ended(ANSWERED, "the body of this response could not be watched")
    return response


def _watch(raw: Any, told: Told) -> bool:
    """Put a class of ours in the place of the response's own, for as long as its body is read."""
    kind = type(raw)
    if not (hasattr(kind, "_raw_read") or hasattr(kind, "_fp_read")) or not hasattr(kind, "_handle_chunk"):
        return False  # not urllib3's, or of another make
    try:
        raw._traceforge_told = told
        raw._traceforge_busy = False
        raw.__class__ = _watched.get(kind) or _watched.setdefault(kind, _watched_class(kind))
    except (AttributeError, TypeError):
        return False
    return True


def _watched_class(kind: Any) -> type:
    lowest = "_raw_read" if hasattr(kind, "_raw_read") else "_fp_read"  # urllib3 2, urllib3 1.26
    read = getattr(kind, lowest)

    class Watched(kind):  # type: ignore[misc]
        def _handle_chunk(self, amt: Any) -> Any:
            data = self._traceforge_see(kind._handle_chunk, amt)
            self._traceforge_told.came(data)
            return data

        def _update_chunk_length(self) -> None:
            self._traceforge_see(kind._update_chunk_length)
            if self.chunk_left == 0:
                self._traceforge_told.ended(ANSWERED)

        def close(self) -> None:
            if not self._traceforge_busy:  # urllib3 closes a broken response itself, before it raises
                self._traceforge_told.ended(LEFT)
            kind.close(self)

        def __del__(self) -> None:
            self._traceforge_told.dropped()
            super().__del__()

        def _traceforge_read(self, amt: Any = None, **options: Any) -> Any:
            data = self._traceforge_see(read, amt, **options)
            if data:
                self._traceforge_told.came(bytes(data))
            if _at_end(self, amt, data, **options):
                self._traceforge_told.ended(ANSWERED)
            return data

        def _traceforge_see(self, method: Any, *args: Any, **options: Any) -> Any:
            self._traceforge_busy = True
            try:
                return method(self, *args, **options)
            except BaseException as exc:
                self._traceforge_told.broke(exc)
                raise
            finally:
                self._traceforge_busy = False

    setattr(Watched, lowest, Watched._traceforge_read)
    Watched.__name__, Watched.__qualname__, Watched.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Watched


def _at_end(raw: Any, amt: Any, data: Any, read1: bool = False) -> bool:
    """Has the last byte been read?"""
    if getattr(raw, "length_remaining", None) == 0 or (amt != 0 and not data):
        return True
    return amt is None and not read1


class _Tee:
    """The pieces of a request, from whatever can be iterated."""

    def __init__(self, body: Any, told: Told) -> None:
        self._body = body
        self._told = told

    def __iter__(self) -> Any:
        return going_out(iter(self._body), self._told)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


class _FileTee(_Tee):
    """A request that is read from a file."""

    def read(self, *args: Any) -> Any:
        data = self._body.read(*args)
        if isinstance(self._body, io.TextIOBase):
            data = data.encode()  # as urllib3 would
        self._told.sent(data.encode() if isinstance(data, str) else bytes(data))
        return data
