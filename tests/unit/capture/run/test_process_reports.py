"""What is made of what processes say."""

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
    "headers": [["X-TraceForge-Session-ID", "s"], ["X-TraceForge-Source", "said.py:1:f"], ["A", "1"]],
    "source": "", "fallback": "app.py:0:<module>", "scope": "",
}  # fmt: skip
END: dict[str, Any] = {
    "kind": "end", "id": "i", "status": 200, "headers": [["B", "2"]], "times": [1.5, 2.5], "ms": 3.0,
    "outcome": "answered", "error": "", "too_large": False,
}  # fmt: skip


def arrivals() -> tuple[ProcessReports, MemoryRecorder]:
    """Empty ones."""
    sink = MemoryRecorder()
    return ProcessReports(Engine(sink, session_id="run"), "t"), sink


def test_a_call_is_placed_when_it_begins_and_kept_when_it_ends() -> None:
    """Our headers are read here, by the engine, as for every other edge."""
    everything, sink = arrivals()
    one = ProcessConnection(everything)
    first = {**BEGIN, "id": "first", "headers": [], "source": "app.py:3:ask"}
    for head in (HELLO, first, BEGIN):
        assert one.handle_frame(dict(head), [])
    assert one.handle_frame(dict(END), [b"body", b"12", b"3"])
    assert one.handle_frame({**END, "id": "first"}, [b"", b"12", b"3"])

    late, early = sink.exchanges
    assert ("said.py:1:f", "s", 0) == (late.caller.source, late.caller.session_id, late.caller.step_index)
    assert ("app.py:3:ask", "run", 0) == (early.caller.source, early.caller.session_id, early.caller.step_index)
    assert ((("A", "1"),), (("B", "2"),), b"body") == (late.request_headers, late.response_headers, late.request_body)
    assert ("2025-11-15T09:46:40.250Z", [(1.5, b"12"), (2.5, b"3")]) == (late.started_at, list(late.chunks))
    assert {"h:1": 2} == everything.hosts


@pytest.mark.parametrize(
    "first", [{**HELLO, "token": "wrong"}, {**HELLO, "token": None}, BEGIN, {"kind": "hello"}, {}]
)
def test_a_stranger_is_not_heard(first: dict[str, Any]) -> None:
    """Without the token of this run, nothing counts."""
    everything, sink = arrivals()

    assert not ProcessConnection(everything).handle_frame(dict(first), [])
    assert (set(), {}, []) == (everything.processes, everything.hosts, list(sink.exchanges))


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
def test_a_message_that_makes_no_sense_is_counted_and_the_next_is_heard(
    head: dict[str, Any], pieces: list[bytes]
) -> None:
    """A process of another version must not end the recording of all others."""
    everything, sink = arrivals()
    one = ProcessConnection(everything)
    one.handle_frame(dict(HELLO), [])
    one.handle_frame(dict(BEGIN), [])

    assert one.handle_frame(dict(head), pieces)
    assert (1, []) == (everything.malformed, list(sink.exchanges))


def test_calls_of_a_process_that_is_gone_never_ended() -> None:
    """They are counted, and nothing is made up about them."""
    everything, _ = arrivals()
    one = ProcessConnection(everything)
    one.handle_frame(dict(HELLO), [])
    one.handle_frame(dict(BEGIN), [])
    one.handle_frame({"kind": "bye", "lost": 2, "faults": 1, "fault": "OSError"}, [])
    one.close()

    assert (1, 2, {"OSError": 1}) == (everything.unfinished, everything.lost, everything.faults)


def test_garbage_on_the_socket_harms_nobody() -> None:
    """A stranger is cut off; a process of ours is heard beside it."""
    everything, sink = arrivals()
    listener = ProcessListener(everything)
    path = listener.address.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as ours:
        stranger.connect(path)
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        ours.connect(path)
        for head, pieces in ((HELLO, []), (BEGIN, []), (END, [b"body", b"12", b"3"])):
            ours.sendall(write_frame(dict(head), pieces))
    listener.close(5)

    assert (1, [b"body"]) == (everything.malformed, [one.request_body for one in sink.exchanges])
