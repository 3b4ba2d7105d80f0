"""Following a traces folder: each new trace once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from support.exchanges import plain_trace
from traceforge.clock import pinned
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_follower import TraceFollower
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore


def test_every_new_trace_is_found_once(tmp_path: Path) -> None:
    """Those that were there, and those that began before the window, are not new."""
    writer = SpoolWriter(str(tmp_path))
    writer.append(plain_trace(7200))
    store = TraceStore(str(tmp_path))
    store.update_index()
    with pinned(datetime(2026, 11, 15, 14, 30, tzinfo=UTC)):
        follower = TraceFollower(store, TraceFilter())
    for number in (7202, 7201, 60):
        writer.append(plain_trace(number))

    first, second = follower.find_new(), follower.find_new()

    assert ["14:00:01", "14:00:02"] == [row.summary.timestamp[11:19] for row in first]
    assert [] == second
    store.close()
    writer.seal()
