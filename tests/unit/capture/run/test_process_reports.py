"""Reports of child processes become exchanges."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from traceforge.capture.engine import Engine
from traceforge.capture.hook.frames import write_frame
from traceforge.capture.recorder import MemoryRecorder
from traceforge.capture.run.listener import ProcessListener
from traceforge.capture.run.process_reports import ProcessConnection, ProcessReports

HELLO = {"kind": "hello", "token": "t", "pid": 1, "python": "3.9.18"}
BEGIN: dict[str, Any] = {
    "kind": "begin", "id": "i", "at": 1763200000.25, "method": "POST", "url": "http://u:p@h:1/v1/messages",
    "headers": [["X-TraceForge-Session-ID", "s"], ["X-TraceForge-Source", "header.py:1:f"], ["A", "1"]],
    "source": "", "fallback": "app.py:0:<module>", "scope": "",
}  # fmt: skip
END: dict[str, Any] = {
    "kind": "end", "id": "i", "status": 200, "headers": [["B", "2"]], "times": [1.5, 2.5], "ms": 3.0,
    "outcome": "answered", "error": "", "too_large": False,
}  # fmt: skip


def new_reports() -> tuple[ProcessReports, MemoryRecorder]:
    """No reports yet, and the sink of their exchanges."""
    sink = MemoryRecorder()
    return ProcessReports(Engine(sink, session_id="run"), "t"), sink


def test_a_call_is_numbered_when_it_begins_and_recorded_when_it_ends() -> None:
    """The engine reads TraceForge's headers, as for every other edge."""
    reports, sink = new_reports()
    process = ProcessConnection(reports)
    first = {**BEGIN, "id": "first", "headers": [], "source": "app.py:3:ask"}
    for head in (HELLO, first, BEGIN):
        assert process.handle_frame(dict(head), [])
    assert process.handle_frame(dict(END), [b"body", b"12", b"3"])
    assert process.handle_frame({**END, "id": "first"}, [b"", b"12", b"3"])

    late, early = sink.exchanges
    assert ("header.py:1:f", "s", 0) == (late.caller.source, late.caller.session_id, late.caller.step_index)
    assert ("app.py:3:ask", "run", 0) == (early.caller.source, early.caller.session_id, early.caller.step_index)
    assert ((("A", "1"),), (("B", "2"),), b"body") == (late.request_headers, late.response_headers, late.request_body)
    assert ("2025-11-15T09:46:40.250Z", [(1.5, b"12"), (2.5, b"3")]) == (late.started_at, list(late.chunks))
    assert {"h:1": 2} == reports.hosts


@pytest.mark.parametrize(
    "first", [{**HELLO, "token": "wrong"}, {**HELLO, "token": None}, BEGIN, {"kind": "hello"}, {}]
)
def test_a_process_without_the_token_is_refused(first: dict[str, Any]) -> None:
    """Its frames are ignored."""
    reports, sink = new_reports()

    assert not ProcessConnection(reports).handle_frame(dict(first), [])
    assert (set(), {}, []) == (reports.processes, reports.hosts, list(sink.exchanges))


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        ({**END, "id": "unknown"}, [b""]),
        ({**END, "times": [1.0]}, [b"", b"1", b"2"]),
        ({**END, "outcome": "other"}, [b"", b"1", b"2"]),
        ({**END, "status": "x"}, [b"", b"1", b"2"]),
        (END, []),
        ({**BEGIN, "headers": [["a"]]}, []),
        ({**BEGIN, "at": "never"}, []),
        ({**BEGIN, "at": 1e300}, []),
        ({"kind": "other"}, []),
        ({"kind": "bye"}, []),
    ],
)
def test_an_unreadable_frame_is_counted_and_the_next_is_read(head: dict[str, Any], pieces: list[bytes]) -> None:
    """A process of another version must not end the recording of all others."""
    reports, sink = new_reports()
    process = ProcessConnection(reports)
    process.handle_frame(dict(HELLO), [])
    process.handle_frame(dict(BEGIN), [])

    assert process.handle_frame(dict(head), pieces)
    assert (1, []) == (reports.malformed, list(sink.exchanges))


def test_open_calls_of_a_dead_process_are_counted_as_unfinished() -> None:
    """They become no exchanges."""
    reports, _ = new_reports()
    process = ProcessConnection(reports)
    process.handle_frame(dict(HELLO), [])
    process.handle_frame(dict(BEGIN), [])
    process.handle_frame({"kind": "bye", "lost": 2, "faults": 1, "fault": "OSError"}, [])
    process.close()

    assert (1, 2, {"OSError": 1}) == (reports.unfinished, reports.lost, reports.faults)


def test_garbage_on_the_socket_does_not_disturb_other_processes() -> None:
    """Its connection is closed; a process of the run is still read."""
    reports, sink = new_reports()
    listener = ProcessListener(reports)
    path = listener.address.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as ours:
        stranger.connect(path)
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        ours.connect(path)
        for head, pieces in ((HELLO, []), (BEGIN, []), (END, [b"body", b"12", b"3"])):
            ours.sendall(write_frame(dict(head), pieces))
    listener.close(5)

    assert (1, [b"body"]) == (reports.malformed, [exchange.request_body for exchange in sink.exchanges])
