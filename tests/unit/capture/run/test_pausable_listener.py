"""The end of a run never waits for ever: neither for a child, nor for a thread, nor for a fork."""

from __future__ import annotations

import _thread
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from traceforge.capture.hook.frame_sender import connect
from traceforge.capture.hook.frames import write_frame
from traceforge.capture.run import pausable_listener, suite_children
from traceforge.capture.run.pausable_listener import NO_THREAD, STILL_READING, STILL_SENDING, PausableListener
from traceforge.capture.run.process_reports import ProcessReports
from traceforge.capture.run.suite_children import SuiteChildren

TOKEN = "token"


@pytest.fixture
def reports() -> ProcessReports:
    """Of no process so far."""
    return ProcessReports(cast("Any", SimpleNamespace()), TOKEN, None)


def ends(work: Callable[[], object]) -> bool:
    """Whether it ends at all; a minute is far more than it needs."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


def test_a_child_that_does_not_stop_is_not_waited_for(
    reports: ProcessReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reports are taken for some time, and the run has a fault."""
    monkeypatch.setattr(pausable_listener, "DRAIN_S", 0.2)
    listener = PausableListener(reports)
    is_over = threading.Event()

    def report_again_and_again() -> None:
        with suppress(OSError), connect(listener.address) as child:
            child.sendall(write_frame({"kind": "hello", "pid": 1, "token": TOKEN}))
            while not is_over.wait(0.001):
                child.sendall(write_frame({"kind": "unseen", "what": "something"}))

    child = threading.Thread(target=report_again_and_again, daemon=True)
    child.start()
    try:
        assert ends(listener.close)
    finally:
        is_over.set()
        child.join()

    assert Counter({STILL_SENDING: 1}) == reports.faults


def test_without_a_thread_the_run_ends_with_a_fault(reports: ProcessReports, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system allows no further thread when the process has forked."""
    listener = PausableListener(reports)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    assert listener.pause()
    with monkeypatch.context() as patch:
        patch.setattr(_thread, "start_new_thread", refuse)
        listener.resume()

    assert ends(listener.close)
    assert Counter({NO_THREAD: 1}) == reports.faults


def test_a_fork_that_does_not_end_is_not_waited_for(reports: ProcessReports, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener is paused by another thread, and stays so."""
    monkeypatch.setattr(pausable_listener, "PAUSE_S", 0.2)
    listener = PausableListener(reports)

    assert listener.pause()
    assert ends(listener.close)
    assert Counter({STILL_READING: 1}) == reports.faults
    listener.resume()
    listener.close()


def test_a_thread_may_fork_after_the_end(reports: ProcessReports) -> None:
    """Nothing is paused then, so there is nothing to resume."""
    listener = PausableListener(reports)
    listener.close()

    assert ends(lambda: listener.pause() or listener.close())
    assert not reports.faults


def test_a_run_that_ends_while_a_thread_forks_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener goes on when the fork is done, though the run instruments no children any more."""
    monkeypatch.setattr(suite_children, "_forking", {})
    monkeypatch.setattr(suite_children, "command_environment", lambda *_, **__: {suite_children.RUN_VARIABLE: ""})
    replay = cast("Any", None)
    children = SuiteChildren(
        cast("Any", None), cast("Any", SimpleNamespace()), replay, "", is_off=lambda _: False, leave=lambda: None
    )
    children.start()
    try:
        suite_children._before_fork()
        children.suspend()
        suite_children._after_fork()
    finally:
        assert ends(children.stop)
