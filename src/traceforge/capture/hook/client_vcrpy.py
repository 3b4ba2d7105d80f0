"""The hook for vcrpy, which a suite may use beside TraceForge: calls inside of an open cassette are vcrpy's.

In: the module of vcrpy. Out: which cassettes are open, so that no call is taken from vcrpy; and a report of each call
that vcrpy answers, which the gate cannot compare. Never: changes what vcrpy does, except that it sends no model call
in a test.

    CassetteContextDecorator.__enter__    a cassette is opened: vcrpy patches clients for the whole process
    CassetteContextDecorator.__exit__     it is closed
    Cassette.can_play_response_for        false: vcrpy refuses the call, or sends it past our hooks
    Cassette.play_response                answers a call
"""

from __future__ import annotations

from typing import Any

from . import dispatch
from .guarded_call import call_safely
from .library_answers import VCRPY
from .open_cassettes import open_cassettes
from .patches import Patches


def hook(module: Any, patches: Patches) -> None:
    """Watch the cassettes of `module`."""
    patches.wrap(module.CassetteContextDecorator, "__enter__", _wrap_enter)
    patches.wrap(module.CassetteContextDecorator, "__exit__", _wrap_exit)
    patches.wrap(module.Cassette, "can_play_response_for", _wrap_can_play)
    patches.wrap(module.Cassette, "play_response", _wrap_play)


def _wrap_enter(enter: Any) -> Any:
    def watched(self: Any) -> Any:
        cassette = enter(self)
        open_cassettes.add(self)
        return cassette

    return watched


def _wrap_exit(leave: Any) -> Any:
    def watched(self: Any, *error: Any) -> Any:
        try:
            return leave(self, *error)
        finally:
            open_cassettes.discard(self)

    return watched


def _wrap_can_play(can_play: Any) -> Any:
    def watched(self: Any, request: Any) -> Any:
        is_answered = can_play(self, request)
        if not is_answered and not (self.write_protected and self.filter_request(request)):
            dispatch.refuse_live_call_of_vcrpy(str(request.method), str(request.uri))
        return is_answered

    return watched


def _wrap_play(play: Any) -> Any:
    def watched(self: Any, request: Any) -> Any:
        response = play(self, request)
        call_safely(None, _report, request)
        return response

    return watched


def _report(request: Any) -> None:
    dispatch.report_library_answer(VCRPY, str(request.method), str(request.uri))
