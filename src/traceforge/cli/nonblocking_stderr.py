"""What a server says on stderr while it serves.

In: lines. Out: the same lines, where somebody takes them. Never: a wait for a reader: a pipe that nobody reads is
full after a few hundred lines, and a server that waits for it answers nobody any more. A line that does not fit is
dropped and counted; how many it were is said when there is room again.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections.abc import Callable

PIECE_BYTES = getattr(select, "PIPE_BUF", 512)  # A pipe that says it has room takes as much at once.
REST_MS = 100  # For what is left of a line that is longer than that.


class Talk:
    """Says lines; `lost` words how many could not be said."""

    def __init__(self, lost: Callable[[int], str]) -> None:
        self._lost = lost
        self._dropped = 0
        self._torn = False  # Was a line broken off?
        self._number = -1  # of the file that stderr is
        self._poller: select.poll | None = None
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        """Say it, or count it."""
        with self._lock:
            if self._dropped and self._write(self._lost(self._dropped)):
                self._dropped = 0
            if self._dropped or not self._write(text):
                self._dropped += 1

    def _write(self, text: str) -> bool:
        data = (b"\n" if self._torn else b"") + text.encode(errors="replace") + b"\n"
        try:
            return self._write_pieces(data)
        except (OSError, ValueError, AttributeError):  # It is closed, or there is none.
            return False

    def _write_pieces(self, data: bytes) -> bool:
        try:
            number = sys.stderr.fileno()
        except io.UnsupportedOperation:  # It is something in memory.
            sys.stderr.write(data.decode())
            sys.stderr.flush()
            return True
        if number != self._number:
            self._number, self._poller = number, _poller(number)
        if self._poller is None:
            os.write(number, data)
            return True
        wait_ms = 0
        for start in range(0, len(data), PIECE_BYTES):
            if not self._poller.poll(wait_ms):
                self._torn = self._torn or start > 0
                return False
            os.write(number, data[start : start + PIECE_BYTES])
            wait_ms = REST_MS
        self._torn = False
        return True


def _poller(number: int) -> select.poll | None:
    """Who knows whether there is room; None for a file, which always has some, and where the system cannot tell."""
    kind = os.fstat(number).st_mode
    somebody_reads = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(number)
    if not somebody_reads or not hasattr(select, "poll"):
        return None
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    return poller
