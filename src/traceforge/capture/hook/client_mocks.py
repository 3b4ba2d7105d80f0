"""The hooks for mocks that answer HTTP calls in a suite: `library_answers.MOCKS`.

In: the modules of the mocks. Out: a report of each model call that one of them answers. Never: changes what a mock
does, or keeps a version of it from being used that cannot be hooked: its answers are then noted as unseen. A call
that a mock passes through comes to the hook of the HTTP client.

    responses.RequestsMock._find_match           the mock that matches a request; None: there is none
    requests_mock.adapter.Adapter.send           the response of a mock
    pytest_httpx.HTTPXMock._handle_request       the response of a mock, and its async twin
    aioresponses.core.aioresponses.match         the response of a mock; None: there is none
    httpx.MockTransport.handle_request           the response of a mock, and its async twin; also respx with
                                                 `using="httpx"`. respx by default mocks below the hook of httpx.
    botocore.stub.Stubber._get_response_handler  the response that a test has queued
    moto.core.…BotocoreStubber.__call__          the response of moto; None: it lets the call pass
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import dispatch
from .guarded_call import call_safely
from .library_answers import (
    AIORESPONSES,
    MOCK_TRANSPORT,
    MOTO,
    PYTEST_HTTPX,
    REQUESTS_MOCK,
    RESPONSES,
    STUBBER,
)
from .patches import Patches


def hook_responses(module: Any, patches: Patches) -> None:
    """Report each call that responses answers instead of a provider."""
    _wrap(patches, RESPONSES, getattr(module, "RequestsMock", None), _wrap_find_match, "_find_match")


def hook_requests_mock(module: Any, patches: Patches) -> None:
    """Report each call that requests-mock answers instead of a provider."""
    _wrap(patches, REQUESTS_MOCK, getattr(module, "Adapter", None), _wrap_send, "send")


def hook_pytest_httpx(module: Any, patches: Patches) -> None:
    """Report each call that pytest-httpx answers instead of a provider."""
    _wrap_handlers(
        patches, PYTEST_HTTPX, getattr(module, "HTTPXMock", None), "_handle_request", "_handle_async_request"
    )


def hook_aioresponses(module: Any, patches: Patches) -> None:
    """Report each call that aioresponses answers instead of a provider."""
    _wrap(patches, AIORESPONSES, getattr(module, "aioresponses", None), _wrap_aioresponses_match, "match")


def hook_stubber(module: Any, patches: Patches) -> None:
    """Report what botocore's own mock answers instead of a model."""
    _wrap(patches, STUBBER, getattr(module, "Stubber", None), _wrap_stub, "_get_response_handler")


def hook_moto(module: Any, patches: Patches) -> None:
    """Report what moto answers instead of a model."""
    _wrap(patches, MOTO, getattr(module, "BotocoreStubber", None), _wrap_moto, "__call__")


def hook_mock_transport(module: Any, patches: Patches) -> None:
    """Report what the mock transport of httpx or httpx2 answers."""
    transport = getattr(module, "MockTransport", None)
    _wrap_handlers(patches, MOCK_TRANSPORT, transport, "handle_request", "handle_async_request")


def _wrap_handlers(patches: Patches, library: str, owner: Any, name: str, async_name: str) -> None:
    _wrap(patches, library, owner, _wrap_handler(library), name)
    _wrap(patches, library, owner, _wrap_async_handler(library), async_name)


def _wrap(patches: Patches, library: str, owner: Any, wrapper: Callable[[Any], Any], name: str) -> None:
    if hasattr(owner, name):
        patches.wrap(owner, name, wrapper)
    else:
        dispatch.note_unseen(f"calls answered by this version of {library}")


def _report(library: str, request: Any) -> None:
    dispatch.report_library_answer(library, str(request.method), str(request.url))


def _wrap_find_match(find_match: Any) -> Any:
    def watched(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        result = find_match(self, request, *args, **options)
        call_safely(None, _report_match, request, result)
        return result

    return watched


def _report_match(request: Any, result: Any) -> None:
    """`result`: the mock and why others do not match; in versions before 0.11, the mock alone."""
    match = result[0] if isinstance(result, tuple) else result
    if match is not None and not getattr(match, "passthrough", False):
        _report(RESPONSES, request)


def _wrap_send(send: Any) -> Any:
    def watched(self: Any, request: Any, *args: Any, **options: Any) -> Any:
        response = send(self, request, *args, **options)
        call_safely(None, _report, REQUESTS_MOCK, request)
        return response

    return watched


def _wrap_handler(library: str) -> Callable[[Any], Any]:
    def wrap(handle: Any) -> Any:
        def watched(self: Any, *args: Any, **options: Any) -> Any:
            response = handle(self, *args, **options)
            call_safely(None, _report_handled, library, args, options)
            return response

        return watched

    return wrap


def _wrap_async_handler(library: str) -> Callable[[Any], Any]:
    def wrap(handle: Any) -> Any:
        async def watched(self: Any, *args: Any, **options: Any) -> Any:
            response = await handle(self, *args, **options)
            call_safely(None, _report_handled, library, args, options)
            return response

        return watched

    return wrap


def _report_handled(library: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """The request is the last argument of a handler, or is passed by its name."""
    _report(library, options["request"] if "request" in options else args[-1])


def _wrap_stub(respond: Any) -> Any:
    def watched(self: Any, *args: Any, **options: Any) -> Any:
        response = respond(self, *args, **options)
        call_safely(None, _report_stubbed, options.get("params"))
        return response

    return watched


def _report_stubbed(request: Any) -> None:
    """`request`: what would be sent; it has no URL where a client makes none of its own."""
    dispatch.report_library_answer(STUBBER, str(request["method"]), str(request["url"]))


def _wrap_moto(respond: Any) -> Any:
    def watched(self: Any, event_name: Any, request: Any, **options: Any) -> Any:
        response = respond(self, event_name, request, **options)
        if response is not None:
            call_safely(None, _report, MOTO, request)
        return response

    return watched


def _wrap_aioresponses_match(match: Any) -> Any:
    async def watched(self: Any, method: str, url: Any, *args: Any, **options: Any) -> Any:
        response = await match(self, method, url, *args, **options)
        if response is not None:
            call_safely(None, dispatch.report_library_answer, AIORESPONSES, str(method).upper(), str(url))
        return response

    return watched
