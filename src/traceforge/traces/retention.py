"""Retention: traces go when their time is over.

In: a traces folder and a number of days. Out: the traces that are younger. Never: more than once a day by itself, and
never where the number is 0, which means for ever.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from traceforge.clock import days_ago
from traceforge.files import make_private_folder
from traceforge.traces import index
from traceforge.traces.index import Filter
from traceforge.traces.store import TraceStore

DAY_SECONDS = 86_400
STAMP = "pruned"  # A file beside the index; its time says when traces were last pruned.


def prune(store: TraceStore, days: int) -> int:
    """Remove what is older than so many days; how many traces that were.

    Raises:
        CannotWrite: a file is not ours to remove.
    """
    rows = store.rows(Filter(until=days_ago(days)))
    store.remove(rows)
    return len(rows)


def prune_when_due(traces_dir: str, days: int) -> int:
    """Prune, unless it was done within the last day, or traces are kept for ever."""
    stamp = os.path.join(traces_dir, index.FOLDER, STAMP)
    if not days or not os.path.isdir(traces_dir) or _age(stamp) < DAY_SECONDS:
        return 0
    with suppress(OSError):
        make_private_folder(os.path.dirname(stamp))
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(stamp)
    store = TraceStore(traces_dir)
    try:
        store.bring_up_to_date()
        return prune(store, days)
    finally:
        store.close()


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return float("inf")
