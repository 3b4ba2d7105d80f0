"""What all providers share: a request, the reply to it, and three formats of streams."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from traceforge.model_server.seeded_choice import SeededChoices

JSON_MEDIA = "application/json"
CREATED = 1767225600  # 2026-01-01, the time of every answer, so that it is the same every time.
CREATED_TEXT = "2026-01-01T00:00:00Z"


class BadRequest(Exception):
    """A request that a provider would refuse; `param` is the option that is wrong, where it is one, and `code` is
    OpenAI's word for what is wrong, where it has one.
    """

    def __init__(self, message: str, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


class ApiRequest(NamedTuple):
    """A model call: its path, query and JSON body, and the server's salt."""

    path: str
    query: str
    body: dict[str, Any]
    salt: str

    @property
    def canonical(self) -> str:
        """The whole request as text, independent of key order and white space."""
        text = json.dumps(self.body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return f"{self.path}\n{text}"

    @property
    def digest(self) -> str:
        """The digest of the request, which is the seed of its answer."""
        return hashlib.sha256(f"{self.salt}\n{self.canonical}".encode("utf-8", "surrogatepass")).hexdigest()


class ApiReply(NamedTuple):
    """A response; a stream has several chunks, which are sent one by one."""

    chunks: list[bytes]
    media_type: str = JSON_MEDIA
    is_stream: bool = False
    status: int = 200


def json_reply(value: Any) -> ApiReply:
    return ApiReply([_json(value)])


def event_stream_reply(
    values: Iterable[dict[str, Any]], *, named: bool = False, end: str = "", newline: str = "\n"
) -> ApiReply:
    """Server-sent events; `named` takes each event's name from its type."""
    chunks = [
        (f"event: {value['type']}{newline}" if named else "").encode()
        + b"data: "
        + _json(value)
        + 2 * newline.encode()
        for value in values
    ]
    if end:
        chunks.append(end.encode())
    return ApiReply(chunks, "text/event-stream; charset=utf-8", is_stream=True)


def ndjson_reply(values: Iterable[dict[str, Any]]) -> ApiReply:
    return ApiReply([_json(value) + b"\n" for value in values], "application/x-ndjson", is_stream=True)


def json_array_reply(values: Iterable[dict[str, Any]]) -> ApiReply:
    """A JSON array that comes element by element."""
    chunks = [(b",\r\n" if index else b"[") + _json(value) for index, value in enumerate(values)]
    return ApiReply([*chunks, b"]"], JSON_MEDIA, is_stream=True)


def embedding_vector(request: ApiRequest, text: Any, dimensions: int) -> list[float]:
    """An embedding of unit length; equal texts of one request have equal embeddings."""
    choices = SeededChoices(f"{request.digest}/{json.dumps(text)}")
    values = [choices.integer(-1_000_000, 1_000_000) / 1_000_000 for _ in range(dimensions)]
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [round(value / length, 8) for value in values]


def content_text(content: Any, key: str = "text") -> str:
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part if isinstance(part, str) else str(part.get(key) or "") for part in parts if part)


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # A lone surrogate: UTF-8 has no bytes for it, JSON has an escape.
        return json.dumps(value, separators=(",", ":")).encode()
