"""The hooks for cassetter and betamax, recorders that a suite may use beside TraceForge.

In: the modules of the recorders. Out: a report of each model call that one of them answers from its own recording,
because the gate does not compare it. Never: changes what a recorder does. A call that it sends comes to the hook of
the HTTP client.

    cassetter.cassette.Cassette.should_bypass    has the URL of a request, before a filter of the suite changes it
    cassetter.cassette.Cassette.match            the recorded response; an exception: there is none
    cassetter.cassette.Cassette.play_ws          the recorded messages of a WebSocket
    betamax.cassette.Cassette.find_match         the recorded interaction; None: there is none
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from . import dispatch
from .guarded_call import call_safely
from .library_answers import BETAMAX, CASSETTER
from .patches import Patches

_sent_url: ContextVar[str] = ContextVar("traceforge_cassetter_url", default="")


def hook_cassetter(module: Any, patches: Patches) -> None:
    """Report what the cassettes of cassetter answer."""
    patches.wrap(module.Cassette, "should_bypass", _wrap_should_bypass)
    patches.wrap(module.Cassette, "match", _wrap_match)
    if hasattr(module.Cassette, "play_ws"):
        patches.wrap(module.Cassette, "play_ws", _wrap_play_ws)


def hook_betamax(module: Any, patches: Patches) -> None:
    """Report what the cassettes of betamax answer."""
    patches.wrap(module.Cassette, "find_match", _wrap_find_match)


def _wrap_should_bypass(should_bypass: Any) -> Any:
    def watched(self: Any, uri: str) -> Any:
        _sent_url.set(str(uri))
        return should_bypass(self, uri)

    return watched


def _wrap_match(match: Any) -> Any:
    def watched(self: Any, method: str, uri: str, *args: Any, **options: Any) -> Any:
        result = match(self, method, uri, *args, **options)
        if not getattr(self, "verifies", False):  # Then the call is sent, and compared with its recording.
            call_safely(None, _report_cassetter, method, uri)
        return result

    return watched


def _report_cassetter(method: str, uri: str) -> None:
    dispatch.report_library_answer(CASSETTER, str(method), str(uri), _sent_url.get())


def _wrap_play_ws(play_ws: Any) -> Any:
    def watched(self: Any, uri: str, *args: Any, **options: Any) -> Any:
        result = play_ws(self, uri, *args, **options)
        if not getattr(self, "verifies", False):
            call_safely(None, dispatch.report_websocket_answer, CASSETTER, str(uri))
        return result

    return watched


def _wrap_find_match(find_match: Any) -> Any:
    def watched(self: Any, request: Any) -> Any:
        interaction = find_match(self, request)
        if interaction:
            call_safely(None, _report_betamax, request)
        return interaction

    return watched


def _report_betamax(request: Any) -> None:
    dispatch.report_library_answer(BETAMAX, str(request.method), str(request.url))
