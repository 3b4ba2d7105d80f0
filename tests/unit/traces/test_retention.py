"""Pruning: which traces are removed, and which stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.exchanges import plain_trace
from traceforge.exchange import Caller
from traceforge.traces.retention import PruneResult, prune_traces
from traceforge.traces.spool import SpoolWriter
from traceforge.traces.trace_index import TraceFilter
from traceforge.traces.trace_store import TraceStore


@pytest.mark.parametrize("dry_run", [False, True])
def test_traces_of_a_process_that_still_records_stay(tmp_path: Path, dry_run: bool) -> None:
    """They are counted, and stay listed; a dry run removes nothing."""
    old = SpoolWriter(str(tmp_path))
    old.append(plain_trace(1, caller=Caller(session_id="s")))
    old.seal()
    writer = SpoolWriter(str(tmp_path))
    writer.append(plain_trace(2, caller=Caller(session_id="s")))
    store = TraceStore(str(tmp_path))
    store.update_index()

    result = prune_traces(store, TraceFilter(session_id="s"), dry_run=dry_run)

    assert PruneResult(removable=1, spooled=1) == result
    assert (2 if dry_run else 1) == store.count_traces(TraceFilter())
    store.close()
    writer.seal()
