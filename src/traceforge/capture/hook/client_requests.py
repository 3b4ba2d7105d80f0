"""The hook for requests: its adapter, and the urllib3 response below it.

In: the client module. Out: `HTTPAdapter.send`, which reports what it sees; the body is seen where urllib3 takes it
off the wire, still compressed, whichever way the application reads it. Never: reads a response ahead, or changes the
application's request: where something differs on the wire, a copy is sent. In a replay, the whole request body is
read first. A call that is replayed gets a response that the standard library and urllib3 read from an object that
only looks like a socket. urllib3 has a hook too, which passes over the calls that come from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from . import dispatch
from .guarded_call import GuardedCall, call_safely, is_traceforge_header
from .held_calls import READ_TIMED_OUT, hold_call, plan_hold
from .in_flight_call import ANSWERED
from .patches import Patches
from .real_address import find_real_url
from .replayed_response import ReplayedResponse
from .urllib3_bodies import (
    play_http_response,
    play_urllib3_response,
    read_body,
    seen_above,
    watch_body,
    watch_raw_response,
)


def hook(module: Any, patches: Patches) -> None:
    """Watch the adapters of `module`."""

    def wrap(send: Any) -> Any:
        def watched_send(self: Any, request: Any, *args: Any, **options: Any) -> Any:
            url = request.url or ""
            real_url = call_safely(url, _find_real_url, url, args, options)
            head = _raw_headers(request.headers, url if real_url != url else "")
            call = dispatch.begin_call(request.method or "", real_url, head, is_above_vcrpy=True)
            if call is None:
                with seen_above(request):
                    return send(self, request, *args, **options)
            to_send = request
            if call.replays_first:
                body = read_body(request.body)
                replayed = call.replay(body)
                if replayed is not None:
                    timeout = call_safely(None, _read_timeout, args, options)
                    hold = call_safely(None, plan_hold, replayed, timeout)
                    if hold is not None and hold_call(hold, call):
                        raise module.exceptions.ReadTimeout(READ_TIMED_OUT, request=request)
                    return _make_response(self, request, replayed, call)
                to_send = _copy_request(request, body)
            to_send = call_safely(to_send, _watch_request, to_send, call)
            try:
                with seen_above(to_send):
                    response = send(self, to_send, *args, **options)
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
        copy.body = watch_body(body, call)
    return copy


def _copy_request(request: Any, body: Any) -> Any:
    copy = object.__new__(type(request))
    vars(copy).update(vars(request))
    copy.headers = request.headers.copy()
    copy.body = body
    return copy


def _make_response(adapter: Any, request: Any, fields: Any, call: GuardedCall) -> Any:
    """The client's response with a replayed one in it; where that fails, with a refusal."""
    try:
        return _build_response(adapter, request, ReplayedResponse(*fields), call)
    except Exception as exc:  # noqa: BLE001 (nothing goes to the network because we failed)
        return _build_response(adapter, request, call.refuse(exc), call)


def _build_response(adapter: Any, request: Any, replayed: ReplayedResponse, call: GuardedCall) -> Any:
    """As the adapter makes it of urllib3's."""
    method = (request.method or "").upper()
    original = play_http_response(method, replayed, call)
    raw = play_urllib3_response(
        original,
        method,
        decode_content=False,
        request_url=request.path_url,
        retries=getattr(adapter, "max_retries", None),
    )
    return adapter.build_response(request, raw)


def _watch_response(request: Any, response: Any, call: GuardedCall) -> Any:
    """The application's response, whose body reports what is read of it."""
    response.request = request  # the application's own: a copy of it may have been sent
    raw = response.raw
    headers = getattr(raw, "headers", None) or response.headers
    call.start_response(response.status_code, tuple((str(name), str(value)) for name, value in headers.items()))
    for name, value in call.extra_response_headers:
        response.headers[name] = value
    if not watch_raw_response(raw, call):
        # The response came, so the call did not fail; with an error, the trace is marked as incomplete.
        call.end(ANSWERED, "the body of this response could not be watched")
    return response
