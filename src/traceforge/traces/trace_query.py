"""The words with which people choose traces: `provider:openai status:error since:2h refund`.

In: text of a command line or a page. Out: a filter, and the words to search for. Never: reads a trace.

`name:value` filters by a field, as the option of the same name of `traceforge trace list` does. Everything else is
searched for in prompts and answers, as `traceforge trace search` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from traceforge.clock import find_instant, now, timestamp_text
from traceforge.traces.trace_index import TraceFilter

STATUSES = ("success", "error")
FIELDS = ("provider", "model", "status", "session", "test", "endpoint", "since", "until")

_AGO = re.compile(r"([0-9]{1,6})([smhdw])\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TERM = re.compile(r'([a-z]+):"([^"]*)"|([a-z]+):(\S*)|("[^"]*"\*?|\S+)')


class InvalidQuery(ValueError):
    """A part of a query has no meaning; the message says what to write."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class TraceQuery(NamedTuple):
    """A filter, and the words that a trace must contain; "" for every trace."""

    filter: TraceFilter
    words: str = ""


def read_query(text: str, fields: Mapping[str, str] | None = None) -> TraceQuery:
    """Read a query; `fields` are values by the names in FIELDS, and those in the text take precedence.

    Raises:
        InvalidQuery: a time or a status is not one.
    """
    values = {name: value.strip() for name, value in (fields or {}).items() if value.strip()}
    words: list[str] = []
    for term in _TERM.finditer(text):
        name = term[1] or term[3]
        if name in FIELDS:
            values[name] = term[2] if term[1] else term[4]
        else:
            words.append(term[0])
    return TraceQuery(make_filter(values), " ".join(words))


def make_filter(values: Mapping[str, str]) -> TraceFilter:
    """The filter of values by the names in FIELDS; the name of a test is the session of its calls.

    Raises:
        InvalidQuery: a time or a status is not one.
    """
    status = values.get("status", "")
    if status and status not in STATUSES:
        raise InvalidQuery("status", f"{status!r} is no status. Write {' or '.join(STATUSES)}.")
    return TraceFilter(
        provider=values.get("provider", ""),
        model=values.get("model", ""),
        status=status,
        session_id=values.get("session", "") or values.get("test", ""),
        endpoint=values.get("endpoint", ""),
        since=read_time(values.get("since", ""), "since"),
        until=read_time(values.get("until", ""), "until"),
    )


def read_time(text: str, name: str) -> str:
    """A timestamp: a timestamp, a day, or how long ago, as `2h`; "" for no text.

    Raises:
        InvalidQuery: the text is not a time.
    """
    if not text:
        return ""
    ago = _AGO.match(text)
    try:
        if ago:
            return timestamp_text(now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
    except OverflowError:
        raise InvalidQuery(name, f"{text} is before the year 1.") from None
    for candidate in (text, f"{text}T00:00:00Z", f"{text}Z"):
        if find_instant(candidate):
            return candidate
    message = f"{text!r} is not a time. Write 2026-01-31, 2026-01-31T12:00:00Z, 30m, 2h or 7d."
    raise InvalidQuery(name, message)
