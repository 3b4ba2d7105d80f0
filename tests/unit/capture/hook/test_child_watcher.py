"""The watcher of a child process: which calls it reports as ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from traceforge.capture.hook import child_watcher
from traceforge.capture.hook.child_watcher import ChildWatcher
from traceforge.capture.hook.frame_sender import FrameSender
from traceforge.capture.hook.guarded_call import GuardedCall, HookFaults
from traceforge.capture.hook.in_flight_call import ANSWERED, InFlightCall
from traceforge.capture.hook.query_client import QueryClient

URL = "https://api.openai.com/v1/chat/completions"


class _Sender:
    """Keeps the heads of the frames instead of sending them."""

    lost = 0

    def __init__(self) -> None:
        self.heads: list[dict[str, Any]] = []

    def send(self, head: dict[str, Any]) -> None:
        self.heads.append(head)

    def flush(self, timeout_s: float) -> None:
        """Everything was taken."""

    def close(self) -> None:
        """Nothing is open."""

    def kinds(self) -> list[str]:
        return [head["kind"] for head in self.heads]


class _BrokenQueries:
    def query(self, frame: object) -> object:
        raise OSError("the parent is gone")

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> _Sender:
    monkeypatch.setattr(child_watcher, "write_frame", lambda head, _pieces=(): head)
    monkeypatch.setattr(child_watcher, "faults", HookFaults())
    return _Sender()


def _watcher(sender: _Sender) -> ChildWatcher:
    return ChildWatcher(cast("FrameSender", sender))


def _begin(watcher: ChildWatcher) -> InFlightCall:
    return watcher.begin_call("POST", URL, (), "app.py:3")


def _break_request(guarded: GuardedCall, call: InFlightCall) -> None:
    call.request_chunks = cast("list[bytes]", None)
    guarded.add_request_chunk(b"{}")


def _break_response(guarded: GuardedCall, call: InFlightCall) -> None:
    call.response_chunks = cast("list[tuple[float, bytes]]", None)
    guarded.add_response_chunk(b"{}")


@pytest.mark.parametrize("break_call", [_break_request, _break_response])
def test_a_call_with_a_fault_is_forgotten(
    sender: _Sender, break_call: Callable[[GuardedCall, InFlightCall], None]
) -> None:
    """Its end is not reported, neither by the client nor at exit: the parent counts it as unfinished."""
    watcher = _watcher(sender)
    call = _begin(watcher)
    guarded = GuardedCall(call, on_fault=lambda exc, stage: None)

    break_call(guarded, call)

    assert {} == watcher._open_calls
    guarded.end(ANSWERED)
    watcher.at_exit()
    assert ["begin"] == sender.kinds()


def test_a_call_whose_begin_cannot_be_reported_is_not_kept(sender: _Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent does not know of it, so its end means nothing there."""
    watcher = _watcher(sender)
    monkeypatch.setattr(child_watcher, "write_frame", lambda head, _pieces=(): 1 / 0)

    with pytest.raises(ZeroDivisionError):
        _begin(watcher)

    assert {} == watcher._open_calls


def test_a_call_that_is_refused_after_it_began_is_forgotten(sender: _Sender) -> None:
    """A strict replay refuses a call that the parent would let through: it never went upstream."""
    watcher = ChildWatcher(cast("FrameSender", sender), cast("QueryClient", _BrokenQueries()))
    call = _begin(watcher)
    watcher._report_begin(call)

    GuardedCall(call, watcher).replay(b"{}")

    assert {} == watcher._open_calls


def test_a_call_that_is_open_at_exit_is_reported(sender: _Sender) -> None:
    """The application abandoned it: that is not an error."""
    watcher = _watcher(sender)
    _begin(watcher)

    watcher.at_exit()

    assert ["begin", "end"] == sender.kinds()
