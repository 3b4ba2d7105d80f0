"""Put on PYTHONPATH, it moves the clock of a process by the seconds in the file SOAK_CLOCK, which may change.

The system's clock stays as it is, and so do the monotonic clocks, as when an administrator sets the time.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any

from traceforge import clock

_SECONDS = struct.Struct("<q")
with open(os.environ["SOAK_CLOCK"], "rb") as _file:
    _shift = mmap.mmap(_file.fileno(), _SECONDS.size, access=mmap.ACCESS_READ)
_real_time, _real_time_ns = time.time, time.time_ns


def _seconds() -> int:
    return int(_SECONDS.unpack_from(_shift)[0])


class _MovedDatetime(datetime):
    """The class that `traceforge.clock` asks for the time."""

    fromisoformat: Any = staticmethod(datetime.fromisoformat)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + timedelta(seconds=_seconds())


clock.datetime = _MovedDatetime  # type: ignore[misc]
time.time = lambda: _real_time() + _seconds()
time.time_ns = lambda: _real_time_ns() + _seconds() * 1_000_000_000
