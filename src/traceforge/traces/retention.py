"""Remove traces: of a session, of an age, or older than the configured number of days (0 keeps them for ever)."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NamedTuple

from traceforge.clock import days_ago
from traceforge.errors import PathInUse
from traceforge.files import make_private_folder
from traceforge.terminal import ProgressReporter, no_progress
from traceforge.traces import trace_index
from traceforge.traces.spool import SPOOL_FOLDER
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore

DAY_SECONDS = 86_400
PRUNED_STAMP = "pruned"  # a file in the index folder; its modification time is the time of the last pruning


class PruneResult(NamedTuple):
    """How many traces were removed (or would be), and how many stay in the spool of a process that still records."""

    removable: int
    spooled: int


def prune_traces(
    store: TraceStore, trace_filter: TraceFilter, *, dry_run: bool = False, progress: ProgressReporter = no_progress
) -> PruneResult:
    """Remove the traces that match, except those in the spool of a process that still records.

    Raises:
        CannotWrite: a file cannot be removed.
    """
    matching = store.list_rows(trace_filter)
    rows = [row for row in matching if not _is_spooled(row)]
    if not dry_run:
        store.remove_traces(rows, progress)
    return PruneResult(len(rows), len(matching) - len(rows))


def remove_trace(store: TraceStore, row: TraceRow) -> None:
    """Remove one trace with its chunks.

    Raises:
        PathInUse: it is in the spool of a process that still records.
        CannotWrite: a file cannot be removed.
    """
    if _is_spooled(row):
        message = f"the process that recorded trace {row.summary.id} is still recording"
        raise PathInUse(message, hint="Remove it when the process has ended.")
    store.remove_traces([row])


def _is_spooled(row: TraceRow) -> bool:
    return row.location.container.startswith(f"{SPOOL_FOLDER}/")


def prune_traces_when_due(traces_dir: str, days: int) -> int:
    """Prune at most once a day; return how many traces were removed."""
    stamp = os.path.join(traces_dir, trace_index.INDEX_FOLDER, PRUNED_STAMP)
    if not days or not os.path.isdir(traces_dir) or _age(stamp) < DAY_SECONDS:
        return 0
    with suppress(OSError):
        make_private_folder(os.path.dirname(stamp))
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(stamp)
    store = TraceStore(traces_dir)
    try:
        store.update_index()
        return prune_traces(store, TraceFilter(until=days_ago(days))).removable
    finally:
        store.close()


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return float("inf")
