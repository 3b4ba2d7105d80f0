"""The log: one line of JSON for each request, and for each internal error.

Never: content, a key, a header, a query, or the text of an error that was not written for a log.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass

from traceforge.canon import JSON, json_bytes
from traceforge.clock import now_text
from traceforge.terminal import escape_json


@dataclass(slots=True)
class RequestRecord:
    """What is logged and counted of a request; endpoints fill it in while they answer."""

    request_id: str
    method: str
    operation: str = "none"
    status: int = 0  # 0: the client left before the response began.
    bytes_in: int = 0
    bytes_out: int = 0
    project_id: str | None = None
    code: str | None = None


class RequestLog:
    """Writes one JSON line for each request and each internal error."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def request(self, record: RequestRecord, seconds: float) -> None:
        """Log a request that ended."""
        fields: dict[str, JSON] = {
            "request_id": record.request_id,
            "method": record.method if record.operation != "none" else "",
            "operation": record.operation,
            "status": record.status,
            "duration_ms": round(seconds * 1000, 3),
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
        }
        if record.project_id is not None:
            fields["project_id"] = record.project_id
        if record.code is not None:
            fields["code"] = record.code
        self._line("info", "request", fields)

    def failure(self, request_id: str, exc: BaseException) -> None:
        """Log an internal error: its type and the lines it was raised through, never its text."""
        places: list[JSON] = [
            f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(exc.__traceback__)[-8:]
        ]
        self._line("error", "internal_error", {"request_id": request_id, "error": type(exc).__name__, "at": places})

    def log_event(self, event: str, **fields: JSON) -> None:
        """Log an event of the server itself."""
        self._line("info", event, fields)

    def _line(self, level: str, event: str, fields: dict[str, JSON]) -> None:
        self._write(_text(level, event, fields))


def lost_lines(count: int) -> str:
    """The line that replaces `count` lines that could not be written."""
    return _text("warning", "lines_lost", {"count": count})


def _text(level: str, event: str, fields: dict[str, JSON]) -> str:
    return escape_json(json_bytes({"time": now_text(), "level": level, "event": event, **fields})).decode()
