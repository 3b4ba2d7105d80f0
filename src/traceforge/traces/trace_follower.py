"""Follow a traces folder: the traces that were recorded since."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import msgspec

from traceforge.clock import now, timestamp_text
from traceforge.traces.trace_index import TraceFilter, TraceRow
from traceforge.traces.trace_store import TraceStore

POLL_S = 0.5
WINDOW = timedelta(hours=1)  # A trace has the time when its call began: of a call that took longer, none is seen.


class TraceFollower:
    """Knows which traces were there already. Used by one thread, as its store is."""

    def __init__(self, store: TraceStore, trace_filter: TraceFilter) -> None:
        self._store = store
        since = timestamp_text(now() - WINDOW)
        is_narrower = trace_filter.since > since
        self._filter = trace_filter if is_narrower else msgspec.structs.replace(trace_filter, since=since)
        self._seen_names = {row.summary.file_name for row in store.list_rows(self._filter)}

    def find_new(self) -> list[TraceRow]:
        """The traces that were recorded since the last call, oldest first."""
        self._store.update_index()
        rows = self._store.list_rows(self._filter, oldest_first=True)
        new_rows = [row for row in rows if row.summary.file_name not in self._seen_names]
        self._seen_names |= {row.summary.file_name for row in new_rows}
        return new_rows

    def follow(self) -> Iterator[list[TraceRow]]:
        """The new traces, again and again, for ever."""
        while True:
            time.sleep(POLL_S)
            yield self.find_new()


class TraceChanges:
    """Notices that traces were recorded or removed; a look takes the same time however many there are."""

    def __init__(self) -> None:
        self._last: tuple[int, list[TraceRow]] | None = None

    def find(self, store: TraceStore) -> bool:
        """Whether there were changes since the last look; the first one finds none. `store` must be up to date."""
        state = store.count_traces(TraceFilter()), store.list_rows(limit=1)
        last, self._last = self._last, state
        return last is not None and last != state
