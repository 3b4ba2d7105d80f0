"""The log of a server on stderr, which never makes the server wait.

A pipe without a reader is full after a few hundred lines, and a server that waits for it answers no more requests. A
line that does not fit is dropped and counted; the number is written when there is room again.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections.abc import Callable

from traceforge.terminal import escape_text

PIECE_BYTES = getattr(select, "PIPE_BUF", 512)  # A pipe that polls as writable takes this much at once.
NEXT_PIECE_WAIT_MS = 100  # For the next piece of a longer line.


class NonBlockingStderr:
    """Writes lines to stderr; `drop_note` words the number of lines that were dropped."""

    def __init__(self, drop_note: Callable[[int], str]) -> None:
        self._drop_note = drop_note
        self._dropped = 0
        self._is_line_cut = False  # A line was written in part.
        self._descriptor = -1  # of stderr, when it was last polled
        self._poller: select.poll | None = None
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        """Write a line, or count it as dropped."""
        with self._lock:
            if self._dropped and self._try_write(self._drop_note(self._dropped)):
                self._dropped = 0
            if self._dropped or not self._try_write(text):
                self._dropped += 1

    def _try_write(self, text: str) -> bool:
        data = (b"\n" if self._is_line_cut else b"") + escape_text(text).encode(errors="replace") + b"\n"
        try:
            return self._write_pieces(data)
        except (OSError, ValueError, AttributeError):  # stderr is closed or missing.
            return False

    def _write_pieces(self, data: bytes) -> bool:
        try:
            descriptor = sys.stderr.fileno()
        except io.UnsupportedOperation:  # stderr is in memory, as in a test.
            sys.stderr.write(data.decode())
            sys.stderr.flush()
            return True
        if descriptor != self._descriptor:
            self._descriptor, self._poller = descriptor, _make_poller(descriptor)
        if self._poller is None:
            os.write(descriptor, data)
            return True
        wait_ms = 0
        for start in range(0, len(data), PIECE_BYTES):
            if not self._poller.poll(wait_ms):
                self._is_line_cut = self._is_line_cut or start > 0
                return False
            os.write(descriptor, data[start : start + PIECE_BYTES])
            wait_ms = NEXT_PIECE_WAIT_MS
        self._is_line_cut = False
        return True


def _make_poller(descriptor: int) -> select.poll | None:
    """A poller that says whether stderr has room; None for a file, and where the system has no poll."""
    kind = os.fstat(descriptor).st_mode
    can_block = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or os.isatty(descriptor)
    if not can_block or not hasattr(select, "poll"):
        return None
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return poller
