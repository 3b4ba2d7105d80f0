"""The previews of calls in lists, kept in memory: a trace never changes, so each is read once.

In: rows of the index. Out: what the calls asked and got. Never: reads longer than READ_SECONDS for one page (rows
that are left without a preview get it when the page asks again); keeps more than PREVIEWS_MAX.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable

from traceforge.errors import CannotRead, InvalidFile, NotFound, NotJSON
from traceforge.traces.trace_index import TraceRow
from traceforge.traces.trace_store import TraceStore
from traceforge.ui.views.call_preview import CallPreview, preview_call

PREVIEWS_MAX = 5_000  # Two megabytes at most, and a hundred pages of the list.
READ_SECONDS = 0.015  # Of the 150 ms in which the first page should be there; it asks for the rest at once.
FILE_BYTES_MAX = 1_000_000  # A larger trace is not read for its preview.


class CallPreviews:
    """The previews of one server. Used from any thread."""

    def __init__(self) -> None:
        self._previews: OrderedDict[str, CallPreview] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, store: TraceStore, rows: Iterable[TraceRow]) -> dict[str, CallPreview]:
        """The previews of these calls by id, as far as they are known or can be read in time."""
        deadline = time.monotonic() + READ_SECONDS
        previews: dict[str, CallPreview] = {}
        for row in rows:
            trace_id = row.summary.id
            preview = self._find_known(trace_id)
            if preview is None and time.monotonic() < deadline:
                preview = read_preview(store, row)
                self._keep(trace_id, preview)
            if preview is not None:
                previews[trace_id] = preview
        return previews

    def _find_known(self, trace_id: str) -> CallPreview | None:
        with self._lock:
            preview = self._previews.get(trace_id)
            if preview is not None:
                self._previews.move_to_end(trace_id)
            return preview

    def _keep(self, trace_id: str, preview: CallPreview) -> None:
        with self._lock:
            self._previews[trace_id] = preview
            while len(self._previews) > PREVIEWS_MAX:
                self._previews.popitem(last=False)


def read_preview(store: TraceStore, row: TraceRow) -> CallPreview:
    """The preview of a call; an empty one if its trace is large, damaged, or was removed meanwhile."""
    try:
        if not row.location.container:
            path = os.path.join(store.folder, row.summary.file_name)
            if os.path.getsize(path) > FILE_BYTES_MAX:
                return CallPreview()
        return preview_call(store.load_trace(row).body)
    except (NotFound, NotJSON, InvalidFile, CannotRead, OSError):
        return CallPreview()
