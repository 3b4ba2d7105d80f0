"""What all providers share: a request, the reply to it, and the three ways to write a stream."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from traceforge.model_server.seeded_choice import Dice

JSON_MEDIA = "application/json"
CREATED = 1767225600  # 2026-01-01: when every answer was made, so that it is the same every time
CREATED_TEXT = "2026-01-01T00:00:00Z"


class Request(NamedTuple):
    """A generation call."""

    path: str
    query: str
    body: dict[str, Any]
    salt: str

    @property
    def canonical(self) -> str:
        """The whole request, whatever the order of its keys and its white space."""
        text = json.dumps(self.body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return f"{self.path}\n{text}"

    @property
    def digest(self) -> str:
        """The name of the request, from which all choices are made."""
        return hashlib.sha256(f"{self.salt}\n{self.canonical}".encode("utf-8", "surrogatepass")).hexdigest()


class Reply(NamedTuple):
    """An answer; a stream has several pieces, each sent as it is."""

    pieces: list[bytes]
    media_type: str = JSON_MEDIA
    streaming: bool = False
    status: int = 200


def plain(value: Any) -> Reply:
    """One JSON document."""
    return Reply([_json(value)])


def events(values: Iterable[dict[str, Any]], *, named: bool = False, end: str = "", newline: str = "\n") -> Reply:
    """Server-sent events; `named` takes each event's name from its type."""
    pieces = [
        (f"event: {value['type']}{newline}" if named else "").encode()
        + b"data: "
        + _json(value)
        + 2 * newline.encode()
        for value in values
    ]
    return Reply([*pieces, *([end.encode()] if end else [])], "text/event-stream; charset=utf-8", streaming=True)


def lines(values: Iterable[dict[str, Any]]) -> Reply:
    """Newline-delimited JSON."""
    return Reply([_json(value) + b"\n" for value in values], "application/x-ndjson", streaming=True)


def array(values: Iterable[dict[str, Any]]) -> Reply:
    """A JSON array that comes element by element."""
    found = [_json(value) for value in values]
    pieces = [(b"[" if at == 0 else b",\r\n") + one for at, one in enumerate(found)]
    return Reply([*pieces, b"]"], JSON_MEDIA, streaming=True)


def vector(request: Request, text: Any, dimensions: int) -> list[float]:
    """An embedding of unit length; equal texts of one request have equal ones."""
    dice = Dice(f"{request.digest}/{json.dumps(text)}")
    values = [dice.number(-1_000_000, 1_000_000) / 1_000_000 for _ in range(dimensions)]
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [round(value / length, 8) for value in values]


def text_of(content: Any, key: str = "text") -> str:
    """The text of a message: itself, or that of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part if isinstance(part, str) else str(part.get(key) or "") for part in parts if part)


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # Half of a character was asked about: UTF-8 has no bytes for it, JSON has an escape.
        return json.dumps(value, separators=(",", ":")).encode()
