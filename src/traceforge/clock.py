"""The one clock.

Out: the current time as an instant, and as the text we store. Never: a time zone other than
UTC. Tests pin it with `pinned`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from functools import lru_cache

# The one spelling of an instant we read: RFC 3339 with a zone. `$` alone would let a newline through.
TIMESTAMP_PATTERN = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$(?!\n)"
)

_TIMESTAMP = re.compile(TIMESTAMP_PATTERN)
_SECONDS, _ZONE = len("2026-01-09T10:30:00"), len("+00:00")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_pinned: ContextVar[datetime | None] = ContextVar("pinned", default=None)


def now() -> datetime:
    """The current instant, in UTC."""
    return _pinned.get() or datetime.now(UTC)


@contextmanager
def pinned(instant: datetime) -> Iterator[None]:
    """Stop the clock at `instant`, in this context only."""
    token = _pinned.set(instant)
    try:
        yield
    finally:
        _pinned.reset(token)


def timestamp_text(instant: datetime) -> str:
    """Write an instant as we store it: UTC, milliseconds, `Z`."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def days_ago(days: float) -> str:
    """The timestamp of that many days before now; never before 1970."""
    try:
        return timestamp_text(max(now() - timedelta(days=days), _EPOCH))
    except OverflowError:
        return timestamp_text(_EPOCH)


def now_text() -> str:
    """The current instant as we store it; as `timestamp_text(now())`, for where it is needed with every call."""
    global _second, _millisecond  # noqa: PLW0603 (a proxy under load has ten calls in a millisecond)
    pinned_at = _pinned.get()
    if pinned_at is not None:
        return timestamp_text(pinned_at)
    milliseconds = time.time_ns() // 1_000_000
    latest = _millisecond
    if latest[0] == milliseconds:
        return latest[1]
    second = milliseconds // 1000
    current = _second
    if current[0] != second:
        current = _second = (second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)))
    text = f"{current[1]}.{milliseconds % 1000:03}Z"
    _millisecond = (milliseconds, text)
    return text


_second = (-1, "")  # The latest second, and its text up to the fraction.
_millisecond = (-1, "")  # The latest millisecond, and its whole text.


def is_timestamp(text: str) -> bool:
    """Whether the text has the form of a timestamp. The day that it names may still not exist."""
    return _TIMESTAMP.match(text) is not None


@lru_cache(maxsize=1024)
def find_instant(text: str) -> tuple[datetime, int] | None:
    """Read a stored timestamp: the instant to the second, and its nanoseconds.

    None: it is not a timestamp, or names a day that does not exist. Pairs sort as the instants do.
    """
    if not is_timestamp(text):
        return None
    seconds, zone = text[:_SECONDS], -1 if text[-1] == "Z" else -_ZONE
    fraction = text[_SECONDS + 1 : zone]  # behind its point, where it has one
    try:
        return datetime.fromisoformat(seconds + text[zone:]).astimezone(UTC), int(fraction.ljust(9, "0"))
    except (ValueError, OverflowError):
        return None
