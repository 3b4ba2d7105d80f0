"""The hook for urllib3, and so for botocore, whose clients send through it.

In: the client module, in its first or second major version. Out: pools that report what they send and receive. Never:
sees a call of requests, which has a hook of its own; takes part in what urllib3 decides: it retries, redirects,
returns connections and reads ahead as ever, and each attempt is a call. In a replay, the whole request body is read
first, and no connection is opened, not even to a proxy.

    HTTPConnectionPool.urlopen            a call begins: one attempt; retries and redirects come here again
    HTTPConnectionPool._prepare_proxy     it needs a tunnel
    HTTPConnectionPool._make_request      it goes out on a connection
    HTTPResponse.__init__                 its response begins; urllib3 may read all of it in here
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from . import dispatch
from .guarded_call import GuardedCall, call_safely, is_traceforge_header
from .held_calls import READ_TIMED_OUT, hold_call, plan_hold
from .in_flight_call import ANSWERED
from .patches import Patches
from .real_address import find_real_url
from .replayed_response import ReplayedResponse
from .urllib3_bodies import (
    find_bytes,
    is_seen_above,
    play_http_response,
    play_urllib3_response,
    read_body,
    watch_body,
    watch_raw_response,
)

_DEFAULT_PORTS = {"http": 80, "https": 443}


class _Attempt:
    """One call on its way through urllib3."""

    def __init__(self, call: GuardedCall, replayed: Any) -> None:
        self.call = call
        self.replayed = replayed  # what answers it; None: it goes out
        self.has_response = False


_current: ContextVar[_Attempt | None] = ContextVar("traceforge_urllib3_attempt", default=None)


def hook(module: Any, patches: Patches) -> None:
    """Watch the pools of `module`."""
    pool = module.connectionpool.HTTPConnectionPool
    if hasattr(module, "AsyncHTTPConnectionPool") or not hasattr(pool, "_make_request"):
        dispatch.note_unseen("calls of this version of urllib3")  # A package that took its name.
        return
    timed_out = module.exceptions.ReadTimeoutError
    patches.wrap(pool, "urlopen", _wrap_urlopen)
    for kind in (pool, module.connectionpool.HTTPSConnectionPool):
        if "_prepare_proxy" in vars(kind):
            patches.wrap(kind, "_prepare_proxy", _wrap_prepare_proxy)
    patches.wrap(pool, "_make_request", lambda make: _wrap_make_request(make, timed_out))
    patches.wrap(module.response.HTTPResponse, "__init__", _wrap_response_init)


def _wrap_urlopen(urlopen: Any) -> Any:
    def watched(
        self: Any, method: Any, url: Any, body: Any = None, headers: Any = None, *args: Any, **options: Any
    ) -> Any:
        call = None if is_seen_above(self, url, headers) else _begin(self, method, url, headers)
        if call is None and _current.get() is None:
            return urlopen(self, method, url, body, headers, *args, **options)
        attempt = None
        if call is not None:
            replayed = None
            if call.replays_first:
                data = read_body(body)
                replayed = call.replay(data)
                body = body if replayed is not None and _is_used_up(body) else data
            attempt = _Attempt(call, replayed)
        token = _current.set(attempt)
        try:
            return urlopen(self, method, url, body, headers, *args, **options)
        except BaseException as exc:
            if attempt is not None and not attempt.has_response:
                attempt.call.end_unanswered(exc)  # Of no effect if it was refused by a server, or answered.
            raise
        finally:
            _current.reset(token)

    return watched


def _is_used_up(body: Any) -> bool:
    """Whether the next attempt finds nothing more to send, once the body was read."""
    return not hasattr(body, "tell") if hasattr(body, "read") else hasattr(body, "__next__")


def _begin(pool: Any, method: Any, target: Any, headers: Any) -> GuardedCall | None:
    try:
        url = _find_url(pool, str(target))
        sent_headers = pool.headers if headers is None else headers
        return dispatch.begin_call(str(method), url, _raw_headers(sent_headers), is_above_vcrpy=True)
    except Exception as exc:  # noqa: BLE001 (no error of the hook may reach the application)
        return dispatch.begin_after_fault(exc)


def _find_url(pool: Any, target: str) -> str:
    """A whole URL is sent to a proxy that gets the request as it is."""
    if target.startswith("/"):
        host = f"[{pool.host}]" if ":" in pool.host else pool.host
        port = "" if pool.port in (None, _DEFAULT_PORTS.get(pool.scheme)) else f":{pool.port}"
        return f"{pool.scheme}://{host}{port}{target}"
    return find_real_url(target, proxy=pool.proxy)


def _raw_headers(headers: Any) -> Iterator[tuple[bytes, bytes]]:
    """An iterator, because headers are read only where the call is watched."""
    for name, value in headers.items():
        yield _encode(name), _encode(value)


def _encode(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("latin-1", "replace")


def _wrap_prepare_proxy(prepare: Any) -> Any:
    def watched(self: Any, conn: Any) -> Any:
        attempt = _current.get()
        if attempt is None:
            return prepare(self, conn)
        if attempt.replayed is not None:
            return None
        try:
            return prepare(self, conn)
        except BaseException as exc:
            attempt.call.end_unanswered(exc)
            raise

    return watched


def _wrap_make_request(make_request: Any, timed_out: type[BaseException]) -> Any:
    def watched(self: Any, conn: Any, method: Any, url: Any, *args: Any, **options: Any) -> Any:
        attempt = _current.get()
        if attempt is None:
            return make_request(self, conn, method, url, *args, **options)
        if attempt.replayed is not None:
            self.num_requests += 1
            return _play(self, method, url, options, attempt, timed_out)
        options = call_safely(options, _watch_request, options, attempt.call)
        try:
            response = make_request(self, conn, method, url, *args, **options)
        except BaseException as exc:
            attempt.call.end_unanswered(exc, timed_out)
            raise
        if not attempt.has_response and hasattr(response, "retries"):  # Another class of it, such as that of HTTP/2.
            call_safely(None, _watch_response, response, attempt)
        return response

    return watched


def _watch_request(options: dict[str, Any], call: GuardedCall) -> dict[str, Any]:
    """What is passed on: the application's own body and headers, or copies where something must differ."""
    changed = dict(options)
    body, headers = options.get("body"), options.get("headers")
    if isinstance(body, str):
        call.add_request_chunk(body.encode())
    elif body is not None:
        data = find_bytes(body)
        if data is None:
            changed["body"] = watch_body(body, call)
        else:
            call.add_request_chunk(data)
    own_headers = [name for name in headers or () if is_traceforge_header(_encode(name).decode("latin-1"))]
    if headers is not None and own_headers:
        changed["headers"] = headers.copy()
        for name in own_headers:
            del changed["headers"][name]
    return changed


def _wrap_response_init(init: Any) -> Any:
    def watched(self: Any, *args: Any, **options: Any) -> None:
        attempt = _current.get()
        if (
            attempt is None
            or attempt.replayed is not None
            or attempt.has_response
            or options.get("original_response") is None
        ):
            init(self, *args, **options)
            return
        is_preloaded = options.get("preload_content", True)
        init(self, *args, **{**options, "preload_content": False})
        call_safely(None, _watch_response, self, attempt)
        if is_preloaded and not self._body:
            self._body = self.read(decode_content=options.get("decode_content", True))

    return watched


def _watch_response(response: Any, attempt: _Attempt) -> None:
    """Let a response report its body."""
    attempt.has_response = True
    call = attempt.call
    headers = tuple((str(name), str(value)) for name, value in response.headers.items())
    call.start_response(response.status, headers)
    for name, value in call.extra_response_headers:
        response.headers[name] = value
    if not watch_raw_response(response, call):
        # The response came, so the call did not fail; with an error, the trace is marked as incomplete.
        call.end(ANSWERED, "the body of this response could not be watched")


def _play(
    pool: Any, method: Any, url: Any, options: dict[str, Any], attempt: _Attempt, timed_out: type[BaseException]
) -> Any:
    """What `_make_request` returns: a response of urllib3, or in its first major version one of the standard library.

    Raises:
        ReadTimeoutError: as when the call was recorded.
    """
    timeout = call_safely(None, _read_timeout, pool, options)
    hold = call_safely(None, plan_hold, attempt.replayed, timeout)
    if hold is not None and hold_call(hold, attempt.call):
        raise timed_out(pool, url, READ_TIMED_OUT)
    try:
        original = play_http_response(str(method).upper(), ReplayedResponse(*attempt.replayed), attempt.call)
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        original = play_http_response(str(method).upper(), attempt.call.refuse(exc), attempt.call)
    if "response_conn" not in options:
        return original
    is_preloaded = options.get("preload_content", True)
    response = play_urllib3_response(
        original,
        str(method).upper(),
        decode_content=options.get("decode_content", True),
        enforce_content_length=options.get("enforce_content_length", True),
        request_url=url,
    )
    if is_preloaded:
        response._body = response.read(decode_content=options.get("decode_content", True))
    response.retries = options.get("retries")
    response._connection = options["response_conn"]
    response._pool = pool
    return response


def _read_timeout(pool: Any, options: dict[str, Any]) -> Any:
    """How many seconds the client waits for a response; None: for ever."""
    timeout = pool._get_timeout(options["timeout"]).clone()
    timeout.start_connect()
    seconds = timeout.read_timeout
    return seconds if seconds is None or isinstance(seconds, (int, float)) else socket.getdefaulttimeout()
