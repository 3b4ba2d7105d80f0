"""The gate: one process at a time moves traces.

In: a traces folder. Out: the right to move, rewrite and remove what stands in it. Never: in the way of who records or
reads. Whoever moves a trace holds a copy of it for a moment; without the gate it could come back after a purge.
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
    """Hold the gate; False where others had it for all this time. A crash lets go of it.

    Raises:
        CannotWrite: the folder is not ours to open.
    """
    try:
        descriptor = _open_lock_target(traces_dir)
    except OSError as exc:
        raise CannotWrite(traces_dir, (exc.strerror or str(exc)).lower()) from None
    try:
        deadline = time.monotonic() + seconds
        while not (is_locked := lock_file(descriptor)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        yield is_locked
    finally:
        os.close(descriptor)


def _open_lock_target(traces_dir: str) -> int:
    """What is locked: the folder itself, and a file in it where a system locks no folders."""
    if os.name == "nt":
        return os.open(os.path.join(traces_dir, LOCK_FILE), os.O_RDWR | os.O_CREAT, 0o600)
    return os.open(traces_dir, os.O_RDONLY | os.O_CLOEXEC)
