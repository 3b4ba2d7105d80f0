"""Lock an open file exclusively. The lock ends with the process, also after a crash."""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 40  # Windows locks bytes, and others cannot read them: lock one beyond the end of any file.

    def lock_file(descriptor: int, *, wait: bool = False) -> bool:
        """Lock the file; False where another process holds the lock."""
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock_file(descriptor: int, *, wait: bool = False) -> bool:
        """Lock the file; False where another process holds the lock."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
