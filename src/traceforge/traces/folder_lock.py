"""The lock of a traces folder: one process at a time moves, rewrites or removes traces.

Recording and reading need no lock. A process that moves a trace holds a copy of it for a moment; without the lock,
the copy could reappear after a purge.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from traceforge.errors import CannotWrite
from traceforge.traces.file_lock import lock_file

LOCK_FILE = ".gate"
_PAUSE_S = 0.02


@contextmanager
def lock_traces_folder(traces_dir: str, *, seconds: float = float("inf")) -> Iterator[bool]:
    """Hold the lock in a `with` block; False where others held it all this time. A crash releases it.

    Raises:
        CannotWrite: the folder cannot be opened.
    """
    try:
        descriptor = _open_lock_target(traces_dir)
    except OSError as exc:
        raise CannotWrite(traces_dir, exc) from None
    try:
        deadline = time.monotonic() + seconds
        while not (is_locked := lock_file(descriptor)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        yield is_locked
    finally:
        os.close(descriptor)


def _open_lock_target(traces_dir: str) -> int:
    """The folder itself, or a file in it on Windows, where folders cannot be locked."""
    if os.name == "nt":
        return os.open(os.path.join(traces_dir, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o600)
    return os.open(traces_dir, os.O_RDONLY | os.O_CLOEXEC)
