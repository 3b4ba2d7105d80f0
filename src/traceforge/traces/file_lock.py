"""A lock that a crash releases.

In: an open file. Out: whether this process holds it alone. Never: a lock file that outlives its owner.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 40  # Windows locks bytes, and refuses others to read them: lock one that no file has.

    def lock_file(descriptor: int, *, wait: bool = False) -> bool:
        """Take the lock; False where somebody else has it."""
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock_file(descriptor: int, *, wait: bool = False) -> bool:
        """Take the lock; False where somebody else has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
