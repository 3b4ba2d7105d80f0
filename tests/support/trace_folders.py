"""Eight numbered traces, and ways to put them into a folder and to compare what a store lists."""

from __future__ import annotations

from pathlib import Path

from support.exchanges import plain_trace, streamed_trace
from traceforge.traces.spool import encode_frame
from traceforge.traces.spool_drain import drain_spool
from traceforge.traces.trace_store import TraceStore
from traceforge.traces.trace_summary import StoredTrace

STORED = [plain_trace(n) if n % 2 else streamed_trace(n) for n in range(1, 9)]
BY_NAME = {stored.summary.file_name: stored for stored in STORED}


def spool_orphan(folder: Path, *stored: StoredTrace, name: str = "1-a") -> None:
    """Leave a segment behind, as a process that is gone does."""
    (folder / "spool").mkdir(exist_ok=True)
    data = b"".join(b"".join(encode_frame(trace)) for trace in stored)
    (folder / "spool" / f"{name}.segment").write_bytes(data)


def put_files(folder: Path, *stored: StoredTrace) -> None:
    """Traces as files."""
    spool_orphan(folder, *stored, name="9-z")
    drain_spool(str(folder))


def list_names(trace_store: TraceStore) -> list[str]:
    """What is listed, once the store has looked."""
    trace_store.update_index()
    return [row.summary.file_name for row in trace_store.list_rows()]


def check_all(trace_store: TraceStore, expected: list[StoredTrace]) -> None:
    """Exactly these, newest first, and each reads as it was kept."""
    assert sorted((stored.summary.file_name for stored in expected), reverse=True) == list_names(trace_store)
    for row in trace_store.list_rows():
        stored = trace_store.read_stored(row)
        assert BY_NAME[row.summary.file_name] == stored
        assert trace_store.load_trace(row).id == row.summary.id
        assert bool(stored.chunks) == bool(trace_store.load_chunks(row))
