"""The log: one line of JSON for each request, and for each mistake of ours.

In: what happened. Out: lines. Never: content, a key, a header, a query, or the text of an error that nobody wrote for
a log; a writer that is full or closed changes no answer.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from traceforge.canon import JSON, json_bytes
from traceforge.clock import now_text


class RequestLog:
    """Writes lines."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def request(self, **fields: JSON) -> None:
        """A request ended."""
        self._line("info", "request", {name: value for name, value in fields.items() if value is not None})

    def failure(self, request_id: str, exc: BaseException) -> None:
        """A mistake of ours: the kind of error and the places it came through."""
        places: list[JSON] = [
            f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(exc.__traceback__)[-8:]
        ]
        self._line("error", "internal_error", {"request_id": request_id, "error": type(exc).__name__, "at": places})

    def say(self, event: str, **fields: JSON) -> None:
        """Something about the server itself."""
        self._line("info", event, fields)

    def _line(self, level: str, event: str, fields: dict[str, JSON]) -> None:
        self._write(_text(level, event, fields))


def lost_lines(count: int) -> str:
    """The line that stands for so many that nobody took."""
    return _text("warning", "lines_lost", {"count": count})


def _text(level: str, event: str, fields: dict[str, JSON]) -> str:
    return json_bytes({"time": now_text(), "level": level, "event": event, **fields}).decode()
