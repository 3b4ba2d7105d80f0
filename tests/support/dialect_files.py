"""Documented calls of every dialect, from `tests/unit/wire/dialects/<dialect>.json`, and their bytes on the wire.

name      what the call shows, such as `tools stream`
url       where it goes
request   its body
answer    the JSON of the response, or
stream    its events; a text is a line as it is, such as `[DONE]` or a comment
framing   how the stream is divided, where it is not what the dialect declares
view      what a reader of the trace must see: `asked`, `text`, `reasoning`, `calls`, `finish`, `tokens` of prompt
          and answer, and how many `vectors` or `results` there are
"""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from support.bedrock_frames import event
from traceforge.wire.dialect_declaration import BodyFraming
from traceforge.wire.dialects import find_framing_of
from traceforge.wire.endpoints import Endpoint, find_endpoint
from traceforge.wire.response_reader import ParsedResponse, read_response

FOLDER = Path(__file__).parents[1] / "unit" / "wire" / "dialects"
MEDIA_TYPES = {
    BodyFraming.WHOLE: "application/json",
    BodyFraming.SSE: "text/event-stream",
    BodyFraming.LINES: "application/x-ndjson",
    BodyFraming.FRAMES: "application/vnd.amazon.eventstream",
}


class DialectCall(NamedTuple):
    """One documented call."""

    dialect: str
    name: str
    url: str
    request: dict[str, Any]
    answer: Any
    stream: list[Any] | None
    framing: BodyFraming
    view: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.dialect}: {self.name}"

    @property
    def endpoint(self) -> Endpoint:
        return find_endpoint("POST", self.url)

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.framing]

    @property
    def pieces(self) -> list[bytes]:
        """The body of the response; of a stream, event by event."""
        if self.stream is None:
            return [json.dumps(self.answer).encode()]
        return [frame_event(self.framing, item) for item in self.stream]

    def read(self, body: bytes | None = None) -> ParsedResponse:
        """TraceForge's reading of this response, or of another body in its place."""
        return read_response(self.endpoint, 200, self.media_type, b"".join(self.pieces) if body is None else body)


def frame_event(framing: BodyFraming, item: Any) -> bytes:
    """An event as a server sends it; its `type` is its name, if it has one."""
    if framing is BodyFraming.FRAMES:
        return frame_binary(item)
    data = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    if framing is BodyFraming.LINES:
        return f"{data}\n".encode("utf-8", "surrogatepass")
    name = item.get("type") if isinstance(item, dict) else None
    head = f"event: {name}\n" if isinstance(name, str) else ""
    text = f"{data}\n\n" if data.startswith(":") else f"{head}data: {data}\n\n"
    return text.encode("utf-8", "surrogatepass")


def frame_binary(item: Any) -> bytes:
    """A frame of Bedrock: `{"messageStop": {…}}` is an event of that name."""
    if isinstance(item, dict) and len(item) == 1:
        ((name, value),) = item.items()
        if name == "chunk":
            value = {"bytes": base64.b64encode(json.dumps(value).encode()).decode()}
        return event(name[:200].encode("ascii", "replace").decode(), value)
    return event("chunk", item)


def dialect_files() -> list[str]:
    """The dialects that have a file."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def dialect_calls() -> tuple[DialectCall, ...]:
    """The calls of all files."""
    return tuple(_read_call(path.stem, row) for path in sorted(FOLDER.glob("*.json")) for row in _rows(path))


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["calls"]
    return rows


def _read_call(dialect: str, row: dict[str, Any]) -> DialectCall:
    framing = BodyFraming.WHOLE
    if "stream" in row:
        framing = BodyFraming(row.get("framing") or find_framing_of(find_endpoint("POST", row["url"])))
    if framing is BodyFraming.ARRAY:  # asked for with `alt=sse`, as the SDKs do
        framing = BodyFraming.SSE
    return DialectCall(
        dialect, row["name"], row["url"], row["request"], row.get("answer"), row.get("stream"), framing, row["view"]
    )
